"""The health of a ready engine: healthy, slow to answer, or unhealthy. Pure.

An engine's health path tells little: it can answer 200 while the scheduler behind it is dead
(vLLM's issues 2731 and 17972; a deadlock on a GB10 stayed green for hours). So what is asked
of it every other second is kept in a `Record`, which judges: how the path answered over time,
whether the figures move that move while it computes, and whether it answers a question.

The rule is that of docs/gpu-memory.md. A collective that waits for a rank which never comes
keeps every multiprocessor busy with polling; the memory is not touched and little power is
drawn. /health may answer all the while, so that only the cards give it away.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from servers.judge.memory import pools
from servers.judge.messages import Sentence, say

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
    code: str = field(default="", compare=False)  # of the message, with what it was filled in with
    params: Mapping[str, Any] = field(default_factory=dict, compare=False)


def _judge(condition: Condition, said: Sentence, since: datetime | None = None) -> HealthVerdict:
    return HealthVerdict(
        condition=condition, because=said.text, since=since, code=said.code, params=said.params
    )


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
            return _judge(Condition.SLOW, say("runs.health-slow", path=path, seconds=SLOW_ANSWER))
        return HealthVerdict(condition=Condition.HEALTHY)

    def _by_answers(self, path: str) -> HealthVerdict | None:
        since, at = self.answers_so_since, self.at
        if self.answer == "ok" or since is None or at is None:
            return None
        # An image may lack the path: what never answered 200 does not become ill by that.
        if self.answer == "unhealthy" and not self.was_ok:
            return None
        said = {
            "refused": lambda: say("runs.health-refused"),
            "loading": lambda: say("runs.health-loading", path=path),
            "silent": lambda: say("runs.health-silent", path=path),
            "unhealthy": lambda: say("runs.health-error", path=path),
        }[self.answer]()
        if self.answered_so >= FEWEST and at - since >= AFTER[self.answer]:
            return _judge(Condition.UNHEALTHY, said, since)
        if self.answered_so >= FEWEST and self.answer == "silent":
            return _judge(Condition.SLOW, said, since)
        return HealthVerdict(condition=Condition.UNSURE, since=since)

    def _by_figures(self, path: str) -> HealthVerdict | None:
        if self.still_since is None or self.at is None or not self.still_looks:
            return None
        for_long = self.at - self.still_since
        requests = "1 request" if self.requests == 1 else f"{self.requests} requests"
        said = say("runs.health-no-tokens", path=path, requests=requests)
        if for_long >= STILL_AFTER and self.still_looks >= FEWEST:
            return _judge(Condition.UNHEALTHY, said, self.still_since)
        if for_long >= STILL_SLOW and self.still_looks >= FEWEST:
            return _judge(Condition.SLOW, said, self.still_since)
        # Prompts are being read: nothing is wrong so far, and nothing is proven either.
        return HealthVerdict(condition=Condition.UNSURE, since=self.still_since)

    def _by_asks(self, path: str) -> HealthVerdict | None:
        if not self.failed_asks:
            return None
        if self.failed_asks < FAILED_ASKS:
            return HealthVerdict(condition=Condition.UNSURE, since=self.failing_since)
        said = say("runs.health-no-answer", path=path)
        return _judge(Condition.UNHEALTHY, said, self.failing_since)


# uvicorn, which vLLM and SGLang serve with, says it after SIGINT and SIGTERM; llama.cpp its own.
_ORDERLY = {
    "vllm": re.compile(r"Shutting down|Application shutdown complete|SIGTERM|SIGINT"),
    "sglang": re.compile(r"Shutting down|Application shutdown complete|SIGTERM received"),
    "llamacpp": re.compile(r"cleaning up before exit|Received second interrupt"),
}
# It says the same when it gives up by itself: then an error stands before it.
_TROUBLE = re.compile(
    r"Traceback|\bERROR\b|EngineDeadError|CUDA error|out of memory|OutOfMemory|Segmentation fault|"
    r"exiting due to|ggml_abort|GGML_ASSERT|terminate called|Killed|core dumped",
)


def is_orderly(engine: str, lines: Iterable[str]) -> bool:
    """`lines` are the last ones of its log; none say nothing, and then it is not.

    Rule: the words that an engine prints on SIGINT or SIGTERM, and no error among the last lines.
    """
    words = _ORDERLY.get(engine)
    lines = list(lines)
    if words is None or any(_TROUBLE.search(line) for line in lines):
        return False
    return any(words.search(line) for line in lines)


def describe_sleep(sleep_info: Mapping[str, Any], state: str) -> Sentence:
    """ "asleep: 71 GiB released, wakes in about 3 s"; only what was measured is said.

    `sleep_info` is what models.runs.run_parts keeps.
    """
    if state == "falling":
        return say("runs.sleep-falling")
    usual = sleep_info.get("woke_in")
    if state == "waking":
        if not usual:
            return say("runs.sleep-waking")
        return say("runs.sleep-waking-usual", usual=_seconds(usual))
    back = given_back(sleep_info)
    if back is None:
        said = "runs.asleep-release-unknown", "runs.asleep-release-unknown-wakes"
    elif back <= 0:
        said = "runs.asleep-nothing-released", "runs.asleep-nothing-released-wakes"
    else:
        said = "runs.asleep", "runs.asleep-wakes"
    known = {"released": _gib(back)} if back and back > 0 else {}
    return say(said[1], **known, wakes=_seconds(usual)) if usual else say(said[0], **known)


def given_back(sleep_info: Mapping[str, Any]) -> int | None:
    """None where the driver does not tell how much an engine holds."""
    before, after = sleep_info.get("before"), sleep_info.get("after")
    return None if before is None or after is None else int(before) - int(after)


def compute_wake_shortfall(
    sleep_info: Mapping[str, Any], sample: Mapping[str, Any] | None, gpus: str
) -> int:
    """Bytes that its GPUs lack for it to have back what it gave; 0 where that is not known."""
    back = given_back(sleep_info)
    free = pools.compute_free(sample, gpus)
    if not back or back <= 0 or not free:
        return 0
    each = back // len(free)
    return sum(max(0, each - size) for size in free.values())


def _gib(size: int) -> str:
    count = size / 2**30
    return f"{count:.0f} GiB" if count >= 10 else f"{count:.1f} GiB"  # noqa: PLR2004


def _seconds(said: float) -> str:
    return f"{said:.1f} s" if said < 10 else f"{said:.0f} s"  # noqa: PLR2004


BUSY = 90  # percent
STILL = 1  # percent of the time in which memory is read or written
# Of a card's power limit: computing takes more.
POWER_SHARE = 0.4
# A GB10 reports neither memory utilisation nor a limit. At work it draws 45 W and more, in a
# deadlock 13-27 W.
POWER_GB10 = 30.0
# Below this clock a busy GB10 is not deadlocked but held back, which is another fault.
CLOCK_GB10 = 1400  # MHz

SPINNING_AFTER = timedelta(seconds=120)  # of nothing else than spinning
# A start must have been silent for so long, too: kernels are compiled for minutes on a GB10.
SILENT = timedelta(minutes=2)
SILENT_UNIFIED = timedelta(minutes=10)


def cards_of(sample: Mapping[str, Any], container: str) -> list[Mapping[str, Any]]:
    """The cards of a sample on which the container has a process."""
    mine = {
        each["pid"] for each in sample.get("processes") or [] if each.get("container") == container
    }
    return [
        card
        for card in sample.get("gpus") or []
        if any(process["pid"] in mine for process in card.get("processes") or [])
    ]


def spins(card: Mapping[str, Any]) -> bool | None:
    """Whether a card of a sample is busy with nothing; None where it does not tell enough."""
    util, power = card.get("util"), card.get("power_w")
    if util is None:
        return None
    if util < BUSY:
        return False
    if card.get("kind") == "unified":
        clock = card.get("sm_mhz")
        if power is None or clock is None:
            return None
        return bool(power < POWER_GB10 and clock >= CLOCK_GB10)
    moved, limit = card.get("mem_util"), card.get("power_limit_w")
    if moved is None:
        return None
    if power is not None and limit and power >= POWER_SHARE * limit:
        return False
    return bool(moved <= STILL)


def all_spin(cards: Iterable[Mapping[str, Any]]) -> bool:
    """Whether every one of an engine's cards does; not where one does not tell, or there is none."""
    found = [spins(card) for card in cards]
    return bool(found) and all(each is True for each in found)


