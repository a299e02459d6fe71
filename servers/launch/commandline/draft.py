"""A pasted command as the draft of a profile: never a launch, and open about what it assumes."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from servers.launch.commandline import clusters, docker_options, engine_words, placeholders
from servers.launch.commandline.container_draft import (
    EnvironmentDraft,
    describe_build,
    draft_container,
    draft_environment,
    is_cache,
    list_unseen,
    mount_model,
    note_no_value,
    read_port,
)
from servers.launch.commandline.engine_words import EngineFlags, find_server, split_engine_words
from servers.launch.commandline.export import HOST_STAYS, names_program
from servers.launch.commandline.import_notes import ImportNote, NoteList, note_ignored
from servers.launch.commandline.lines import reasons
from servers.launch.commandline.listening import draft_listening, note_network
from servers.launch.commandline.tokens import EngineKey, LaunchCommand
from servers.launch.engines import ENGINES, known_entrypoint, official_image
from servers.launch.engines.engine import SECRET_FLAGS, flag_value, read_parallel
from servers.launch.engines.launch import Launch
from servers.launch.engines.llamacpp import name_with_server, other_tool


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
    knows_image: bool = False,
) -> Draft:
    """Raises DraftError for a command that starts none of the engines.

    `text` is the paste itself: its comments become reasons. `engine` is what a person says is
    in an image whose name and words do not tell; else UnknownEngineError is raised for it.
    `keeps_network`: an engine that runs on the host's network stays there. What a guide says of it
    becomes a published port, but for an engine of a cluster and for what inferdash wrote out itself.
    `knows_image`: the image is there, and with it its entrypoint.
    """
    is_named = command.engine is None and engine is not None
    if is_named:
        command = replace(command, engine=engine)
    if names_program(text):
        # The profile leaves that to the image, and its export could not.
        command = replace(command, entrypoint=None, command=engine_words.list_words(command))
    keeps_network = keeps_network or HOST_STAYS in text
    drafter = _Drafter(
        command, keeps_network=keeps_network, knows_image=knows_image, is_named=is_named
    )
    made = drafter.draft()
    flags = {word.partition("=")[0] for word in made.launch.flags if word.startswith("-")}
    names = flags | set(made.launch.env) | set(made.secrets)
    return replace(made, launch=replace(made.launch, reasons=reasons(text, names)))


class _Drafter:
    def __init__(
        self, command: LaunchCommand, *, keeps_network: bool, knows_image: bool, is_named: bool
    ) -> None:
        self.command = command
        self.is_named = is_named  # the engine, by a person
        self.keeps_network = keeps_network
        self.knows_image = knows_image
        self.notes = NoteList()

    def draft(self) -> Draft:
        command = self.command
        if command.engine == "other":
            return self._draft_other()
        self._refuse_other_tool()
        found = engine_words.engine_words(command)
        if found is None:
            words = engine_words.list_words(command)
            is_known = command.engine is not None
            if find_server(words, "" if is_known else command.image or ""):
                return self._draft_other()
            found = self._find_no_words()
        assert command.engine is not None
        said = split_engine_words(command.engine, found, command.env)
        entrypoint = self._find_entrypoint()
        image = self._find_image(entrypoint)
        around = draft_environment(command, said.variables, self.notes)
        checkpoint, of_model = self._find_checkpoint(said.checkpoint or "")
        container = draft_container(command, entrypoint, self.notes)
        container["volumes"] += of_model + around.mounts
        listening = draft_listening(
            command, said, around.env, self.notes, keeps_network=self.keeps_network
        )
        container |= self._share_memory(said)
        launch = Launch(
            engine=command.engine,
            image=image,
            checkpoint=checkpoint,
            served_name=said.served_name or "",
            flags=said.flags + listening.flags,
            env=around.env,
            pass_hf_token=around.passes_token or command.kind == "engine_command",
            mount_hf_cache=self._mounts_cache(),
            gpus=around.gpus,
            **listening.values,
            **container,
        )
        if not launch.checkpoint:
            self.notes.say("no-model")
        return self._finish(launch, around)

    def _refuse_other_tool(self) -> None:
        """Raises DraftError where an image with all tools of llama.cpp is told to start another."""
        command = self.command
        words = engine_words.list_words(command)
        starts = known_entrypoint(command.image or "") or ()
        if command.entrypoint:
            starts, words = words[: len(words) - len(command.command)], command.command
        tool = other_tool(words[0], starts) if words and command.engine == "llamacpp" else ""
        if tool:
            raise DraftError(
                f"This starts {tool}: the image holds all tools of llama.cpp, and {words[0]} chooses "
                "that one. A profile needs its server, which --server chooses."
            )

    def _find_no_words(self) -> tuple[str, ...]:
        """The engine's words of a command in which none start it. Raises DraftError."""
        command = self.command
        words = engine_words.list_words(command)
        first = words[0] if words else ""
        if engine_words.find_program(words, clusters.starts_ray) is not None:
            raise DraftError(
                "This starts Ray, by which an engine runs on several boxes. inferdash cannot start "
                "such a cluster yet."
            )
        if engine_words.is_shell(first) and engine_words.shell_script(words) is None:
            first = next((word for word in words if word.endswith(".sh")), "")
            if not first:
                raise DraftError(
                    "This starts a shell; paste what is typed inside it, below this command."
                )
        if first.endswith((".sh", ".py")):
            raise DraftError(
                f"This starts the script {first}, which is not in the paste; paste the engine’s "
                "command that is inside it, below this command."
            )
        if command.engine is None and command.image:
            raise UnknownEngineError(
                f"Neither the name {command.image} nor its command says which engine is in it."
            )
        if command.engine is None and command.kind == "compose" and not command.image:
            raise UnknownEngineError(
                f"The service {command.service} names no image, and its command does not say which "
                "engine is in it."
            )
        if not words and command.image and not self.is_named:
            if engine_words.find(known_entrypoint(command.image) or ()) is not None:
                return ()
            raise DraftError(
                f"This names no command, and {command.image} starts no server by itself that is "
                "known here. Paste what is typed inside it, below this command."
            )
        raise DraftError(
            "This command starts none of the engines that a profile can hold: vLLM, SGLang "
            "and llama.cpp."
        )

    def _draft_other(self) -> Draft:
        """A program that serves no models here: its image, its words, and where it listens."""
        command = replace(self.command, engine="other")
        self.command = command
        words = engine_words.list_words(command)
        server = find_server(words, command.image or "")
        if not command.image:
            raise DraftError(
                "This command runs no container: a profile of another program needs one."
            )
        around = draft_environment(command, (), self.notes)
        entrypoint = command.entrypoint or ()
        entrypoint = (entrypoint,) if isinstance(entrypoint, str) else entrypoint
        container = draft_container(command, entrypoint, self.notes)
        told = flag_value(command.command, "--port", "--server-port") or ""
        inside = int(told) if told.isascii() and told.isdigit() and len(told) < 6 else 0
        inside = inside or (server.port if server else 0)
        published = [each for text in command.ports if (each := read_port(text))]
        first = published[0] if published else ("127.0.0.1", 0, inside)
        port = next((each for each in published if each[2] == inside), first)
        for text in command.ports:
            if read_port(text) != port:
                self.notes.gather("other-port", f"-p {text}", port=port[2])
        network = command.network or "bridge"
        launch = Launch(
            engine="other",
            image=command.image,
            checkpoint="",
            flags=command.command,
            env=around.env,
            pass_hf_token=False,
            mount_hf_cache=False,
            gpus=around.gpus,
            host_address=port[0],
            host_port=port[1],
            port=port[2],
            network=network,
            ready_path=server.ready_path if server else "",
            **container,
        )
        note_network(command, network, self.notes)
        if server:
            self.notes.say("other-server", title=server.title)
        if not launch.port:
            self.notes.say("other-no-port")
        elif not published and network != "host":
            self.notes.say("other-published", port=port[2])
        if not launch.ready_path:
            self.notes.say("other-no-path")
        return self._finish(launch, around)

    def _finish(self, launch: Launch, around: EnvironmentDraft) -> Draft:
        self._note_rest(launch, around)
        return Draft(
            name=self._choose_name(launch),
            launch=launch,
            secrets=around.secrets,
            remarks=self.notes.build(),
        )

    def _choose_name(self, launch: Launch) -> str:
        said = self.command.name or self.command.service or launch.served_name or launch.checkpoint
        said = said or launch.image.partition("@")[0].rpartition("/")[2].partition(":")[0]
        return said.rstrip("/").rsplit("/", 1)[-1][:100]

    def _find_image(self, entrypoint: tuple[str, ...]) -> str:
        command = self.command
        assert command.engine is not None
        if command.image and command.kind != "engine_command":
            is_known = self.knows_image or known_entrypoint(command.image) is not None
            if not entrypoint and not is_known:
                self.notes.say("entrypoint-unknown", image=command.image)
            if server := name_with_server(command.image):
                self.notes.say("image-without-server", image=command.image, server=server)
            return command.image
        image = command.image or official_image(command.engine)
        if command.kind == "compose":
            # Why it has none is said of its key.
            self.notes.say("image-stands-in", image=image)
            return image
        official = "" if command.image else ", the engine's official image"
        build = describe_build(command)
        more = f" The paste runs {build}, which may know other flags." if build else ""
        id = "bare-inside" if command.name else "bare"
        self.notes.say(id, name=command.name, image=image, official=official, more=more)
        return image

    def _find_entrypoint(self) -> tuple[str, ...]:
        entrypoint = engine_words.find_entrypoint(self.command)
        if engine_words.kept_script(self.command):
            self.notes.say("script-kept")
            for name in engine_words.list_unset(self.command):
                self.notes.gather("script-unset", f"${name}")
        elif entrypoint and self.command.entrypoint is None:
            self.notes.say("entrypoint-kept", program=entrypoint[0])
        return entrypoint

    def _share_memory(self, said: EngineFlags) -> dict[str, Any]:
        """Processes without a container exchange data through the box's shared memory."""
        if self.command.kind != "engine_command" or said.engine == "llamacpp":
            return {}
        if read_parallel(said.flags) < 2:
            return {}
        self.notes.say("shares-memory")
        return {"ipc": "host"}

    def _find_checkpoint(self, said: str) -> tuple[str, tuple[str, ...]]:
        """The checkpoint as the container sees it, and the mount that a path needs there."""
        if self.command.kind != "engine_command":
            return said, ()
        model = mount_model(said)
        if model.assumed:
            self.notes.add("assumed", model.assumed)
        if model.unresolved:
            self.notes.add("unresolved", model.unresolved)
        return model.inside, model.mounts

    def _mounts_cache(self) -> bool:
        # A container of the paste has the mounts that it names, and no other.
        is_bare = self.command.kind == "engine_command"
        return is_bare or any(map(is_cache, self.command.volumes))

    def _note_rest(self, launch: Launch, around: EnvironmentDraft) -> None:
        command = self.command
        is_bare = command.kind == "engine_command"
        if is_bare:
            for flag, path in list_unseen(launch.flags, launch.volumes):
                self.notes.gather("path-unseen", f"{flag} {path}")
        note_ignored(self.notes, command.ignored, adds_init=not is_bare and not command.init)
        for name in self.notes.find_unnamed(_list_staying(command.unresolved, launch)):
            shown = name if name.startswith(("$", "`")) else f"${name}"
            note_no_value(self.notes, shown)
        for each in placeholders.list_placeholders(launch, self._choose_name(launch)):
            self.notes.gather("placeholder", each)
        self._note_trust(launch, around)

    def _note_trust(self, launch: Launch, around: EnvironmentDraft) -> None:
        key = flag_value(launch.flags, *SECRET_FLAGS) or ""
        if launch.entrypoint and key and not key.startswith("$"):
            self.notes.say("trusts-key")
        if launch.privileged:
            self.notes.say("trusts-privileged")
        for says in docker_options.list_homes(launch):
            self.notes.add("trusts", says)
        for volume in launch.volumes:
            options = volume.rpartition(":")[2].split(",")
            if "ro" not in options and volume.startswith(("/", "~", "$")):
                self.notes.gather("trusts-volume", volume)
        if "--trust-remote-code" in launch.flags or "--trust_remote_code" in launch.flags:
            self.notes.say("trusts-code")
        engine = ENGINES[launch.engine]
        # Its secrets have no place of their own yet; their names tell the same.
        named = replace(launch, env={**launch.env, **around.secrets})
        if engine.is_open(launch) and not engine.has_key(named):
            self.notes.say("trusts-port")


def _list_staying(names: Iterable[str], launch: Launch) -> list[str]:
    """Variables that the launch still has in it. What has become a secret is told as one."""
    text = str(launch.to_json())
    words, signed = set(re.findall(r"\w+", text)), set(re.findall(r"\$\{?(\w+)", text))
    return [
        name
        for name in names
        if name.startswith(("$", "`")) or name in (signed if name.isdigit() else words)
    ]
