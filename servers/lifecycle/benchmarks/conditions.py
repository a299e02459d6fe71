"""Conditions on a box while a point is measured, looked at once a second."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from servers.host.runs import probes
from servers.judge.benchmarks.points import PointConditions
from servers.judge.runs import metrics
from servers.judge.runs.health import cards_of
from servers.launch.engines import ENGINES
from servers.lifecycle.benchmarks import giving_way
from servers.lifecycle.benchmarks.subject import BenchmarkSubject

EVERY = 1.0  # seconds
# Reasons of nvml.h by which a card is slower than it could be; unknown to most: the others.
_SLOWED = frozenset({"sw_power_cap", "hw_slowdown", "sw_thermal", "hw_thermal", "hw_power_brake"})
_ENGINE = 512 * 2**20  # bytes that a process holds; less is a desktop
_SWAPPED = 64 * 2**20  # bytes more in the swap; less is what a machine does all day


class ConditionWatch:
    """Of one round. `look` may be called as often as one likes."""

    def __init__(
        self,
        subject: BenchmarkSubject,
        count_ours: Callable[[], int],
        read_sample: Callable[[], Mapping[str, Any] | None],
    ) -> None:
        self._subject, self._count_ours, self._read_sample = subject, count_ours, read_sample
        engine = ENGINES[subject.run.version.launch.engine]
        self._path = engine.metrics_path
        self._counts = (engine.running_metric, engine.waiting_metric)
        self._book = metrics.by_engine().get(engine.key)
        self._preemptions = self._book.counted.get("preemptions", ()) if self._book else ()
        self._others: int | None = None
        self._running: int | None = None
        self._waiting: int | None = None
        self._kv: float | None = None
        self._engines: int | None = None
        self._looks = self._slowed = 0
        self._swap: list[int] = []
        self._preempted: list[float] = []
        self._looked_at = float("-inf")
        self._sampled: float | None = None

    def look(self, *, at_once: bool = False) -> None:
        now = time.monotonic()
        if now - self._looked_at < EVERY and not at_once:
            return
        self._looked_at = now
        self._look_at_engine()
        sample = self._read_sample()
        if sample is not None and sample.get("stale_s") is None and sample["t"] != self._sampled:
            self._sampled = sample["t"]
            self._look_at_box(sample)

    def _look_at_engine(self) -> None:
        if not self._path:
            return
        kv = self._book.gauges.get("kv") if self._book else None
        names = {*self._counts, *self._preemptions, *(kv.names if kv else ())} - {""}
        exposed = probes.fetch_metrics(self._subject.endpoint, names, path=self._path)
        told = exposed.totals
        if self._counts[0] in told:
            running, waiting = (int(told.get(name, 0.0)) for name in self._counts)
            others = max(0, running + waiting - self._count_ours())
            self._others = max(self._others or 0, others)
            self._running = max(self._running or 0, running)
            self._waiting = max(self._waiting or 0, waiting)
        elif (known := giving_way.count_requests(self._subject)) is not None:
            self._others = max(self._others or 0, known - self._count_ours())
        if self._book and (used := metrics.gauges(self._book, exposed).kv) is not None:
            self._kv = max(self._kv or 0.0, used)
        self._preempted += [told[name] for name in self._preemptions if name in told][:1]

    def _look_at_box(self, sample: Mapping[str, Any]) -> None:
        memory = sample.get("meminfo") or {}
        if "SwapTotal" in memory and "SwapFree" in memory:
            self._swap.append(memory["SwapTotal"] - memory["SwapFree"])
        container = self._subject.run.container_id
        cards = cards_of(sample, container)
        told = [each["throttle"] for each in cards if each.get("throttle") is not None]
        if told:
            self._looks += 1
            self._slowed += any(_SLOWED & set(reasons) for reasons in told)
        if cards:
            self._engines = max(self._engines or 0, _count_others(sample, cards, container))

    def conclude(self, lag: float) -> PointConditions:
        grown = self._swap[-1] - self._swap[0] if len(self._swap) > 1 else None
        return PointConditions(
            lag=lag,
            requests_of_others=self._others,
            other_engines=self._engines,
            throttled_share=self._slowed / self._looks if self._looks else None,
            preemptions=(
                int(self._preempted[-1] - self._preempted[0]) if self._preempted else None
            ),
            running=self._running,
            waiting=self._waiting,
            kv_share=self._kv,
            swapped=None if grown is None else grown if grown > _SWAPPED else 0,
        )


class CacheHits:
    """Of the engine's own counters, from now on, for engines that tell of no request's own."""

    def __init__(self, subject: BenchmarkSubject) -> None:
        self._subject = subject
        engine = ENGINES[subject.run.version.launch.engine]
        self._path = engine.metrics_path
        book = metrics.by_engine().get(engine.key)
        shares = book.shares.get("prefix", ()) if book else ()
        self._shares = [each for each in shares if each.part and (each.of or each.beside)]
        self._before = self._read()

    def _read(self) -> tuple[float, float] | None:
        """Tokens that were cached, and all that were read."""
        if not self._path:
            return None
        names = {name for each in self._shares for name in each.names}
        told = probes.metrics(self._subject.endpoint, names, self._path) if names else {}
        for each in self._shares:
            part, whole = told.get(each.part), told.get(each.of or each.beside)
            if part is not None and whole is not None:
                return part, whole if each.of else part + whole
        return None

    def measure_share(self) -> float | None:
        """None where the engine does not tell, or has read nothing meanwhile."""
        now = self._read()
        if now is None or self._before is None or now[1] <= self._before[1]:
            return None
        return (now[0] - self._before[0]) / (now[1] - self._before[1])


def _count_others(sample: Mapping[str, Any], cards: list[Mapping[str, Any]], container: str) -> int:
    """Containers, or processes in none, that hold much of the memory of these cards."""
    of = {each["pid"]: each.get("container") for each in sample.get("processes") or []}
    return len(
        {
            of.get(process["pid"]) or process["pid"]
            for card in cards
            for process in card.get("processes") or []
            if (process.get("used") or 0) > _ENGINE and of.get(process["pid"]) != container
        }
    )
