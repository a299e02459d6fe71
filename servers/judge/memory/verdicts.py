"""Verdicts on a memory pool: fine, on its way back, held by an orphan, or lost.

The rule is that of docs/gpu-memory.md. Sizes are in bytes, times in seconds.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

from servers.judge.memory import advice
from servers.judge.memory.pools import (
    Pool,
    PoolProcess,
    Snapshot,
    given_up,
    orphaned_shm,
    pools,
    sees_processes,
)
from servers.judge.memory.stops import BootTracker, Elapsed, MemoryThresholds, Stops
from servers.judge.messages import Sentence, say

type Name = Literal["ok", "settling", "page_cache", "reclaimable", "residual", "leaked", "unknown"]

ALARMS: tuple[Name, ...] = ("residual", "leaked")
# Engines that look at what is available where the GPU uses the machine's memory; others, and all
# of them elsewhere, at what is free, page cache being in use.
_IGNORE_CACHE = ("vllm", "sglang", "llamacpp", "llama.cpp")


@dataclass(frozen=True, kw_only=True)
class MemoryVerdict:
    t: float
    gpu: str  # the UUID
    verdict: Name
    unattributed: int  # bytes over the baseline that no process holds; 0 where it is unknown
    reason: str
    advice: str
    code: str = ""  # of the message, with what it was filled in with
    params: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @classmethod
    def from_sentence(
        cls, said: Sentence, verdict: Name, *, t: float, gpu: str, unattributed: int = 0
    ) -> Self:
        return cls(
            t=t,
            gpu=gpu,
            verdict=verdict,
            unattributed=unattributed,
            reason=said.text,
            advice=said.advice,
            code=said.code,
            params=said.params,
        )

    @property
    def alarm(self) -> bool:
        return self.verdict in ALARMS

    def to_json(self) -> dict[str, Any]:
        said = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return said | {"alarm": self.alarm}


class Judge:
    """Judges a box's snapshots in their order.

    `best` are the lowest baselines of earlier boots, by driver and GPU; what this boot shows is
    added to it, for whoever keeps it.
    """

    def __init__(
        self, thresholds: MemoryThresholds | None = None, *, best: dict[str, int] | None = None
    ) -> None:
        self.thresholds = thresholds or MemoryThresholds()
        self.best = best if best is not None else {}
        self._boot = BootTracker()
        self._elapsed = Elapsed()
        self._pools: dict[str, _PoolState] = {}
        self._stops = Stops()
        self._seen: list[str] = []  # the GPUs of this boot

    def step(self, snapshot: Snapshot) -> list[MemoryVerdict]:
        """One verdict for each GPU of the snapshot, and of those that it no longer lists."""
        clock = float(snapshot["t"])
        if self._boot.is_new(snapshot):
            self._elapsed, self._stops = Elapsed(), Stops()
            self._pools, self._seen = {}, []
        snapshot = {**snapshot, "t": self._elapsed.see(snapshot)}
        self._stops.see(snapshot, clock)
        verdicts = [self._judge(pool, snapshot, clock) for pool in pools(snapshot)]
        listed = [each.gpu for each in verdicts]
        for gone in (gpu for gpu in self._seen if gpu not in listed):
            said = say("memory.no-collector" if _is_blind(snapshot) else "memory.no-gpu")
            verdicts.append(MemoryVerdict.from_sentence(said, "unknown", t=clock, gpu=gone))
        self._seen += [gpu for gpu in listed if gpu not in self._seen]
        return verdicts

    def _judge(self, pool: Pool | str, snapshot: Snapshot, t: float) -> MemoryVerdict:
        if isinstance(pool, str):
            missing = say("memory.no-collector" if _is_blind(snapshot) else "memory.no-memory")
            return MemoryVerdict.from_sentence(missing, "unknown", t=t, gpu=pool)
        key = f"{snapshot.get('driver') or ''} {pool.gpu}"
        state = self._pools.setdefault(pool.gpu, _PoolState(pool.kind, self.thresholds))
        size, (name, said) = state.judge(pool, snapshot, self._stops, self.best.get(key))
        if state.measured is not None:
            self.best[key] = min(state.measured, self.best.get(key, state.measured))
        return MemoryVerdict.from_sentence(said, name, t=t, gpu=pool.gpu, unattributed=size)


type _Told = tuple[Name, Sentence]


def _is_blind(snapshot: Snapshot) -> bool:
    return snapshot.get("collector_ok") is False or snapshot.get("stale_s") is not None


class _PoolState:
    """What was seen of one pool since the boot."""

    def __init__(self, kind: str, thresholds: MemoryThresholds) -> None:
        self.kind = kind
        self.thresholds = thresholds
        self.measured: int | None = None  # the least that was in use with nobody there
        self.is_bad = False
        self._over_since: float | None = None
        self._under_since: float | None = None
        self._recent: deque[tuple[float, int]] = deque()
        self._settles_until = 0.0
        # Missing with nobody there since when, and how much of it at least.
        self._missing: tuple[float, int] | None = None
        self._reclaim: tuple[float, int] | None = None  # when, and what was missing then
        self._stuck: dict[int, float] = {}  # since when
        self._left: dict[int, float] = {}  # since when it has been left over
        self._host_at_first: int | None = None
        # Whether the boot was seen from its start on, and no engine in it yet.
        self._is_fresh: bool | None = None
        self._less_at_boot: int | None = None  # than in the best of earlier boots

    def judge(
        self, pool: Pool, snapshot: Snapshot, stops: Stops, best: int | None
    ) -> tuple[int, _Told]:
        t = float(snapshot["t"])
        is_seen = not _is_blind(snapshot) and sees_processes(snapshot) and pool.is_listed
        if is_seen:
            self._measure(pool, snapshot, stops, best)
        size = pool.compute_unattributed(self._baseline(best))
        if is_seen:
            self._watch(t, size, pool, snapshot, stops)
        else:
            self._over_since = self._under_since = None  # what is not seen has not lasted
        self._note_reclaim(t, size, snapshot)
        for verdict in self._rules(t, size, pool, snapshot, stops):
            if verdict is not None:
                return size, verdict
        return size, ("ok", advice.describe_use(size, self._limit("warn", pool), self.is_bad))

    def _rules(
        self, t: float, size: int, pool: Pool, snapshot: Snapshot, stops: Stops
    ) -> Iterator[_Told | None]:
        """In this order; the first that has something to say holds."""
        yield self._blind(size, pool, snapshot)
        if (settling := self._judge_settling(t, size, pool, snapshot, stops)) is not None:
            # Whose own grace is over is not excused by those who ended after it.
            old = replace(pool, clients=tuple(self._overdue(t, pool)))
            if not self._is_booting(snapshot):
                yield self._lost_with_process(t, old, stops)
                yield self._left_over(size, old, stops)
            yield settling
        yield self._lost_with_process(t, pool, stops)
        yield self._left_over(size, pool, stops)
        yield self._judge_gone(t, size, pool, snapshot)
        yield self._shared_memory(pool, snapshot)
        yield self._page_cache(pool, snapshot)
        yield self._host_programs(snapshot)

    def _limit(self, name: Literal["warn", "bad"], pool: Pool) -> int:
        return self.thresholds.compute_limit(getattr(self.thresholds, name), pool.total)

    def _measure(self, pool: Pool, snapshot: Snapshot, stops: Stops, best: int | None) -> None:
        if self._is_fresh is None:
            uptime = snapshot.get("uptime_s")
            self._is_fresh = uptime is not None and uptime < self.thresholds.boot_seen
        if any(not client.is_desktop for client in pool.clients):
            self._is_fresh = False
        is_idle = all(client.is_desktop for client in pool.clients) and pool.is_explained
        has_settled = stops.seconds_since(snapshot) > self.thresholds.idle_after_stop
        has_booted = (snapshot.get("uptime_s") or 0) > self.thresholds.booting
        if is_idle and has_settled and has_booted and not stops.has_running:
            seen = max(0, pool.unheld)
            if self.measured is None and self._is_fresh and best is not None:
                self._less_at_boot = seen - best
            self.measured = seen if self.measured is None else min(self.measured, seen)

    def _baseline(self, best: int | None) -> int:
        most = self.thresholds.baseline_most[self.kind]
        if best is not None:
            most = min(most, best + self.thresholds.baseline_growth)
        usual = self.thresholds.baseline[self.kind]
        return min(most, usual if self.measured is None else self.measured)

    def _overdue(self, t: float, pool: Pool) -> Iterator[PoolProcess]:
        for client in pool.clients:
            since = min(self._stuck.get(client.pid, t), self._left.get(client.pid, t))
            if client.used is not None and t - since > self.thresholds.grace[self.kind]:
                yield client

    def _watch(self, t: float, size: int, pool: Pool, snapshot: Snapshot, stops: Stops) -> None:
        """Enter and leave the bad state, each only after a while."""
        bad = self._limit("bad", pool)
        stuck = (client.pid for client in pool.clients if client.is_stuck)
        self._stuck = {pid: self._stuck.get(pid, t) for pid in stuck}
        left = (client.pid for client in pool.clients if stops.is_left_over(client))
        self._left = {pid: self._left.get(pid, t) for pid in left}
        if size <= bad:
            self._missing = None
        elif all(client.is_desktop for client in pool.clients):
            since, least = self._missing or (t, size)
            if size < least - self.thresholds.falling:
                since = t  # some of it has come back
            self._missing = since, min(least, size)
        self._recent.append((t, size))
        # Of samples that lie further apart the last two count.
        while len(self._recent) > 2 and self._recent[0][0] < t - self.thresholds.falling_within:
            self._recent.popleft()
        counts = size > bad and not self._is_booting(snapshot)
        self._over_since = (self._over_since or t) if counts else None
        below = size < self.thresholds.leave_below * bad
        self._under_since = (self._under_since or t) if below else None
        if self._over_since is not None and t - self._over_since >= self.thresholds.enter_after:
            if not self.is_bad and self._reclaim and self._reclaim[0] < self._over_since:
                self._reclaim = None  # that was for an earlier loss
            self.is_bad = True
        if self._under_since is not None and t - self._under_since >= self.thresholds.leave_after:
            self.is_bad = False
            self._reclaim = None

    def _note_reclaim(self, t: float, size: int, snapshot: Snapshot) -> None:
        for event in snapshot.get("events") or []:
            if event.get("type") == "reclaim" and int(event.get("level") or 0) & 2:
                before = max((then for _at, then in self._recent), default=size)
                self._reclaim = (t, max(before, size))

    def _blind(self, size: int, pool: Pool, snapshot: Snapshot) -> _Told | None:
        if _is_blind(snapshot):
            return "unknown", say("memory.no-collector")
        # Without the box's own process list every busy GPU would look leaked.
        is_unknown = size > self._limit("warn", pool) or not all(c.is_known for c in pool.clients)
        if not sees_processes(snapshot) and is_unknown:
            return "unknown", say("memory.no-processes")
        if not pool.is_listed and size > self._limit("warn", pool):
            return "unknown", say("memory.no-list")
        return None

    def _judge_settling(
        self, t: float, size: int, pool: Pool, snapshot: Snapshot, stops: Stops
    ) -> _Told | None:
        since = stops.seconds_since(snapshot)
        until = t - since + self.thresholds.grace[self.kind]
        self._settles_until = max(self._settles_until, until)
        most = max((then for _at, then in self._recent), default=size)
        is_falling = most - size >= self.thresholds.falling
        if is_falling and t <= self._settles_until:
            self._settles_until = max(self._settles_until, t + self.thresholds.falling_grace)
        if self._is_booting(snapshot):
            return "ok", say("memory.booting", size=size)
        if t > self._settles_until or self._was_missing(t, size, pool):
            return None
        ending = [each for each in pool.clients if stops.is_left_over(each) or not each.is_known]
        held = sum(each.used or 0 for each in ending)
        if size > self._limit("warn", pool) or held > self.thresholds.residual:
            return "settling", advice.describe_settling(size + held, self._settles_until - t)
        return "ok", advice.describe_use(size, self._limit("warn", pool), False)

    def _was_missing(self, t: float, size: int, pool: Pool) -> bool:
        """Whether it was before those came who have ended last, and for longer than a grace."""
        if self._missing is None or any(not client.is_desktop for client in pool.clients):
            return False
        since, least = self._missing
        is_old = t - since > self.thresholds.grace[self.kind]
        return is_old and size <= least + self._limit("warn", pool)

    def _is_booting(self, snapshot: Snapshot) -> bool:
        uptime = snapshot.get("uptime_s")
        return uptime is not None and uptime < self.thresholds.booting

    def _lost_with_process(self, t: float, pool: Pool, stops: Stops) -> _Told | None:
        """A process that can no longer be ended holds memory until the box is restarted."""
        for client in pool.clients:
            since = self._stuck.get(client.pid, t)
            is_large = (client.used or 0) > self._limit("warn", pool)
            left = self._patience(client, stops) - (t - since)
            if not (is_large and client.is_stuck):
                continue
            if left <= 0:
                return "leaked", advice.describe_stuck(client)
            if stops.is_left_over(client):  # it takes no signal, so nobody can end it
                return "settling", advice.describe_settling(client.used or 0, left)
        return None

    def _patience(self, client: PoolProcess, stops: Stops) -> float:
        if not client.is_known:
            return self.thresholds.missing_for
        if stops.still_runs(client) and client.state.startswith("D"):
            return self.thresholds.stuck_running_for
        return self.thresholds.stuck_for

    def _left_over(self, size: int, pool: Pool, stops: Stops) -> _Told | None:
        untold = [each for each in pool.clients if each.used is None]
        # What nobody holds by the driver's word is theirs where it tells of all others.
        is_theirs = size > self._limit("warn", pool) and all(map(stops.is_left_over, untold))
        left = [
            each
            for each in pool.clients
            if each.is_known
            and stops.is_left_over(each)
            and (is_theirs if each.used is None else each.used > self.thresholds.residual)
        ]
        return ("residual", advice.describe_residual(left)) if left else None

    def _judge_gone(self, t: float, size: int, pool: Pool, snapshot: Snapshot) -> _Told | None:
        if not self.is_bad:
            return None
        if self._under_since is not None:
            left = self._under_since + self.thresholds.leave_after - t
            return "settling", advice.describe_return(size, left)
        if any(not client.is_desktop for client in pool.clients) or not pool.is_explained:
            return "unknown", say("memory.unattributed-while-serving", size=size)
        if not pool.is_told_apart:
            return "unknown", say("memory.no-lines")
        since_boot = self._since_boot(size, pool)
        if self.kind == "discrete":
            return "leaked", since_boot or say("memory.leaked-card", size=size)
        if self._reclaim is None:
            return "reclaimable", since_boot or advice.describe_reclaimable(size, snapshot)
        at, before = self._reclaim
        if t - at < self.thresholds.reclaim_takes:
            return "settling", advice.describe_settling(
                size, at + self.thresholds.reclaim_takes - t
            )
        unchanged = self.thresholds.reclaim_unchanged
        if not unchanged * before <= size <= before / unchanged:
            # It helped in part, or somebody came since and left something of his own.
            return "reclaimable", advice.describe_reclaimable(size, snapshot)
        return "leaked", since_boot or say("memory.leaked-after-reclaim", size=size)

    def _since_boot(self, size: int, pool: Pool) -> Sentence | None:
        """What is said of memory that was missing before anybody used the GPU."""
        less = self._less_at_boot
        if less is None or less <= self.thresholds.boot_growth:
            return None
        if size > less + self._limit("warn", pool):
            return None  # more is missing than then
        return say("memory.less-at-boot", size=size, less=less)

    def _shared_memory(self, pool: Pool, snapshot: Snapshot) -> _Told | None:
        if not sees_processes(snapshot):
            return None  # whoever maps it may be one of those that are hidden
        size, paths = orphaned_shm(snapshot)
        return (
            ("residual", advice.describe_unused_shm(size, paths))
            if size > self._limit("warn", pool)
            else None
        )

    def _page_cache(self, pool: Pool, snapshot: Snapshot) -> _Told | None:
        pending = snapshot.get("pending")
        if self.kind == "discrete" or not pending:
            return None
        if self.kind == "unified" and str(pending.get("engine")).casefold() in _IGNORE_CACHE:
            return None
        free, cache = pool.lines.get("MemFree"), given_up(pool.lines)
        needs = pending.get("needs") or 0
        if free is None or cache is None or needs <= free:
            return None
        if cache <= self.thresholds.cache_share * pool.total:
            return None
        return "page_cache", say("memory.page-cache", size=cache, needs=needs, free=free)

    def _host_programs(self, snapshot: Snapshot) -> _Told | None:
        held = (snapshot.get("meminfo") or {}).get("AnonPages")
        if held is None or self.kind != "unified":
            return None
        self._host_at_first = held if self._host_at_first is None else self._host_at_first
        self._host_at_first = min(self._host_at_first, held)
        grown = held - self._host_at_first
        return (
            ("ok", say("memory.host-programs", size=grown))
            if grown > self.thresholds.host_growth
            else None
        )
