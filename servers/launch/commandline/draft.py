"""A pasted command as the draft of a profile: never a launch, and open about what it assumes."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from servers.launch import sizes
from servers.launch.commandline import (
    bare_process,
    docker_options,
    engine_flags,
    engine_words,
    text_boxes,
    tokens,
)
from servers.launch.commandline.export import HF_TOKEN, HOST_STAYS
from servers.launch.commandline.lines import reasons
from servers.launch.commandline.text_boxes import ulimit
from servers.launch.commandline.tokens import EngineKey, LaunchCommand
from servers.launch.engines import ENGINES, official_image
from servers.launch.engines.engine import SECRET_FLAGS, flag_value
from servers.launch.engines.launch import FIELDS, Launch

type Kind = Literal["assumed", "ignored", "unresolved", "trusts"]

HF_TOKENS = (HF_TOKEN, "HUGGING_FACE_HUB_TOKEN")
_VOLUME = re.compile(r"[A-Za-z0-9][\w.-]*")  # of Docker, by its name
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, kw_only=True)
class ImportNote:
    kind: Kind
    says: str


@dataclass(frozen=True, kw_only=True)
class Draft:
    name: str
    launch: Launch
    # Variables whose values belong under lock: name -> value, "" where the paste has none.
    secrets: dict[str, str] = field(default_factory=dict)
    remarks: tuple[ImportNote, ...] = ()


class DraftError(ValueError):
    """A command that no profile can be made of; the text says why."""


class UnknownEngineError(DraftError):
    """Neither image nor words say which engine it is: a person may know."""


def draft(
    command: LaunchCommand,
    *,
    text: str = "",
    engine: EngineKey | None = None,
    keeps_network: bool = False,
) -> Draft:
    """Raises DraftError for a command that starts none of the engines.

    `text` is the paste itself: its comments become reasons. `engine` is what a person says is
    in an image whose name and words do not tell; else UnknownEngineError is raised for it.
    `keeps_network`: an engine that runs on the host's network stays there. What a guide says of it
    becomes a published port, but for an engine of a cluster and for what inferdash wrote out itself.
    """
    if command.engine is None and engine is not None:
        command = replace(command, engine=engine)
    keeps_network = keeps_network or HOST_STAYS in text
    made = _Drafter(command, keeps_network=keeps_network).draft()
    flags = {word.partition("=")[0] for word in made.launch.flags if word.startswith("-")}
    names = flags | set(made.launch.env) | set(made.secrets)
    return replace(made, launch=replace(made.launch, reasons=reasons(text, names)))


class _Drafter:
    def __init__(self, command: LaunchCommand, *, keeps_network: bool) -> None:
        self.command = command
        self.keeps_network = keeps_network
        self.remarks: list[ImportNote] = []
        self.env: dict[str, str] = {}
        self.secrets: dict[str, str] = {}
        self.passes_token = False

    def draft(self) -> Draft:
        command = self.command
        if command.engine == "other":
            return self._other()
        found = engine_words.engine_words(command)
        if command.engine is None and command.image:
            raise UnknownEngineError(
                f"Neither the name {command.image} nor its command says which engine is in it."
            )
        if command.engine is None or found is None:
            raise DraftError(
                "This command starts none of the engines that a profile can hold: vLLM, SGLang "
                "and llama.cpp."
            )
        said = engine_flags.split(command.engine, found, command.env)
        self._environment(said.variables)
        checkpoint, mounts = self._checkpoint(said.checkpoint or "")
        container = self._container()
        container["volumes"] += mounts
        launch = Launch(
            engine=command.engine,
            image=self._image(),
            checkpoint=checkpoint,
            served_name=said.served_name or "",
            flags=said.flags,
            env=self.env,
            pass_hf_token=self.passes_token,
            mount_hf_cache=self._mounts_cache(),
            gpus=self._gpus(),
            **self._network(said),
            **container,
        )
        if not launch.checkpoint:
            self._remark("unresolved", "The paste names no model: write one.")
        self._tell_rest(launch)
        return Draft(
            name=self._name(launch),
            launch=launch,
            secrets=self.secrets,
            remarks=tuple(self.remarks),
        )

    def _other(self) -> Draft:
        """A program that serves no models: its image, its words, and where it listens."""
        command = self.command
        if not command.image:
            raise DraftError(
                "This command runs no container: a profile of another program needs one."
            )
        self._environment()
        container = self._container()
        published = [each for text in command.ports if (each := engine_words.read_port(text))]
        port = published[0] if published else ("127.0.0.1", 0, 0)
        for text in command.ports[1:]:
            self._remark("ignored", f"-p {text}: one port is published, the first.")
        launch = Launch(
            engine="other",
            image=command.image,
            checkpoint="",
            flags=command.command,
            env=self.env,
            pass_hf_token=False,
            mount_hf_cache=False,
            gpus=self._gpus(),
            host_address=port[0],
            host_port=port[1],
            port=port[2],
            network="host" if command.network == "host" else command.network or "bridge",
            **container,
        )
        if not launch.port:
            self._remark("unresolved", "The paste names no port: write where the program listens.")
        self._remark("unresolved", "Write the path that answers when it is ready, such as /health.")
        self._tell_rest(launch)
        return Draft(
            name=self._name(launch),
            launch=launch,
            secrets=self.secrets,
            remarks=tuple(self.remarks),
        )

    def _remark(self, kind: Kind, says: str) -> None:
        self.remarks.append(ImportNote(kind=kind, says=says))

    def _name(self, launch: Launch) -> str:
        said = self.command.name or self.command.service or launch.served_name or launch.checkpoint
        said = said or launch.image.partition("@")[0].rpartition("/")[2].partition(":")[0]
        return said.rstrip("/").rsplit("/", 1)[-1][:100]

    def _image(self) -> str:
        if self.command.image:
            return self.command.image
        assert self.command.engine is not None
        image = official_image(self.command.engine)
        self._remark(
            "assumed",
            f"The paste runs without a container. {image} is the engine's official image: choose "
            "the version that the paste was written for.",
        )
        return image

    def _checkpoint(self, said: str) -> tuple[str, tuple[str, ...]]:
        """The checkpoint as the container sees it, and the mount that a path needs there."""
        if self.command.kind != "engine_command":
            return said, ()
        model = bare_process.model(said)
        if model.assumed:
            self._remark("assumed", model.assumed)
        if model.unresolved:
            self._remark("unresolved", model.unresolved)
        return model.inside, model.mounts

    def _environment(self, of_fields: Collection[str] = ()) -> None:
        """`of_fields`: variables that have become fields of the profile."""
        is_bare = self.command.kind == "engine_command"
        places = bare_process.places(self.command.env) if is_bare else ()
        for name in places:
            says = f"{name}={self.command.env[name]}: a path of the box; the container has its own."
            self._remark("ignored", says)
        for name, value in self.command.env.items():
            if name in of_fields or name in places:
                continue
            is_secret = text_boxes.is_secret(name) or text_boxes.is_token(value or "")
            is_open = tokens.is_secret_open(value) if is_secret else value is None
            if name in HF_TOKENS and is_open:
                self.passes_token = True
                self._remark("assumed", f"{name} is the box's own Hugging Face token.")
            elif is_secret:
                self.secrets[name] = "" if is_open or value is None else value
                if is_open:
                    self._remark("unresolved", f"{name} has no value in the paste: write it.")
            elif value is None:
                self._remark("unresolved", f"{name} has no value in the paste: write it.")
                self.env[name] = ""
            else:
                self.env[name] = value
        for file in self.command.env_file:
            self._remark(
                "unresolved", f"The variables of {file} are not in the paste: write them here."
            )

    def _mounts_cache(self) -> bool:
        # A container of the paste has the mounts that it names, and no other.
        if self.command.kind != "engine_command":
            return any(engine_words.is_cache(volume) for volume in self.command.volumes)
        self._remark(
            "assumed", "The box's Hugging Face cache is mounted, so that weights are kept."
        )
        self.passes_token = True
        return True

    def _gpus(self) -> str:
        wanted = docker_options.find_requested_gpus(self.command, self.env)
        self.env.pop(wanted.variable, None)
        if wanted.assumed:
            self._remark("assumed", wanted.assumed)
        if wanted.unresolved:
            self._remark("unresolved", wanted.unresolved)
        return wanted.gpus

    def _network(self, said: engine_flags.EngineFlags) -> dict[str, Any]:
        engine = ENGINES[said.engine]
        port = said.port_number
        if said.port and not port:
            self._remark("unresolved", f"The port {said.port} is no number: write one.")
        published = [engine_words.read_port(text) for text in self.command.ports]
        inside = {each[2] for each in published if each}
        if not port and engine.newer_port in inside and engine.default_port not in inside:
            port = engine.newer_port
        values: dict[str, Any] = {"port": port if port != engine.default_port else 0}
        network = self.command.network or "bridge"
        wanted = port or engine.default_port
        if network == "host" and self._publishes(said):
            self._remark("assumed", docker_options.describe_host_port(wanted))
            return values | {"network": "bridge", "host_port": wanted}
        values["network"] = network
        if self.command.kind == "engine_command":
            return values
        mine = next((each for each in published if each and each[2] == wanted), None)
        if mine is not None:
            values |= {"host_address": mine[0], "host_port": mine[1]}
        for text, each in zip(self.command.ports, published, strict=True):
            if each is None or each is not mine:
                self._remark(
                    "ignored", f"-p {text}: only the engine's own port, {wanted}, is published."
                )
        if network != "host" and mine is None:
            self._remark(
                "assumed",
                f"The paste does not publish the engine's port {wanted}; inferdash publishes it "
                "on this box only, because it would not reach the engine otherwise.",
            )
        if network == "host" and said.host and said.host not in _LOOPBACK:
            # On the host's network the flag decides who reaches the engine.
            values["host_address"] = "127.0.0.1"
        return values

    def _publishes(self, said: engine_flags.EngineFlags) -> bool:
        """Whether a published port stands for the host's network."""
        if self.keeps_network:
            return False
        # A script's own words count, and they may say another port.
        if engine_words.kept_script(self.command):
            return False
        needs = docker_options.needs_host_network(said.flags, self.env)
        if needs:
            self._remark(
                "trusts",
                f"--network host stays, because of {needs}: the container reaches, and may hear, "
                "everything that this box says to itself. box.toml has to allow it.",
            )
        return not needs

    def _container(self) -> dict[str, Any]:
        command = self.command
        entrypoint = engine_words.kept_script(command)
        values: dict[str, Any] = {
            "volumes": tuple(self._volumes()),
            # A paste rarely says --init, and every engine here needs it.
            **{
                of: self._option(FIELDS[of].kind, getattr(command, name))
                for name, of in docker_options.OF_LAUNCH.items()
                if of != "init"
            },
            "entrypoint": entrypoint,
            "ulimits": self._ulimits(),
            "devices": tuple(d for d in command.devices if not docker_options.is_gpu(d)),
            "security_opt": tuple(self._security()),
            **self._restart(),
        }
        if entrypoint:
            self._remark(
                "assumed",
                "The paste runs a script around the engine. It is kept as the entrypoint; the "
                "flags below are shown, but the script's own ones count.",
            )
        return values

    def _option(self, kind: str, said: Any) -> Any:
        if kind == "size":
            return self._size(said)
        return "" if said is None else said

    def _security(self) -> Iterator[str]:
        for option in self.command.security_opt:
            if option.replace("=", ":") in engine_words.GIVEN_ANYWAY:
                self._remark("assumed", f"--security-opt {option}: every container here has it.")
            else:
                yield option

    def _restart(self) -> dict[str, Any]:
        values, says = docker_options.read_restart(self.command.restart or "")
        if says:
            self._remark("assumed" if values else "unresolved", says)
        return values

    def _volumes(self) -> list[str]:
        kept = []
        for text in self.command.volumes:
            source = text.partition(":")[0]
            if ":" not in text:
                self._remark("ignored", f"-v {text}: a volume without a source keeps nothing.")
                continue
            if engine_words.is_cache(text):
                self._remark("assumed", f"{text} is the box's own Hugging Face cache.")
                continue
            if engine_words.is_relative(source):
                self._remark(
                    "unresolved", f"{text}: {source} is relative. Write the path on the box."
                )
            if self.command.kind == "compose" and _VOLUME.fullmatch(source):
                says = "compose puts its project's name before it. Write it as docker volume ls"
                self._remark("unresolved", f"{text}: {says} shows it, or {source} begins empty.")
            kept.append(text)
        return kept

    def _size(self, text: str | None) -> int:
        if not text:
            return 0
        try:
            return sizes.read(text)
        except ValueError as error:
            self._remark("unresolved", str(error))
            return 0

    def _ulimits(self) -> dict[str, int]:
        found = {}
        for name, text in self.command.ulimits.items():
            soft, _colon, hard = text.partition(":")
            limit = ulimit(hard or soft)
            if limit is None:
                self._remark("unresolved", f"--ulimit {name}={text[:60]} is no number.")
                continue
            if hard and hard != soft:
                self._remark(
                    "assumed", f"--ulimit {name}={text}: {hard} counts, as soft and hard limit."
                )
            found[name] = limit
        return found

    def _tell_rest(self, launch: Launch) -> None:
        command = self.command
        if command.kind == "engine_command":
            for flag, path in bare_process.unseen(launch.flags, launch.volumes):
                self._remark(
                    "unresolved",
                    f"{flag} {path} is a path of the box: mount it, and write it as the container "
                    "sees it.",
                )
        for option in command.ignored:
            self._remark("ignored", f"{option}: {engine_words.why_ignored(option)}")
        for name in command.unresolved:
            if not any(name in remark.says for remark in self.remarks):
                shown = name if name.startswith(("$", "`")) else f"${name}"
                self._remark("unresolved", f"{shown} has no value in the paste: write it.")
        if launch.entrypoint and flag_value(launch.flags, *SECRET_FLAGS):
            says = "A key stands in the script: who sees the profile, or its export, reads it."
            self._remark("trusts", says)
        if launch.privileged:
            self._remark("trusts", docker_options.PRIVILEGED)
        for says in docker_options.list_homes(launch):
            self._remark("trusts", says)
        for volume in launch.volumes:
            if not volume.endswith(":ro") and volume.startswith(("/", "~", "$")):
                self._remark("trusts", f"{volume}: the container may write there.")
        if "--trust-remote-code" in launch.flags or "--trust_remote_code" in launch.flags:
            self._remark("trusts", "Code that the model's repository brings is run.")
        engine = ENGINES[launch.engine]
        # Its secrets have no place of their own yet; their names tell the same.
        named = replace(launch, env={**launch.env, **self.secrets})
        if engine.is_open(launch) and not engine.has_key(named):
            self._remark(
                "trusts",
                "The engine's port is open to the network without a key, as the paste says. "
                "127.0.0.1 as the address keeps it on the box.",
            )
