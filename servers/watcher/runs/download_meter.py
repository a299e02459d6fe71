"""Progress of weights downloads by engines, by the size of the cache folder."""

import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils import timezone

from servers.host.files.paths import PathError
from servers.host.weights import cache_size
from servers.judge.logs.phases import PhaseProgress
from servers.judge.runs.limits import LimitsError
from servers.launch.engines.volumes import VolumeError
from servers.lifecycle.runs import creation
from servers.models import Run

EVERY = 5.0  # seconds between two looks
# Less is a file of the tokenizer, or somebody else's.
GROWTH = 1 << 20  # bytes
# A download that does not grow for so long is over, or stands still: its phase says so no more.
STILL = 30.0  # seconds
# Until a line proves a later one.
BEFORE_WEIGHTS = ("", "starting", "connecting", "downloading", "loading")


@dataclass(kw_only=True)
class _FolderSize:
    at: float  # time.monotonic()
    seen: datetime
    size: int
    grew: datetime  # the last time that it grew
    grew_at: float
    total: int | None = None


class DownloadMeter:
    def __init__(self) -> None:
        self._looks: dict[int, _FolderSize] = {}

    def forget(self, run: Run) -> None:
        self._looks.pop(run.pk, None)

    def look(self, run: Run, progress: PhaseProgress) -> None:
        """Measure it every few seconds, until the engine reads the weights."""
        launch = run.launch
        box = run.server.box
        if not (launch.mount_hf_cache and box.hf_cache) or launch.checkpoint.startswith("/"):
            return
        if progress.phase not in BEFORE_WEIGHTS or progress.bars:
            self._end(run)
            return
        before = self._looks.get(run.pk)
        now = time.monotonic()
        if before is not None and now - before.at < EVERY:
            return
        try:
            hub, files = creation.hub(box), creation.box_files()
        except (VolumeError, PathError, LimitsError, OSError):
            return  # it is not known where it lies, or whether one may look: a start says so
        size = cache_size.size(hub, launch.checkpoint, files) or 0
        seen = timezone.now()
        if before is None:
            self._looks[run.pk] = _FolderSize(at=now, seen=seen, size=size, grew=seen, grew_at=now)
            return
        if size - before.size >= GROWTH:
            before.total = before.total or cache_size.total(
                hub, launch.checkpoint, files, launch.revision
            )
            _grew(run, before, size=size, seconds=now - before.at, seen=seen)
            before.grew, before.grew_at = seen, now
        elif now - before.grew_at > STILL:
            _end(run, before.grew)
        before.at, before.seen, before.size = now, seen, size

    def _end(self, run: Run) -> None:
        look = self._looks.pop(run.pk, None)
        if look is not None:
            _end(run, look.grew)


def _grew(run: Run, before: _FolderSize, *, size: int, seconds: float, seen: datetime) -> None:
    new: dict[str, Any] = {
        "download_began_at": run.download_began_at or before.seen,
        "download_ended_at": None,
        "download_size": size,
        "download_total": before.total,
        "download_rate": (size - before.size) / seconds,
        "last_output_at": seen,
    }
    _keep(run, new)


def _end(run: Run, at: datetime) -> None:
    if run.download_began_at is not None and run.download_ended_at is None:
        _keep(run, {"download_ended_at": at, "download_rate": None})


def _keep(run: Run, new: dict[str, Any]) -> None:
    for name, value in new.items():
        setattr(run, name, value)
    Run.objects.filter(pk=run.pk).update(**new)
