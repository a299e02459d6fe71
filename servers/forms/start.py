"""The answer of a person to a start whose GPUs are in use."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from django.http import QueryDict
from django.utils import timezone

from servers.launch import numbers
from servers.lifecycle import QueueOptions

type Answer = Literal["", "wait", "drain", "stop", "beside"]

ANSWERS: tuple[Answer, ...] = ("wait", "drain", "stop", "beside")
# Seconds after which a start that waits is given up; 0: never.
TIMES: Mapping[int, str] = {
    1800: "30 minutes",
    7200: "2 hours",
    28800: "8 hours",
    0: "until I stop it",
}
USUALLY = 7200


@dataclass(frozen=True, kw_only=True)
class StartChoice:
    answer: Answer = ""  # "": nobody has been asked yet
    seconds: int = 0
    runs: tuple[int, ...] = ()  # what is to be stopped first

    @property
    def patience(self) -> QueueOptions | None:
        if self.answer not in ("wait", "drain", "stop"):
            return None
        until = timezone.now() + timedelta(seconds=self.seconds) if self.seconds else None
        return QueueOptions(until=until)


def read(post: QueryDict) -> StartChoice:
    """Of a form that says nothing of it, or nonsense, an empty one: then it is asked."""
    answer, seconds = post.get("do", ""), post.get("wait", "")
    if answer not in ANSWERS:
        return StartChoice()
    wanted = numbers.whole(seconds)
    chosen = USUALLY if wanted is None or wanted not in TIMES else wanted
    stops = answer in ("drain", "stop")
    named = [numbers.whole(pk) for pk in post.getlist("holder")] if stops else []
    runs = [pk for pk in named if pk is not None]
    return StartChoice(answer=answer, seconds=chosen, runs=tuple(runs))
