"""The work of a download: a child process, followed until its end."""

import logging
import threading
import time
from collections.abc import Mapping
from typing import Any

from django.utils import timezone

from servers.host.weights.fetch.child import DownloadChild
from servers.host.weights.fetch.places import FetchError
from servers.judge.images.names import Rate
from servers.launch.numbers import size
from servers.lifecycle.jobs.runner import GivenUpError, JobError, JobWork
from servers.lifecycle.weights import downloads
from servers.models import Download
from servers.models.jobs import AT_WORK, JobState

log = logging.getLogger(__name__)

TICK = 1.0  # seconds

type DownloadWork = JobWork[Download]


def fetch(work: DownloadWork) -> str:
    """What came of it, in a sentence; it goes on where an earlier watcher was. Raises JobError."""
    row, news = work.job, threading.Event()
    work.follow(news.set)
    at_work = Download.objects.filter(box=work.box, state__in=AT_WORK).exclude(pk=row.pk)
    try:
        spec = downloads.build_spec(row, [each for each in at_work if each.total and each.folder])
        work.note(folder=spec.shown, trouble="")
        child = DownloadChild(spec, news.set)
    except FetchError as error:
        raise JobError(str(error), advice=error.advice) from error
    except OSError as error:
        raise JobError(f"It could not be started: {error}.", advice="Try it again.") from error
    heard = _Heard(row, child)
    try:
        _follow(work, heard, news)
    finally:
        child.kill()
        work.note(**heard.take() | {"rate": None, "trouble": ""})
    downloads.note_stored(row)
    took = timezone.now() - row.asked_at
    work.audit = {"size": row.total, "seconds": round(took.total_seconds())}
    return f"All of it is in {row.folder}, and looked through."


class _Heard:
    """What a child has said, as values of its row."""

    def __init__(self, row: Download, child: DownloadChild) -> None:
        self.row = row
        self.child = child
        self.end: Mapping[str, Any] | None = None

    def take(self) -> dict[str, Any]:
        """What is new since the last time."""
        new: dict[str, Any] = {}
        for said in self.child.take():
            match said["t"]:
                case "pinned":
                    new |= {name: said[name] for name in ("repository", "commit", "files")}
                    new["verified"] = {}
                case "verified":
                    before = new.get("verified", self.row.verified)
                    new["verified"] = before | {said["name"]: [said["size"], said["at"]]}
                case "progress":
                    new |= {name: said[name] for name in ("done", "total", "looked", "trouble")}
                case _:
                    self.end = said
        return new


def _follow(work: DownloadWork, heard: _Heard, news: threading.Event) -> None:
    """Until it has done its part. Raises GivenUpError and JobError."""
    row, rate, limit = work.job, Rate(), work.job.limit
    while not work.is_given_up:
        news.wait(TICK)
        news.clear()
        has_ended = heard.child.has_ended  # asked first: what it has said by then is all
        work.note(**heard.take())
        if heard.end is not None and heard.end["t"] == "done":
            return
        if heard.end is not None:
            raise JobError(str(heard.end["says"]), advice=str(heard.end["advice"]))
        if has_ended:
            words = heard.child.last_words
            log.error("the download of %s ended without a word: %s", row, words)
            raise JobError(
                f"Its process ended: {words}.", advice="Try it again: it goes on where it was."
            )
        if row.total is not None:
            is_there = row.done >= row.total
            state = JobState.VERIFYING if is_there else JobState.DOWNLOADING
            work.note(state=state, rate=rate.see(time.monotonic(), row.done))
        if row.limit != limit:
            limit = row.limit
            heard.child.limit(limit)
    raise GivenUpError


def describe_rest(work: DownloadWork) -> str:
    """What one that was cancelled leaves, once its unfinished files are dropped, if so wanted."""
    row = work.job
    if not (row.folder and row.files):
        return "Nothing of it was begun."
    try:
        spec = downloads.build_spec(row)
        dropped = downloads.drop_parts(spec) if row.drops_parts else 0
        said = downloads.describe_parts(row, spec)
    except (FetchError, OSError) as error:
        return f"What it leaves could not be looked at: {error}"
    return f"{size(dropped)} of unfinished files were deleted. {said}" if dropped else said
