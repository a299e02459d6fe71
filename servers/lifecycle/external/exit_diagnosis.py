"""Causes of exits of containers that nobody monitored, by the logs that Docker still has."""

import logging
from collections.abc import Collection
from dataclasses import replace

from servers.host.docker.containers import ContainerError
from servers.judge.external.engines import DiscoveredEngine
from servers.judge.logs.diagnosis import Ending, diagnose
from servers.judge.profiles.subject import Subject
from servers.lifecycle.external.container import ContainerWorkload
from servers.lifecycle.external.workload import WatchError
from servers.lifecycle.profiles import checks
from servers.lifecycle.runs import creation
from servers.models import Box
from servers.models.logs.redaction import mask_tokens
from servers.models.people.secret import mask

log = logging.getLogger(__name__)

# Lines at the end of a log that are read, and containers in one round.
LINES = 5000
AT_ONCE = 2

NO_LOG = "Docker keeps no log of it."


class Autopsies:
    """Each is looked at once for each of its ends."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self._told: dict[tuple[str, float | None], tuple[str, str]] = {}
        self._left = 0

    def begin(self, there: Collection[str]) -> None:
        """A round, in which these are there."""
        self._told = {end: told for end, told in self._told.items() if end[0] in there}
        self._left = AT_ONCE

    def add_reason(self, found: DiscoveredEngine, container: ContainerWorkload) -> DiscoveredEngine:
        """With the reason, once its turn has come. Raises ContainerError."""
        end = (found.container, found.ended_at)
        if found.exit_code is None:
            return found  # it has never run
        if end not in self._told:
            if self._left == 0:
                return found
            self._left -= 1
            self._told[end] = self._look(found, container)
        why, cause = self._told[end]
        return replace(found, why=why, cause=cause)

    def _look(self, found: DiscoveredEngine, container: ContainerWorkload) -> tuple[str, str]:
        """A sentence, "" where there is nothing to explain, and the cause."""
        if not container.other.has_log:
            return NO_LOG, ""
        try:
            lines, subject = self._read(container, found)
        except ContainerError as error:
            log.warning("Why %s has ended is not known: %s", found.name, error)
            return "", ""
        said = diagnose(
            Ending(
                lines=list(enumerate(lines, 1)),
                exit_code=found.exit_code,
                oom_killed=found.oom_killed,
                subject=subject,
                engine=found.engine,
                # What has printed more than a start does has served.
                was_ready=True if len(lines) >= LINES else None,
            )
        )
        return ("", "") if said.outcome == "ready" else (said.summary, said.cause or "")

    def _read(
        self, container: ContainerWorkload, found: DiscoveredEngine
    ) -> tuple[list[str], Subject | None]:
        """The lines that it printed last, without secrets, and what was launched."""
        raw = creation.docker().tail(container.key, LINES, since=container.started_at)
        try:
            made = container.draft(self.box, found)
        except WatchError:
            made = None
        told = container.list_secrets(made) if made is not None else container.told_by_environment
        raw = mask("\n".join(raw), told).split("\n") if raw else []
        lines = [line.decode() for line in mask_tokens([line.encode() for line in raw])]
        return lines, checks.subject(made.launch, self.box) if made is not None else None
