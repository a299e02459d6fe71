"""The runner of the box's downloads: a child process for each."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.utils import timezone

from servers import events
from servers.host.weights.fetch.child import DownloadChild
from servers.host.weights.fetch.places import FetchError, Job
from servers.judge.sizes import size
from servers.lifecycle.weights import downloads
from servers.models import AuditEntry, Box, Download
from servers.models.weights.download import DesiredDownloadState, DownloadState

log = logging.getLogger(__name__)

# More share the line, and the disk; the others wait for their turn.
AT_ONCE = 2
WINDOW = 10.0  # seconds over which the pace is told
# Of one that nobody is at.
_STILL: dict[str, Any] = {"rate": None, "trouble": ""}


@dataclass(kw_only=True)
class _At:
    child: DownloadChild
    job: Job
    limit: int
    seen: deque[tuple[float, int]] = field(default_factory=deque)
    failed: Mapping[str, Any] | None = None
    is_done: bool = False

    def rate(self, done: int) -> float | None:
        """Bytes a second over the last seconds; None before there is anything to tell."""
        now = time.monotonic()
        self.seen.append((now, done))
        while len(self.seen) > 2 and now - self.seen[0][0] > WINDOW:
            self.seen.popleft()
        began, first = self.seen[0]
        return max(0.0, (done - first) / (now - began)) if now - began > 1 else None


class DownloadRunner:
    def __init__(self, box: Box, heard: Callable[[], None] = lambda: None) -> None:
        """`heard` is called when a child has said something, from a thread of its own."""
        self.box = box
        self._heard = heard
        self._at: dict[int, _At] = {}
        self._lock = threading.Lock()
        self._is_over = False

    @property
    def is_busy(self) -> bool:
        return bool(self._at)

    def step(self) -> None:
        """Look at every download of this box, and do what is wanted."""
        with self._lock:
            if not self._is_over:
                self._step()

    def _step(self) -> None:
        rows = Download.objects.open().filter(box=self.box).select_related("box__hf_token")
        found = {row.pk: row for row in rows}
        for pk in [pk for pk in self._at if pk not in found]:
            self._kill(pk)  # its row is gone
        for row in found.values():
            if self._look_after(row):
                events.publish_change("downloads")

    def stop(self) -> None:
        """End the children: who comes next goes on with what they have left."""
        with self._lock:
            self._is_over = True
            for pk in list(self._at):
                self._kill(pk)

    def _kill(self, pk: int) -> None:
        at = self._at.pop(pk, None)
        if at is not None:
            at.child.kill()

    def _look_after(self, row: Download) -> bool:
        """Whether people see anything new."""
        if row.wanted == DesiredDownloadState.CANCELLED:
            self._cancel(row)
            return True
        if row.wanted == DesiredDownloadState.PAUSED:
            self._hear(row)
            self._kill(row.pk)
            return row.state != DownloadState.PAUSED and row.move(
                DownloadState.PAUSED, **_figures(row) | _STILL
            )
        if row.pk in self._at:
            return self._go_on(row)
        if len(self._at) >= AT_ONCE:
            return row.state != DownloadState.WAITING and row.move(DownloadState.WAITING, rate=None)
        return self._begin(row)

    def _begin(self, row: Download) -> bool:
        """Also of one that an earlier watcher was at."""
        others = [
            each
            for each in Download.objects.filter(pk__in=self._at)
            if each.total is not None and each.folder
        ]
        try:
            job = downloads.job(row, others)
            row.folder = job.shown
            Download.objects.filter(pk=row.pk).update(folder=job.shown)
            child = DownloadChild(job, self._heard)
        except FetchError as error:
            return self._fail(row, str(error), error.advice)
        except OSError as error:
            return self._fail(row, f"It could not be started: {error}.", "Try it again.")
        self._at[row.pk] = _At(child=child, job=job, limit=row.limit)
        return row.move(DownloadState.CHECKING, rate=None, trouble="")

    def _go_on(self, row: Download) -> bool:
        at = self._at[row.pk]
        if at.limit != row.limit:
            at.limit = row.limit
            at.child.limit(row.limit)
        has_ended = at.child.has_ended  # asked first: what it has said by then is all
        before = row.mark, row.done, row.rate
        self._hear(row)
        if at.is_done:
            self._kill(row.pk)
            return self._finish(row)
        if at.failed is not None:
            self._kill(row.pk)
            return self._fail(row, str(at.failed["says"]), str(at.failed["advice"]))
        if has_ended:
            words = at.child.last_words
            self._kill(row.pk)
            log.error("the download of %s ended without a word: %s", row, words)
            return self._fail(
                row, f"Its process ended: {words}.", "Try it again: it goes on where it was."
            )
        self._keep(row)
        return before != (row.mark, row.done, row.rate)

    def _hear(self, row: Download) -> None:
        """What the child has said, into the row's values."""
        at = self._at.get(row.pk)
        for said in at.child.take() if at is not None else ():
            match said["t"]:
                case "pinned":
                    row.repository, row.commit = said["repository"], said["commit"]
                    row.files, row.verified = said["files"], {}
                case "verified":
                    row.verified[said["name"]] = [said["size"], said["at"]]
                case "progress":
                    row.done, row.total = said["done"], said["total"]
                    row.looked, row.trouble = said["looked"], said["trouble"][:300]
                case "failed" if at is not None:
                    at.failed = said
                case "done" if at is not None:
                    at.is_done = True

    def _keep(self, row: Download) -> None:
        values = _figures(row)
        Download.objects.filter(pk=row.pk).update(**values)
        if row.total is None:
            return
        row.rate = self._at[row.pk].rate(row.done)
        Download.objects.filter(pk=row.pk).update(rate=row.rate)
        is_there = row.done >= row.total
        wanted = DownloadState.VERIFYING if is_there else DownloadState.DOWNLOADING
        if row.state != wanted:
            row.move(wanted)

    def _cancel(self, row: Download) -> None:
        self._hear(row)
        self._kill(row.pk)
        said = "Nothing of it was begun."
        if row.folder and row.files:
            try:
                job = downloads.job(row)
                dropped = downloads.drop_parts(row, job) if row.drops_parts else 0
                said = downloads.left_of(row, job)
                if dropped:
                    said = f"{size(dropped)} of unfinished files were deleted. {said}"
            except (FetchError, OSError) as error:
                said = f"What it leaves could not be looked at: {error}"
        row.move(DownloadState.CANCELLED, said=said, **_figures(row) | _STILL)

    def _finish(self, row: Download) -> bool:
        try:
            downloads.note_stored(row)
        except OSError as error:
            log.warning("what was downloaded to %s is not listed yet: %s", row.folder, error)
        took = timezone.now() - row.asked_at
        said = f"All of it is in {row.folder}, and looked through."
        row.move(DownloadState.DONE, said=said, **_figures(row) | _STILL)
        AuditEntry.note(
            row.asked_by, "download done", row.repository, box=self.box.slug,
            size=row.total, seconds=round(took.total_seconds()),
        )  # fmt: skip
        events.publish_change("stock")
        topics = (events.Topic.CHECKPOINTS, events.Topic.DOWNLOADS, events.Topic.STOCK)
        events.wake_watcher(self.box.slug, *topics)
        return True

    def _fail(self, row: Download, says: str, advice: str) -> bool:
        log.warning("the download of %s failed: %s", row, says)
        row.move(DownloadState.FAILED, said=says, advice=advice, **_figures(row) | _STILL)
        AuditEntry.note(
            row.asked_by, "download failed", row.repository, box=self.box.slug, said=says
        )
        return True


def _figures(row: Download) -> dict[str, Any]:
    names = ("repository", "commit", "files", "verified", "done", "total", "looked", "trouble")
    return {name: getattr(row, name) for name in names}
