"""A run's other tables, one row each: its plan, its start, its log and its health."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import models

from servers.models.json_values import Json


class RunPlan(models.Model):
    """What was asked for, and what was decided when it was made."""

    run = models.OneToOneField(
        "servers.Run", on_delete=models.CASCADE, primary_key=True, related_name="plan"
    )
    # What the server had its own values for when it was asked for.
    values: Json[dict[str, str]] = models.JSONField(default=dict)
    # The earlier run that it repeats, with its version, image and commit of the checkpoint.
    repeats = models.ForeignKey(
        "servers.Run", null=True, on_delete=models.SET_NULL, related_name="+"
    )
    # The image id to run instead of what the profile's reference means by now; "": not set.
    pinned_image = models.CharField(max_length=80, blank=True)
    # Why it was started although the check had found an error; "" where it had not.
    overridden_errors = models.CharField(max_length=300, blank=True)
    restart_overridden_errors = models.CharField(max_length=300, blank=True)  # for the next one
    # Which automatic start in a row it is; 0: a person wanted it.
    attempts = models.PositiveIntegerField(default=0)
    # Encrypted: the secrets that the container was given. A replaced one stays masked in what
    # it prints. Forgotten when its log is whole.
    sealed_secrets = models.BinaryField(null=True)

    def __str__(self) -> str:
        return f"plan of run {self.run_id}"


class RunStart(models.Model):
    """What its start was made of, and how far it came."""

    run = models.OneToOneField(
        "servers.Run", on_delete=models.CASCADE, primary_key=True, related_name="start"
    )
    pulling_at = models.DateTimeField(null=True)
    creating_at = models.DateTimeField(null=True)
    # The pull that it waits for, or waited for last.
    pull = models.ForeignKey(
        "servers.ImageJob", null=True, on_delete=models.SET_NULL, related_name="+"
    )

    # What a tag cannot say.
    image_digest = models.CharField(max_length=300, blank=True)
    checkpoint_revision = models.CharField(max_length=64, blank=True)
    engine_version = models.CharField(max_length=60, blank=True)
    command: Json[list[str]] = models.JSONField(default=list)
    # What Docker was asked for, as a command; "": before it was kept, or not started by inferdash.
    docker_run = models.TextField(blank=True)
    # {"driver", "boot": its box's boot id, "others": slugs, "free": bytes of its box's GPU memory}.
    around: Json[dict[str, Any]] = models.JSONField(default=dict)
    # A judge.external.engines.Origin's, with "name" and "image" as Docker calls them, "restarts"
    # (by its policy so far), "has_log", "no_log" and "see_log" (why none can be read, and the
    # command that shows it), and "remarks": what a profile of it had to assume or to leave out.
    origin: Json[dict[str, Any]] = models.JSONField(default=dict)

    # Bytes of a unified pool that no GPU process held when the container was made; None elsewhere.
    unattributed_at_start = models.BigIntegerField(null=True)
    # What its GPUs had in use before its container was made (judge.memory.release); None: it
    # uses none, or nobody could tell.
    memory_before: Json[dict[str, Any] | None] = models.JSONField(null=True)
    # While it loads on unified memory: that the machine has little left, a sentence; "": enough.
    memory_warning = models.TextField(blank=True)

    # A Reader's, and up to which line of the log it has read.
    reader: Json[dict[str, Any]] = models.JSONField(default=dict)
    phases_read = models.PositiveIntegerField(default=0)
    # Phase -> seconds that it took in earlier good runs, as of the start.
    usual_phases: Json[dict[str, float]] = models.JSONField(default=dict)
    last_output_at = models.DateTimeField(null=True)  # its last line or measured progress

    # The checkpoint's growth in the Hugging Face cache. No moment: it was not seen to grow.
    download_began_at = models.DateTimeField(null=True)
    download_ended_at = models.DateTimeField(null=True)
    download_size = models.BigIntegerField(null=True)  # bytes there
    download_total = models.BigIntegerField(null=True)  # by its index; None: not known
    download_rate = models.FloatField(null=True)  # bytes a second, of late

    def __str__(self) -> str:
        return f"start of run {self.run_id}"

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


class RunLog(models.Model):
    """How much of its log is stored, and what was found in it."""

    run = models.OneToOneField(
        "servers.Run", on_delete=models.CASCADE, primary_key=True, related_name="log"
    )
    lines = models.PositiveIntegerField(default=0)  # so far, with those cut out since
    size = models.BigIntegerField(default=0)  # bytes of text that are kept
    # Lines cut out to bound it: {"first", "last": numbers, "from", "to": the stamps of all between}.
    gap: Json[dict[str, Any] | None] = models.JSONField(null=True)
    # Lines up to here were looked through for the texts that the profile wants or does not want;
    # of each that was found, the number of its first line.
    searched = models.PositiveIntegerField(default=0)
    found: Json[dict[str, int]] = models.JSONField(default=dict)
    is_complete = models.BooleanField(default=False)  # compared with Docker's after the end
    # A container that is started again goes on in one log: only what lies between these stamps
    # is of this run. "": no bound.
    from_stamp = models.CharField(max_length=40, blank=True)
    until_stamp = models.CharField(max_length=40, blank=True)
    # Of a process's log, a file a stream: {"o": {"path", "inode": [device, number], "offset"}}.
    files: Json[dict[str, Any]] = models.JSONField(default=dict)
    last_lines: Json[list[str]] = models.JSONField(default=list)
    # {"outcome", "cause", "summary", "evidence": [[line, text]], "groups", "is_partial":
    # only a part of the log was there}; empty: not looked at yet.
    diagnosis: Json[dict[str, Any]] = models.JSONField(default=dict)
    # A judge.logs.evidence.Oom's: the kernel killed it, or a part of it, for want of main memory;
    # {}: not known.
    oom: Json[dict[str, Any]] = models.JSONField(default=dict)

    def __str__(self) -> str:
        return f"log of run {self.run_id}"

    @property
    def cause(self) -> str:
        """An id of the catalogue; "": not recognised, or not looked at."""
        return self.diagnosis.get("cause") or ""

    @property
    def place(self) -> str:
        """What older versions stored of an end of which only the place was known; "": nothing."""
        return self.diagnosis.get("place") or ""


class RunHealth(models.Model):
    """What probes and samples last said of it."""

    run = models.OneToOneField(
        "servers.Run", on_delete=models.CASCADE, primary_key=True, related_name="health"
    )
    # What the engine last said of itself. None: it does not say.
    requests_running = models.PositiveIntegerField(null=True)
    last_request_at = models.DateTimeField(null=True)
    tokens_per_second = models.FloatField(null=True)
    # The most that was seen of it. None: never measured.
    peak_tokens_per_second = models.FloatField(null=True)
    peak_memory = models.BigIntegerField(null=True)  # bytes on all its GPUs together

    # Since when it is unhealthy, and why, to go on after "unhealthy: ". None: it is not.
    unhealthy_since = models.DateTimeField(null=True)
    unhealthy_because = models.CharField(max_length=200, blank=True)
    slow_because = models.CharField(max_length=200, blank=True)  # after "slow to answer: "
    # All its GPUs are busy and move nothing since then; None: they do not.
    spins_since = models.DateTimeField(null=True)
    spinning_gpus = models.PositiveSmallIntegerField(default=0)

    # How it answered the one question that inferdash asks: host.runs.questions.CompletionResult,
    # with "before" (tokens a second of the last good run), "remarks" and "is_faulty". Empty: not
    # asked.
    first_answer: Json[dict[str, Any]] = models.JSONField(default=dict)
    # {"level", "before", "after": bytes on all its GPUs or None, "woke_in": seconds the last time,
    # "trouble", "trouble_at": why it could not be woken, and when (unix seconds)}.
    sleep_info: Json[dict[str, Any]] = models.JSONField(default=dict)
    # A Release's; empty until it has ended.
    memory_after: Json[dict[str, Any]] = models.JSONField(default=dict)

    class Meta:
        verbose_name_plural = "run health"

    def __str__(self) -> str:
        return f"health of run {self.run_id}"

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
