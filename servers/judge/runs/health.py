"""The health of a ready engine: healthy, slow to answer, or unhealthy. Pure.

An engine's health path tells little: it can answer 200 while the scheduler behind it is dead
(vLLM's issues 2731 and 17972; a deadlock on a GB10 stayed green for hours). So what is asked
of it every other second is kept in a `Record`, which judges: how the path answered over time,
whether the figures move that move while it computes, and whether it answers a question.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

# How long a fault lasts before it is one. A restart by hand inside the container is seconds of
# refusals; an engine under load answers late, but not for minutes.
AFTER: Mapping[str, timedelta] = {
    "refused": timedelta(seconds=30),
    "loading": timedelta(seconds=60),
    "silent": timedelta(minutes=2),
    "unhealthy": timedelta(minutes=2),
}
# Of nothing that moves while requests run. Kernels that are compiled for a first request take
# a minute or two; SGLang's figures are up to 30 s old.
STILL_AFTER = timedelta(minutes=4)
STILL_SLOW = timedelta(seconds=90)
# Looks with the same fault: two could be a coincidence of one bad moment.
FEWEST = 3
SLOW_ANSWER = 2.0  # seconds of the health path; healthy ones take milliseconds under full load
# A hole between two looks: nobody knows what was in it.
GAP = timedelta(seconds=60)
# Questions without an answer, and the time between the two.
FAILED_ASKS = 2
ASK_AGAIN = timedelta(minutes=1)


class Condition(StrEnum):
    HEALTHY = "healthy"
    SLOW = "slow"  # to answer
    UNHEALTHY = "unhealthy"
    UNSURE = "unsure"  # something is wrong, but not for long enough to be called anything


class ProbeOutcome(StrEnum):
    """What came of a question for one token."""

    ANSWERED = "answered"
    FAILED = "failed"  # no answer in time, a broken one, or an error of its own (5xx)
    REFUSED = "refused"  # it is no engine for chats, or wants another key (4xx)


@dataclass(frozen=True, kw_only=True)
class HealthVerdict:
    """`because` goes on after "unhealthy: " or "slow to answer: "; "" for the other two.

    `since` is when the fault began, not when it was called one; None: there is none.
    """

    condition: Condition
    because: str = ""
    since: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class HealthLook:
    """One look at a ready engine.

    `answer` is a host.runs.probes.Health of its health path, `took` how long that took in seconds; None:
    the path was not asked, and its figures answered for it. `requests` run or wait, None: it does not say. `pulse` are the values of Engine.moving_metrics,
    (): it tells none of them.
    """

    at: datetime
    answer: str
    took: float | None
    requests: int | None
    pulse: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class HealthRecord:
    """What all looks so far amount to; a new one for each time somebody begins to look."""

    at: datetime | None = None  # of the last look
    answer: str = "ok"
    answered_so: int = 0  # looks in a row
    answers_so_since: datetime | None = None
    was_ok: bool = False  # its path has answered 200 at some time
    slow_looks: int = 0  # in a row, of those that asked the path
    timed_at: datetime | None = None  # the last of those

    pulse: tuple[float, ...] = ()
    requests: int = 0
    still_since: datetime | None = None  # requests run, and nothing moves
    still_looks: int = 0
    busy_at: datetime | None = None  # the last sign of a request

    asked_at: datetime | None = None
    failed_asks: int = 0  # in a row
    failing_since: datetime | None = None
    refuses_asks: bool = False

    def add_look(self, look: HealthLook) -> "HealthRecord":
        """The record after one more look."""
        fresh = self.at is None or look.at - self.at > GAP
        same = not fresh and look.answer == self.answer
        slow_looks = self.slow_looks
        if look.took is not None:
            is_slow = look.answer == "ok" and look.took >= SLOW_ANSWER
            slow_looks = slow_looks + 1 if is_slow and not fresh else int(is_slow)
        has_moved = bool(self.pulse and look.pulse) and look.pulse != self.pulse
        still_since, still_looks = self._stillness(look, begins=fresh or has_moved)
        return replace(
            self._clear() if has_moved else self,
            at=look.at,
            answer=look.answer,
            answered_so=self.answered_so + 1 if same else 1,
            answers_so_since=self.answers_so_since if same else look.at,
            was_ok=self.was_ok or look.answer == "ok",
            slow_looks=slow_looks,
            timed_at=self.timed_at if look.took is None else look.at,
            pulse=look.pulse or self.pulse,
            requests=self.requests if look.requests is None else look.requests,
            still_since=still_since,
            still_looks=still_looks,
            busy_at=look.at if look.requests or has_moved else self.busy_at,
        )

    def _stillness(self, look: HealthLook, *, begins: bool) -> tuple[datetime | None, int]:
        """Since when requests run and nothing moves, and at how many looks after the first."""
        if not look.pulse and not begins:
            return self.still_since, self.still_looks  # it told nothing
        if not look.requests or not look.pulse:
            return None, 0
        if begins or self.still_since is None:
            return look.at, 0
        return self.still_since, self.still_looks + 1

    def add_probe(self, outcome: ProbeOutcome, at: datetime) -> "HealthRecord":
        """The record after a question that was asked at `at`."""
        if outcome is ProbeOutcome.FAILED:
            return replace(
                self,
                asked_at=at,
                failed_asks=self.failed_asks + 1,
                failing_since=self.failing_since or at,
            )
        refuses = self.refuses_asks or outcome is ProbeOutcome.REFUSED
        return replace(self._clear(), asked_at=at, refuses_asks=refuses)

    def _clear(self) -> "HealthRecord":
        return replace(self, failed_asks=0, failing_since=None)

    def wants_asking(
        self, every: timedelta, *, ready_at: datetime, last_request: datetime | None, now: datetime
    ) -> bool:
        """Whether it is time to ask for a token: nobody has asked it anything for `every`.

        Not while requests run: their tokens tell as much. A question that failed is repeated
        soon. `last_request`: of what inferdash itself has passed on; None: none.
        """
        if self.at is None or self.refuses_asks or self.requests:
            return False
        if self.failed_asks and self.asked_at:
            return now - self.asked_at >= ASK_AGAIN
        signs = (ready_at, last_request, self.busy_at, self.asked_at)
        return now - max(sign for sign in signs if sign) >= every

    def verdict(self, path: str) -> HealthVerdict:
        """What the looks say; `path` is the health path, for the words."""
        for found in (self._by_answers(path), self._by_figures(path), self._by_asks(path)):
            if found is not None:
                return found
        if self.slow_looks >= FEWEST:
            because = f"{path} takes more than {SLOW_ANSWER:.0f} s"
            return HealthVerdict(condition=Condition.SLOW, because=because)
        return HealthVerdict(condition=Condition.HEALTHY)

    def _by_answers(self, path: str) -> HealthVerdict | None:
        since, at = self.answers_so_since, self.at
        if self.answer == "ok" or since is None or at is None:
            return None
        # An image may lack the path: what never answered 200 does not become ill by that.
        if self.answer == "unhealthy" and not self.was_ok:
            return None
        because = {
            "refused": "nothing listens on its port, although its container runs",
            "loading": f"answers 503 on {path}: it has died inside, or is ending",
            "silent": f"does not answer {path}",
            "unhealthy": f"answers {path} with an error",
        }[self.answer]
        if self.answered_so >= FEWEST and at - since >= AFTER[self.answer]:
            return HealthVerdict(condition=Condition.UNHEALTHY, because=because, since=since)
        if self.answered_so >= FEWEST and self.answer == "silent":
            return HealthVerdict(condition=Condition.SLOW, because=because, since=since)
        return HealthVerdict(condition=Condition.UNSURE, since=since)

    def _by_figures(self, path: str) -> HealthVerdict | None:
        if self.still_since is None or self.at is None or not self.still_looks:
            return None
        for_long = self.at - self.still_since
        requests = "1 request" if self.requests == 1 else f"{self.requests} requests"
        because = f"answers {path}, but has generated nothing with {requests} running"
        if for_long >= STILL_AFTER and self.still_looks >= FEWEST:
            return HealthVerdict(
                condition=Condition.UNHEALTHY, because=because, since=self.still_since
            )
        if for_long >= STILL_SLOW and self.still_looks >= FEWEST:
            return HealthVerdict(condition=Condition.SLOW, because=because, since=self.still_since)
        # Prompts are being read: nothing is wrong so far, and nothing is proven either.
        return HealthVerdict(condition=Condition.UNSURE, since=self.still_since)

    def _by_asks(self, path: str) -> HealthVerdict | None:
        if not self.failed_asks:
            return None
        if self.failed_asks < FAILED_ASKS:
            return HealthVerdict(condition=Condition.UNSURE, since=self.failing_since)
        because = f"answers {path}, but no question for one token"
        return HealthVerdict(
            condition=Condition.UNHEALTHY, because=because, since=self.failing_since
        )
