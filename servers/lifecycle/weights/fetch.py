"""Downloads that a profile needs and its box lacks, and the work of one: a child process, followed to its end."""

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from django.conf import settings
from django.utils import timezone

from servers.host.weights import stored
from servers.host.weights.fetch.places import REPOSITORY, REVISION, FetchError
from servers.host.weights.fetch.work import DownloadChild
from servers.judge.images.names import Rate
from servers.launch.engines import llamacpp
from servers.launch.engines.launch import Launch
from servers.launch.numbers import size
from servers.lifecycle.jobs.runner import GivenUpError, JobError, JobWork
from servers.lifecycle.profiles import preflight
from servers.lifecycle.profiles.knowledge import LaunchContext
from servers.lifecycle.weights import downloads
from servers.lifecycle.weights.downloads import DownloadRequest
from servers.lifecycle.weights.inventory import source
from servers.models import Box, Download, ModelInventory
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


@dataclass(frozen=True, kw_only=True)
class DownloadOffer:
    wish: DownloadRequest
    running: Download | None  # the same model, on its way already

    @property
    def name(self) -> str:
        """As the page for downloads takes it."""
        first = next(iter(self.wish.patterns), "")
        is_quantization = len(first) > 1 and not stored.is_file(first)
        return f"{self.wish.repository}{first if is_quantization else ''}"


def find_offer(context: LaunchContext) -> DownloadOffer | None:
    """None where the box has it, nobody knows, or it is not the Hub's."""
    wish = build_download_request(context.launch, context.box) if settings.HUB else None
    if wish is None or not _is_missing(context):
        return None
    running = Download.objects.open().filter(box=context.box, what__iexact=wish.repository).first()
    return DownloadOffer(wish=wish, running=running)


def build_download_request(launch: Launch, box: Box) -> DownloadRequest | None:
    """What a launch needs of the Hub; None where its checkpoint is a path that tells no model."""
    if launch.checkpoint.startswith("/"):
        return _of_path(source(launch, box), box)
    if launch.engine == "llamacpp":
        repository, wanted = llamacpp.of_hub(launch) or ("", "")
        return _wish(repository, patterns=(f":{wanted}",))
    return _wish(launch.checkpoint, revision=launch.revision or "main")


def _wish(repository: str, **more: Any) -> DownloadRequest | None:
    return (
        DownloadRequest(repository=repository, **more) if REPOSITORY.fullmatch(repository) else None
    )


def _of_path(path: str, box: Box) -> DownloadRequest | None:
    """Of a path of the box: in the Hub's cache, or below a folder with models, where downloads go
    to organisation/name."""
    if not path:
        return None
    cache = box.cache_path
    if cache and PurePosixPath(path).is_relative_to(f"{cache}/hub"):
        return _of_snapshot(PurePosixPath(path).relative_to(f"{cache}/hub").parts)
    inventory = ModelInventory.objects.find(box)
    roots = [each["path"] for each in inventory.roots if not each["refused"]] if inventory else []
    around = [root for root in roots if PurePosixPath(path).is_relative_to(root) and root != cache]
    if not around:
        return None
    root = max(around, key=len)
    parts = PurePosixPath(path).relative_to(root).parts
    return _wish("/".join(parts[:2]), patterns=_file(parts[2:]), into=root) if parts[1:] else None


def _of_snapshot(parts: tuple[str, ...]) -> DownloadRequest | None:
    """Rule: the layout of huggingface_hub's cache (models--org--name/snapshots/commit)."""
    if len(parts) < 3 or not parts[0].startswith("models--") or parts[1] != "snapshots":
        return None
    repository, revision = parts[0].removeprefix("models--").replace("--", "/"), parts[2]
    if not REVISION.fullmatch(revision):
        return None
    return _wish(repository, revision=revision, patterns=_file(parts[3:]))


def _file(parts: tuple[str, ...]) -> tuple[str, ...]:
    name = "/".join(parts)
    return (f":{name}",) if stored.is_file(name) else ()


def _is_missing(context: LaunchContext) -> bool:
    """Whether a start would lack its model, as far as the box has looked."""
    known = context.checkpoint
    if known is not None:
        return bool((known.missing or known.remote) and known.remote != "gone")
    return preflight.is_path_missing(context)
