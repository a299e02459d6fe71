"""A run's start: its phases, their usual times, its progress."""

from datetime import datetime
from typing import Any

from django.db import models
from django.utils import timezone

from servers.judge.logs import phases
from servers.judge.logs.phases import PhaseProgress, Reader
from servers.judge.runs import spinning, start_progress, timeline
from servers.launch.engines.launch import Launch


class StartFields(models.Model):
    # A Reader's, and up to which line of the log it has read.
    reader: "models.JSONField[dict[str, Any], dict[str, Any]]" = models.JSONField(default=dict)
    phases_read = models.PositiveIntegerField(default=0)
    # Phase -> seconds that it took in earlier good runs, as of the start.
    usual_phases: "models.JSONField[dict[str, float], dict[str, float]]" = models.JSONField(
        default=dict
    )
    last_output_at = models.DateTimeField(null=True)  # its last line or measured progress

    # All its GPUs are busy and move nothing since then; None: they do not.
    spins_since = models.DateTimeField(null=True)
    spinning_gpus = models.PositiveSmallIntegerField(default=0)

    # The checkpoint's growth in the Hugging Face cache. No moment: it was not seen to grow.
    download_began_at = models.DateTimeField(null=True)
    download_ended_at = models.DateTimeField(null=True)
    download_size = models.BigIntegerField(null=True)  # bytes there
    download_total = models.BigIntegerField(null=True)  # by its index; None: not known
    download_rate = models.FloatField(null=True)  # bytes a second, of late

    class Meta:
        abstract = True

    # Of the run itself, which this is a part of.
    started_at: "models.DateTimeField[datetime | None, datetime | None]"
    ready_at: "models.DateTimeField[datetime | None, datetime | None]"
    ended_at: "models.DateTimeField[datetime | None, datetime | None]"

    @property
    def progress(self) -> PhaseProgress:
        return Reader.from_json(self.reader).progress if self.reader else PhaseProgress()

    @property
    def download(self) -> start_progress.WeightsDownload | None:
        if self.download_began_at is None:
            return None
        return start_progress.WeightsDownload(
            began=self.download_began_at,
            ended=self.download_ended_at,
            size=self.download_size or 0,
            total=self.download_total,
            rate=self.download_rate,
        )

    @property
    def stretches(self) -> tuple[start_progress.Stretch, ...]:
        """The phases of its start; () before its container started."""
        if self.started_at is None:
            return ()
        return start_progress.stretches(
            self.progress,
            started=self.started_at,
            ended=self.ready_at or self.ended_at,
            download=self.download,
        )

    def with_phases(
        self, steps: tuple[timeline.TimelineStep, ...], engine: str
    ) -> tuple[timeline.TimelineStep, ...]:
        return timeline.with_phases(steps, self.stretches, self.usual_phases, phases.order(engine))

    def where_it_starts(
        self, launch: Launch, *, unified: bool
    ) -> start_progress.StartProgress | None:
        """Where the start is; None before the container's start, and after the run's."""
        found = self.stretches
        if not found or self.ready_at or self.ended_at:
            return None
        return start_progress.where(
            found,
            self.progress,
            download=self.download,
            heard=self.last_output_at,
            usually=self.usual_phases,
            expected=launch.expected,
            engine=launch.engine,
            unified=unified,
            now=timezone.now(),
        )

    def stuck_words(self, engine: str, *, unified: bool) -> tuple[str, str]:
        """What it looks like and what to do, where its GPUs give a deadlock away; else two ""."""
        heard = None if self.ready_at else self.last_output_at
        now = timezone.now()
        if self.ended_at or not spinning.is_stuck(
            self.spins_since, heard, unified=unified, now=now
        ):
            return "", ""
        phase = "" if self.ready_at else self.progress.phase
        ranks = self.progress.facts.get("ranks", 0)
        cards = max(self.spinning_gpus, int(ranks) if isinstance(ranks, float) else 0)
        return spinning.words(phase, cards=cards), spinning.remedy(engine, phase, unified=unified)
