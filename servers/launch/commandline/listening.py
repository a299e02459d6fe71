"""The port, address and network of a draft: where a pasted server listens."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from servers.launch.commandline import docker_options, engine_words
from servers.launch.commandline.container_draft import is_project_name, read_port
from servers.launch.commandline.engine_words import EngineFlags
from servers.launch.commandline.import_notes import NoteList
from servers.launch.commandline.tokens import LaunchCommand
from servers.launch.engines import ENGINES

LOOPBACK = ("127.0.0.1", "localhost", "::1")
# Engines that are told no host and then listen on every address, outside of their images.
_OPEN_BY_DEFAULT = ("vllm",)


@dataclass(frozen=True, kw_only=True)
class ListeningDraft:
    values: dict[str, Any]  # fields of Launch
    flags: tuple[str, ...] = ()  # of the engine, besides its others


def draft_listening(
    command: LaunchCommand,
    said: EngineFlags,
    env: Mapping[str, str],
    notes: NoteList,
    *,
    keeps_network: bool,
) -> ListeningDraft:
    """`keeps_network`: an engine that runs on the host's network stays there."""
    return _ListeningDrafter(command, said, env, notes, keeps_network).draft()


@dataclass(frozen=True)
class _ListeningDrafter:
    command: LaunchCommand
    said: EngineFlags
    env: Mapping[str, str]
    notes: NoteList
    keeps_network: bool

    def draft(self) -> ListeningDraft:
        engine = ENGINES[self.said.engine]
        port = self.said.port_number
        published = [read_port(text) for text in self.command.ports]
        inside = {each[2] for each in published if each}
        if not port and engine.newer_port in inside and engine.default_port not in inside:
            port = engine.newer_port
        wanted = port or engine.default_port
        if self.said.port and not self.said.port_number:
            self._note_no_number(wanted)
        values: dict[str, Any] = {"port": port if port != engine.default_port else 0}
        if self.command.kind == "engine_command":
            needs = docker_options.needs_host_network(self.said.flags, self.env)
            if needs:
                return self._stay(values, f"--network host is added, because of {needs}")
            return ListeningDraft(values=values | {"host_port": self._note_bare(wanted)})
        network = self.command.network or "bridge"
        if network == "host":
            return self._draft_host_network(values, wanted)
        return ListeningDraft(values=values | self._draft_bridge(network, wanted))

    def _note_no_number(self, wanted: int) -> None:
        ends = [f" (-p {text})" for text in self.command.ports if text.endswith(f":{wanted}")]
        if self.command.kind == "engine_command":
            ends = [", and published on a free port of 127.0.0.1"]
        where = "".join(ends[:1])
        self.notes.say("port-no-number", port=self.said.port, taken=wanted, where=where)

    def _note_bare(self, wanted: int) -> int:
        """The port on the box, which a bare command has without any other in between."""
        host = self.said.host
        if self.said.port and not self.said.port_number:
            return 0
        if host in LOOPBACK or (host is None and self.said.engine not in _OPEN_BY_DEFAULT):
            return wanted
        is_all = host in (None, "0.0.0.0", "::")  # noqa: S104 - what the paste says
        where = "of every address" if is_all else f"of {host}"
        shown = f" (--host {host})" if host else ""
        other = "0.0.0.0" if is_all else host  # noqa: S104 - for a person to write
        self.notes.say("bare-published", port=wanted, where=where, shown=shown, other=other)
        return wanted

    def _draft_host_network(self, values: dict[str, Any], wanted: int) -> ListeningDraft:
        for text in self.command.ports:
            self.notes.gather("host-network-publishes", f"-p {text}")
        # A script's own words count, and they may say another port.
        stays = self.keeps_network or bool(engine_words.kept_script(self.command))
        needs = docker_options.needs_host_network(self.said.flags, self.env)
        if needs and not stays:
            return self._stay(values, f"--network host stays, because of {needs}")
        if not stays:
            says = docker_options.describe_host_port(wanted)
            if self.said.host in LOOPBACK:
                says = docker_options.describe_host_port(wanted, is_local=True)
            self.notes.add("assumed", says)
            return ListeningDraft(values=values | {"network": "bridge", "host_port": wanted})
        return self._stay(values, "")

    def _stay(self, values: dict[str, Any], why: str) -> ListeningDraft:
        """On the host's network, where the engine's own flag decides who reaches it."""
        if why:
            self.notes.say("host-network", why=why)
        is_script = bool(engine_words.kept_script(self.command))
        if self.said.host is None and self.said.engine in _OPEN_BY_DEFAULT and not is_script:
            port = values["port"] or ENGINES[self.said.engine].default_port
            self.notes.say("host-network-loopback", port=port)
        flags = ("--host", self.said.host) if self.said.host not in (None, "127.0.0.1") else ()
        return ListeningDraft(values=values | {"network": "host"}, flags=flags)

    def _draft_bridge(self, network: str, wanted: int) -> dict[str, Any]:
        values: dict[str, Any] = {"network": network}
        published = [read_port(text) for text in self.command.ports]
        mine = next((each for each in published if each and each[2] == wanted), None)
        if mine is not None:
            values |= {"host_address": mine[0], "host_port": mine[1]}
        for text, each in zip(self.command.ports, published, strict=True):
            if each is None and text.endswith((f":{wanted}", f":{self.said.port}")):
                self.notes.say("port-of-box", port=text)
                mine = mine or ("", 0, wanted)
            elif each is None or each is not mine:
                self.notes.gather("port-not-published", f"-p {text}", port=wanted)
        if mine is None:
            self.notes.say("port-published", port=wanted)
        if self.said.host and self.said.host not in ("0.0.0.0", "::"):  # noqa: S104
            self.notes.say("host-inside", host=self.said.host)
        note_network(self.command, network, self.notes)
        return values


def note_network(command: LaunchCommand, network: str, notes: NoteList) -> None:
    """What a profile cannot say of a network, or what the paste leaves open of its name."""
    if ":" in network or network == "none":
        notes.say("network-own", network=network)
    elif network != "bridge" and is_project_name(command, network):
        notes.say("network-of-project", network=network)
