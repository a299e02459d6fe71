"""A run's sleep state."""

from typing import Any

from django.db import models

from servers.judge.runs import sleeping


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
    def sleep_words(self) -> str:
        """ "asleep: 71 GiB given back, wakes in about 3 s"; "" of one that is awake."""
        return sleeping.words(self.sleep_info, self.sleep) if self.sleeps else ""

    @property
    def sleep_clause(self) -> str:
        """The same behind its name: "is asleep: …", "wakes up"."""
        return f"is {self.sleep_words}" if self.sleep == Sleep.ASLEEP else self.sleep_words

    @property
    def sleep_trouble(self) -> str:
        """Why it could not be woken the last time; "" where it could."""
        return str(self.sleep_info.get("trouble", "")) if self.sleeps else ""
