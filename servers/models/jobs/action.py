"""Actions on a box, and their results."""

from datetime import timedelta
from typing import Any

from django.db import models
from django.utils import timezone

from servers.models.box import Box
from servers.models.people.user import User

# Process ids are used again: what nobody has done by then is not done any more.
GOOD_FOR = timedelta(seconds=60)
# How long a page tells what was done.
TOLD_FOR = timedelta(days=1)


class ActionKind(models.TextChoices):
    KILL = "kill"  # a process that outlived its container
    UNLINK = "unlink"  # shared memory that nobody uses
    ADOPT = "adopt"  # a container that no run knows becomes one
    REMOVE = "remove"  # a container
    RECLAIM = "reclaim"  # page cache and what the driver keeps
    PULL = "pull"  # an image, although one of its name is there
    WATCH = "watch"  # a container of somebody else's
    DELETE = "delete"  # a model from its disks
    PROFILE = "profile"  # made of what somebody else has started
    TAKE_OVER = "takeover"  # somebody else's stopped, its profile started


class ActionState(models.TextChoices):
    ASKED = "asked"
    DOING = "doing"
    DONE = "done"
    REFUSED = "refused"


class Action(models.Model):
    """A wish in a row: the web writes it, the box's watcher does it or says why not."""

    Kind = ActionKind
    State = ActionState

    box = models.ForeignKey(Box, on_delete=models.CASCADE, related_name="actions")
    kind = models.CharField(max_length=10, choices=ActionKind)
    # What it is to be done to, by the key of what was left behind; "" for the box itself.
    target = models.CharField(max_length=120, blank=True)
    what = models.CharField(max_length=200)  # the same for people: "process 4711 (VLLM::Worker)"
    details: "models.JSONField[dict[str, Any], dict[str, Any]]" = models.JSONField(default=dict)
    state = models.CharField(max_length=10, choices=ActionState, default=ActionState.ASKED)
    asked_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    asked_at = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True)
    said = models.TextField(blank=True)  # one or two sentences on what came of it
    command = models.TextField(blank=True)  # to be typed on the box where inferdash may not

    class Meta:
        ordering = ["-asked_at", "-pk"]

    def __str__(self) -> str:
        return f"{self.kind} {self.what}"

    @property
    def is_over(self) -> bool:
        return self.state in (self.State.DONE, self.State.REFUSED)
