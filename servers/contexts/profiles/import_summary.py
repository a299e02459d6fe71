"""The summary of an import: what was read of a paste, what was changed, and what a person should do."""

from collections.abc import Iterable
from dataclasses import dataclass

from servers.launch.commandline.draft import Draft
from servers.launch.commandline.import_notes import ImportNote
from servers.launch.commandline.tokens import LaunchCommand
from servers.launch.engines.change import split_flags
from servers.launch.engines.launch import Launch
from servers.launch.recipes.document import Document

# Of a remark's kind, in the order in which a person should read them. What is otherwise than in the
# paste, be it changed or left out, is one list.
HEADINGS = {
    "unresolved": "To fill in",
    "trusts": "Security review",
    "assumed": "Import notes",
    "ignored": "Import notes",
}
_KINDS = {"docker_run": "docker run", "compose": "compose service", "engine_command": ""}
_LISTS = ("env", "env_file", "volumes", "ports", "ulimits", "cap_add", "devices", "security_opt")
_SINGLE = (
    *("image", "entrypoint", "ipc", "shm_size", "gpus", "runtime", "network", "privileged"),
    *("name", "restart", "cpuset", "user", "workdir", "init"),
)


@dataclass(frozen=True, kw_only=True)
class ImportSummary:
    source: str  # "docker run … vllm/vllm-openai:v0.24.0"
    read: int
    changed: int
    left_out: int
    notes: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def has_open(self) -> bool:
        """Whether the paste leaves something for a person to fill in."""
        return any(heading == HEADINGS["unresolved"] for heading, _says in self.notes)

    @property
    def counts(self) -> str:
        said = [f"{self.read} option{'s' if self.read != 1 else ''} read"]
        if self.changed:
            said.append(f"{self.changed} changed")
        said.append(f"{self.left_out} left out" if self.left_out else "nothing lost")
        return ", ".join(said)


def summarise_draft(
    command: LaunchCommand, made: Draft, further: Iterable[ImportNote]
) -> ImportSummary:
    remarks = (*made.remarks, *further)
    said: dict[str, tuple[str, ...]] = {}
    for kind, heading in HEADINGS.items():
        says = tuple(each.says for each in remarks if each.kind == kind)
        said[heading] = (*said.get(heading, ()), *says)
    begins = _KINDS[command.kind] or " ".join(command.command[:1]).rpartition("/")[2]
    ends = command.image or made.launch.checkpoint
    options = sum(len(getattr(command, name)) for name in _LISTS)
    options += sum(bool(getattr(command, name)) for name in _SINGLE)
    return ImportSummary(
        source=f"{begins} … {ends}" if ends else begins,
        read=options + _count_flags(made.launch) + bool(made.launch.checkpoint),
        changed=sum(each.kind == "assumed" for each in remarks),
        left_out=sum(each.kind == "ignored" for each in remarks),
        notes=tuple((heading, lines) for heading, lines in said.items() if lines),
    )


def summarise_document(found: Document) -> ImportSummary:
    return ImportSummary(
        source=found.name,
        read=len(found.launch.to_json()) - bool(found.launch.flags) + _count_flags(found.launch),
        changed=0,
        left_out=0,
        notes=(),
    )


def _count_flags(launch: Launch) -> int:
    return len(split_flags(launch.flags))
