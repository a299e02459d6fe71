"""A run's start: its phases, their usual times, its progress."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import models


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


class Sleep(models.TextChoices):
    AWAKE = ""
    FALLING = "falling"  # asleep within moments; nothing is passed on to it any more
    ASLEEP = "asleep"
    WAKING = "waking"


class SleepFields(models.Model):
    """Part of Run, of which only one that is ready sleeps."""

    sleep = models.CharField(max_length=8, choices=Sleep, blank=True, default=Sleep.AWAKE)
    sleep_moved_at = models.DateTimeField(null=True)
    # Since when somebody wants it awake; None: nobody does.
    wake_wanted_at = models.DateTimeField(null=True)
    # {"level", "before", "after": bytes on all its GPUs or None, "woke_in": seconds the last time,
    # "trouble", "trouble_at": why it could not be woken, and when (unix seconds)}.
    sleep_info: "models.JSONField[dict[str, Any], dict[str, Any]]" = models.JSONField(default=dict)

    class Meta:
        abstract = True

    # Of the run itself, which this is a part of.
    state: "models.CharField[str, str]"

    @property
    def sleeps(self) -> bool:
        """Whether it answers nobody because it sleeps, or is about to."""
        return self.state == "ready" and self.sleep != Sleep.AWAKE

    @property
    def sleep_trouble(self) -> str:
        """Why it could not be woken the last time; "" where it could."""
        return str(self.sleep_info.get("trouble", "")) if self.sleeps else ""


class DiagnosisFields(models.Model):
    """Part of Run."""

    # {"outcome", "cause", "summary", "evidence": [[line, text]], "groups", "is_partial": only a
    # part of the log was there}; empty: not looked at yet.
    diagnosis: "models.JSONField[dict[str, Any], dict[str, Any]]" = models.JSONField(default=dict)
    # {"driver", "boot": its box's boot id, "others": slugs, "free": bytes of its box's GPU memory} as it started.
    around: "models.JSONField[dict[str, Any], dict[str, Any]]" = models.JSONField(default=dict)
    # A judge.logs.evidence.Oom's: the kernel killed it, or a part of it, for want of main memory; {}: not known.
    oom: "models.JSONField[dict[str, Any], dict[str, Any]]" = models.JSONField(default=dict)

    failure: "models.TextField[str, str]"

    class Meta:
        abstract = True

    @property
    def cause(self) -> str:
        """An id of the catalogue; "": not recognised, or not looked at."""
        return self.diagnosis.get("cause") or ""

    @property
    def why(self) -> str:
        """The sentence that says most of why it ended."""
        return self.diagnosis["summary"] if self.cause else self.failure


class QueueFields(models.Model):
    """Part of Run, while it is queued."""

    # Somebody told it to wait until nobody is on its GPUs, and until when; None: for ever.
    waits = models.BooleanField(default=False)
    waits_until = models.DateTimeField(null=True)
    # When it no longer had to: from then on it may be short of memory for a while, not for ever.
    turn_at = models.DateTimeField(null=True)
    # Runs that it waits for, as last seen.
    waits_for: "models.ManyToManyField[models.Model, models.Model]" = models.ManyToManyField(
        "self", symmetrical=False, related_name="waited_for_by"
    )

    class Meta:
        abstract = True

    # Of the run itself, which this is a part of.
    state: "models.CharField[str, str]"
    created_at: "models.DateTimeField[datetime, datetime]"

    @property
    def began_at(self) -> datetime:
        """The click; of one that has waited for others, when its turn came."""
        return self.turn_at or self.created_at

    @property
    def is_waiting(self) -> bool:
        """Whether it was told to wait, and still does."""
        return self.waits and self.state == "queued"


class ReleaseFields(models.Model):
    """Part of Run."""

    # What its GPUs had in use before its container was made (judge.release.before); None: it
    # uses none, or nobody could tell.
    memory_before: "models.JSONField[dict[str, Any] | None, dict[str, Any] | None]" = (
        models.JSONField(null=True)
    )
    # A Release's; empty until it has ended.
    memory_after: "models.JSONField[dict[str, Any], dict[str, Any]]" = models.JSONField(
        default=dict
    )
    released_at = models.DateTimeField(null=True)  # since when nothing more is expected
    # The container's id once it was removed: a process may outlive even that.
    container_was = models.CharField(max_length=64, blank=True, db_index=True)

    class Meta:
        abstract = True


class ServingFields(models.Model):
    """Part of Run."""

    # Since when it is unhealthy, and why, to go on after "unhealthy: ". None: it is not.
    unhealthy_since = models.DateTimeField(null=True)
    unhealthy_because = models.CharField(max_length=200, blank=True)
    slow_because = models.CharField(max_length=200, blank=True)  # after "slow to answer: "

    # How it answered the one question that inferdash asks: host.runs.questions.Answer, with "before"
    # (tokens a second of the last good run), "remarks" and "is_faulty". Empty: not asked.
    first_answer: "models.JSONField[dict[str, Any], dict[str, Any]]" = models.JSONField(
        default=dict
    )

    class Meta:
        abstract = True

    # Of the run itself, which this is a part of.
    state: "models.CharField[str, str]"

    @property
    def is_unhealthy(self) -> bool:
        return self.state == "ready" and self.unhealthy_since is not None

    @property
    def first_answer_words(self) -> str:
        """ "64 tokens, the first after 85 ms, 33 tok/s"; "" where it was not asked."""
        said = self.first_answer
        if not said or said["error"]:
            return f"none: {said['error']}" if said else ""
        parts = [f"{said['tokens']} token{'' if said['tokens'] == 1 else 's'}"]
        if (seconds := said["first_token"]) is not None:
            shown = f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
            parts.append(f"the first after {shown}")
        if said["rate"] is not None:
            parts.append(f"{said['rate']:.3g} tok/s")
        return ", ".join(parts)

    @property
    def ready_but(self) -> tuple[str, ...]:
        """What is not as it should be with its first answer, each to go on after "ready, but "."""
        return tuple(self.first_answer.get("remarks", ()))


class ExternalFields(models.Model):
    """Part of Run."""

    is_watched = models.BooleanField(default=False)
    # A judge.external.engines.Origin's, with "name" and "image" as Docker calls them, "restarts" (by its
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
