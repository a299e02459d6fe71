"""The load generator: a program of its own, so that no page, gateway or watcher slows what it measures.

Its standard input has a line of JSON with the target and its limits, then one for each point. It
writes a line for each request, and one at the end of a point. It ends with its standard input, and
when its time is up, whatever it does then: no load outlives who wanted it, nor what was agreed.
"""

import asyncio
import dataclasses
import gc
import itertools
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from servers.host.benchmarks import orders, precedence
from servers.host.benchmarks.requests import BenchmarkTarget, Message, build_body, send_timed
from servers.host.benchmarks.streams import EngineStreams
from servers.host.benchmarks.timings import RequestTiming

_TICK = 0.01  # seconds between looks at the loop's own lag


class LoadLimitError(Exception):
    """A limit is reached; the point is not whole."""


class RequestBudget:
    """How many requests may still be sent."""

    def __init__(self, requests: int) -> None:
        self.left = requests
        self.is_spent = False  # one more was wanted

    def take(self) -> bool:
        if not self.left:
            self.is_spent = True
            return False
        self.left -= 1
        return True


@dataclass(frozen=True, kw_only=True)
class PointPlan:
    """`prompts` are sent in their order, begun anew at the end. `rate` None: a closed loop, the next
    request when one has ended; else requests a second with exponential gaps, from `seed`.

    `arrivals`: an open loop as well, with the seconds behind its begin of each prompt. `outputs`:
    the tokens of each prompt's answer, where they differ. `talk`: each prompt begins a conversation,
    or goes on with the one that the same prompt of the plan before belonged to, its answer included.
    """

    concurrency: int
    requests: int
    seconds: float  # no request is begun after it
    output_tokens: int
    prompts: tuple[str, ...]
    warmups: int = 0  # requests before it that are not measured
    rate: float | None = None
    seed: int = 0
    arrivals: tuple[float, ...] = ()
    outputs: tuple[int, ...] = ()
    talk: Literal["", "begins", "goes on"] = ""

    @property
    def is_open_loop(self) -> bool:
        return self.rate is not None or bool(self.arrivals)


@dataclass(frozen=True, kw_only=True)
class PointTimings:
    requests: tuple[RequestTiming, ...]
    lag: float  # seconds, the 99th percentile of the loop's lateness


type Report = Callable[[RequestTiming], None]


@dataclass(kw_only=True)
class LoadState:
    """What outlasts a point: the budget, conversations by the place of their prompts, and how many
    requests are in flight, of which `tell` hears in an open loop."""

    budget: RequestBudget
    talks: dict[int, list[Message]] = field(default_factory=dict)
    in_flight: int = 0
    tell: Callable[[int], None] = lambda _in_flight: None