def is_stuck(
    spinning: datetime | None, heard: datetime | None, *, unified: bool, now: datetime
) -> bool:
    """Whether a start is deadlocked: `spinning` is since when all of its cards spin, `heard`
    its last line or progress; None: never."""
    if spinning is None or now - spinning < SPINNING_AFTER:
        return False
    return heard is None or now - heard >= (SILENT_UNIFIED if unified else SILENT)


def describe_spinning(phase: str, *, cards: int) -> str:
    """What it looks like, after "stuck: "; `phase` is a key of PHASES, "" when it serves."""
    where = {
        "": "while it serves",
        "capturing": "in graph capture",
        "ready": "while it serves",
    }.get(phase, "in its start")
    code = "runs.deadlock"
    return say("runs.deadlock-collective" if cards > 1 else code, where=where).text


def name_spinning_remedy(engine: str, phase: str, *, unified: bool) -> str:
    """What to do, in sentences. Sources: the guide on two DGX Sparks; vLLM's issue 52504;
    the rtx6kpro wiki on cards that meet over PCIe."""
    flag = {"vllm": "--enforce-eager", "sglang": "--disable-cuda-graph"}.get(engine)
    said = [say("runs.deadlock-remedy")]
    if phase in ("capturing", "tuning") and flag:
        said.append(say("runs.deadlock-remedy-flag", flag=flag))
    elif phase in ("", "ready"):
        said.append(say("runs.deadlock-remedy-restart"))
    elif phase == "connecting" and not unified:
        said.append(say("runs.deadlock-remedy-p2p"))
    else:
        said.append(say("runs.deadlock-remedy-links"))
    if unified:
        said.append(say("runs.deadlock-remedy-two-machines"))
    return " ".join(map(str, said))


# How the sentence on other names begins: by it, it is taken back.
SERVES_OTHERS = "What answers on its port serves "


def describe_other_names(names: Sequence[str], wanted: str) -> str:
    """The sentence on a start whose address serves other models; "" where it serves none."""
    if not names:
        return ""
    quoted = [f"“{name}”" for name in names]
    listed = " and ".join(filter(None, (", ".join(quoted[:-1]), quoted[-1])))
    return f"{SERVES_OTHERS}{listed}, not “{wanted}”. {say('runs.other-names')}"
