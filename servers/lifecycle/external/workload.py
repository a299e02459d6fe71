"""The interface of an external engine, be it a container or a process."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from servers.judge.external.engines import DiscoveredEngine
from servers.launch.commandline import text_boxes
from servers.launch.commandline.draft import Draft
from servers.lifecycle.jobs.runner import JobError
from servers.lifecycle.runs import secret_env
from servers.models import Box, ProfileVersion, Run
from servers.models.runs.run import RunState

TAIL = 20  # lines
LONGEST_LAST_LINE = 4000  # characters


class WatchError(JobError):
    """It is not watched; the text says why, and what to do."""


@dataclass(frozen=True, kw_only=True)
class WorkloadEnd:
    """How a life has ended, as columns of its run."""

    state: RunState
    ended_at: datetime
    failure: str = ""
    status_message: str = ""
    exit_code: int | None = None
    oom_killed: bool = False
    until_stamp: str = ""
    last_lines: list[str] | None = None

    @property
    def fields(self) -> dict[str, Any]:
        said = asdict(self)
        del said["state"]
        of_log = {
            "until_stamp": said.pop("until_stamp"),
            "last_lines": said.pop("last_lines") or [],
        }
        return said | {f"log__{name}": value for name, value in of_log.items()}


class ExternalWorkload(ABC):
    """One life of it. Nothing here changes anything of it, or tells it anything."""

    key: str  # stands in Run.container_id
    name: str
    started_at: datetime | None
    image_id = ""
    log_from = ""  # see models.runs.run_parts
    what = "container"

    @property
    @abstractmethod
    def is_running(self) -> bool: ...

    @property
    @abstractmethod
    def is_paused(self) -> bool: ...

    @property
    @abstractmethod
    def identity(self) -> dict[str, str]:
        """What its successor will have in common with it (Server.watches)."""

    @abstractmethod
    def draft(self, box: Box, found: DiscoveredEngine | None) -> Draft:
        """The profile of what runs. `found` is what was seen of it.

        Raises WatchError, and ContainerError when Docker cannot be asked.
        """

    @abstractmethod
    def compare(self, box: Box, made: Draft, version: ProfileVersion) -> None:
        """Keep how the profile that was made of it would differ. Raises ContainerError."""

    @property
    @abstractmethod
    def argv(self) -> tuple[str, ...]: ...

    @property
    @abstractmethod
    def env(self) -> Mapping[str, str]:
        """What it was given, with secrets in it."""

    @property
    def told_by_environment(self) -> list[str]:
        return [
            text
            for name, text in self.env.items()
            if text_boxes.is_secret(name) or text_boxes.is_token(text)
        ]

    def list_secrets(self, made: Draft) -> list[str]:
        """Every value that it was given and that is nobody else's business."""
        return [*made.secrets.values(), *self.told_by_environment]

    @abstractmethod
    def origin(self) -> dict[str, Any]:
        """As models.runs.run_parts keeps it, without remarks."""

    @abstractmethod
    def ways(self, port: int) -> tuple[tuple[str, int], ...]:
        """Addresses and ports at which its box may reach this port of it."""

    @abstractmethod
    def image_digest(self) -> str: ...

    def log_files(self, last: Run | None) -> dict[str, Any]:
        """Where the log of a new life begins, if it goes on in the files of the last one."""
        return {}


def format_lines(run: Run, lines: list[str]) -> list[str]:
    return [secret_env.mask_secrets(run, line)[:LONGEST_LAST_LINE] for line in lines]
