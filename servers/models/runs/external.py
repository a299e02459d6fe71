"""The external engine behind a monitored run."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import models

from servers.judge.external.origin import Origin


class ExternalFields(models.Model):
    """Part of Run."""

    is_watched = models.BooleanField(default=False)
    # A judge.external.origin.Origin's, with "name" and "image" as Docker calls them, "restarts" (by its
    # policy so far), "has_log", "no_log" and "see_log" (why none can be read, and the command that
    # shows it), and "remarks": what a profile of it had to assume or to leave out.
    origin: "models.JSONField[dict[str, Any], dict[str, Any]]" = models.JSONField(default=dict)
    # False: it was found when it ran already, so that nobody knows how long its start took.
    saw_start = models.BooleanField(default=True)
    # A container that is started again goes on in one log: only what lies between these stamps
    # is of this run. "": no bound.
    log_from = models.CharField(max_length=40, blank=True)
    log_until = models.CharField(max_length=40, blank=True)
    # Of a process's log, a file a stream: {"o": {"path", "inode": [device, number], "offset"}}.
    log_files: "models.JSONField[dict[str, Any], dict[str, Any]]" = models.JSONField(default=dict)

    class Meta:
        abstract = True

    @property
    def came_from(self) -> Origin:
        return Origin.from_json(self.origin)

    @property
    def is_of_process(self) -> bool:
        """Whether it is a process in no container."""
        return self.is_watched and bool(self.origin.get("is_process"))

    @property
    def keeps_no_log(self) -> bool:
        """Whether nothing of what it prints can be read here; `no_log` may say why."""
        return self.origin.get("has_log") is False

    @property
    def no_log(self) -> str:
        return str(self.origin.get("no_log", ""))

    @property
    def see_log(self) -> str:
        """A command that shows its log to whoever has a shell there; "" for none."""
        return str(self.origin.get("see_log", ""))

    @property
    def remarks(self) -> list[tuple[str, str]]:
        """Kind and sentence of what a profile of it says otherwise, or does not say."""
        return [(kind, says) for kind, says in self.origin.get("remarks", ())]


def find_boundary(ended_before: datetime | None, started: datetime | None) -> str:
    """The stamp that parts two lives of a container in its log; "" where there was none before.

    Docker stamps lines a little after the end, and has stamped some before what it calls the
    start: the middle of the pause is far from both.
    """
    if ended_before is None or started is None or ended_before >= started:
        return ""
    pause: timedelta = started - ended_before
    moment = (ended_before + pause / 2).astimezone(UTC).replace(tzinfo=None)
    return f"{moment.isoformat(timespec='microseconds')}000Z"