async def measure(
    target: BenchmarkTarget, plan: PointPlan, report: Report, state: LoadState
) -> PointTimings:
    """Warm the shape up, then send. `report` hears of each measured request as it ends.

    Raises LoadLimitError where the budget ends before the point does.
    """
    with EngineStreams(target.url, target.headers, target.via) as streams:
        sender = _PointSender(streams, target, plan, report, state)
        if plan.warmups:
            await sender.warm_up()
        async with _watch_lag() as lags:
            found = await (sender.send_open() if plan.is_open_loop else sender.send_closed())
    if state.budget.is_spent:
        raise LoadLimitError("It has sent as many requests as it may.")
    lag = sorted(lags)[len(lags) * 99 // 100] if lags else 0.0
    return PointTimings(requests=tuple(found), lag=lag)


class _PointSender:
    def __init__(
        self,
        streams: EngineStreams,
        target: BenchmarkTarget,
        plan: PointPlan,
        report: Report,
        state: LoadState,
    ) -> None:
        self.streams, self.target, self.plan, self.report = streams, target, plan, report
        self.state, self.budget = state, state.budget
        self.places = itertools.cycle(range(len(plan.prompts)))
        if plan.talk == "begins":
            state.talks.clear()

    async def warm_up(self) -> None:
        """With as many at once as are measured: graphs and kernels are made by the batch's size.

        A prompt that begins otherwise than those measured: else the cache would hold these then.
        """
        prompts = zip(range(self.plan.warmups), itertools.cycle(self.plan.prompts), strict=False)
        bodies = [
            build_body(self.target, [_say(f"{number}. {prompt}")], self.plan.output_tokens)
            for number, prompt in prompts
            if self.budget.take()
        ]
        await asyncio.gather(*(send_timed(self.streams, body, None) for body in bodies))

    async def send_closed(self) -> list[RequestTiming]:
        until = time.monotonic() + self.plan.seconds
        left = iter(range(self.plan.requests))
        found: list[RequestTiming] = []

        async def work() -> None:
            for _number in left:
                if time.monotonic() >= until or not self.budget.take():
                    return
                await self._send(found, None)

        await asyncio.gather(*(work() for _ in range(self.plan.concurrency)))
        return found

    async def send_open(self) -> list[RequestTiming]:
        """Latency counts from the planned arrival, so that a queue in here is not left out."""
        found: list[RequestTiming] = []
        begin = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for after in self._plan_arrivals():
                if after >= self.plan.seconds or not self.budget.take():
                    break
                planned = begin + after
                await asyncio.sleep(max(0.0, planned - time.monotonic()))
                self.state.tell(self.state.in_flight + 1)
                group.create_task(self._send(found, planned))
        return found

    def _plan_arrivals(self) -> Iterator[float]:
        """Seconds behind the begin."""
        if self.plan.arrivals:
            yield from self.plan.arrivals
            return
        assert self.plan.rate is not None
        chance = random.Random(self.plan.seed)  # noqa: S311 - arrivals, no secrets
        after = 0.0
        for _ in range(self.plan.requests):
            after += chance.expovariate(self.plan.rate)
            yield after

    async def _send(self, found: list[RequestTiming], planned: float | None) -> None:
        place = next(self.places)
        plan, said = self.plan, _say(self.plan.prompts[place])
        talk = self.state.talks.setdefault(place, []) if plan.talk else []
        output = plan.outputs[place] if plan.outputs else plan.output_tokens
        body = build_body(self.target, [*talk, said], output)
        heard: list[str] = []
        self.state.in_flight += 1
        try:
            timing = await send_timed(self.streams, body, planned, heard)
        finally:
            self.state.in_flight -= 1
        if plan.talk:
            talk += [said, {"role": "assistant", "content": "".join(heard)}]
        found.append(timing)
        self.report(timing)


def _say(prompt: str) -> Message:
    return {"role": "user", "content": prompt}


@asynccontextmanager
async def _watch_lag() -> AsyncIterator[list[float]]:
    lags: list[float] = []

    async def watch() -> None:
        while True:
            wanted = time.monotonic() + _TICK
            await asyncio.sleep(_TICK)
            lags.append(time.monotonic() - wanted)

    watching = asyncio.create_task(watch())
    try:
        yield lags
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _run(
    target: BenchmarkTarget, state: LoadState, plans: "asyncio.Queue[PointPlan]"
) -> None:
    def report(timing: RequestTiming) -> None:
        orders.write({"request": dataclasses.asdict(timing)})

    while True:
        plan = await plans.get()
        try:
            measured = await measure(target, plan, report, state)
        except LoadLimitError as error:
            orders.write({"limit": str(error)})
        else:
            orders.write({"lag": measured.lag})


async def _serve() -> None:
    precedence.shorten_slice()
    gc.freeze()  # what is imported need not be looked through again while events come
    target, limits = await orders.begin()
    plans: asyncio.Queue[PointPlan] = asyncio.Queue()
    orders.follow(lambda said: plans.put_nowait(_read_plan(said)))
    state = LoadState(
        budget=RequestBudget(limits.requests),
        tell=lambda in_flight: orders.write({"in_flight": in_flight}),
    )
    await _run(target, state, plans)


def _read_plan(said: dict[str, Any]) -> PointPlan:
    lists = {name: tuple(said[name]) for name in ("prompts", "arrivals", "outputs")}
    return PointPlan(**{**said, **lists})


if __name__ == "__main__":
    asyncio.run(_serve())
