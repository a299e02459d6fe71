"""Progress of a start, as JSON keeps it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self

# Phase -> its words. Each engine goes through some of them, in an order of its own.
PHASES = {
    "starting": "starting the engine",
    "connecting": "connecting ranks",
    "downloading": "downloading weights",
    "loading": "loading weights",
    "profiling": "measuring memory",
    "compiling": "compiling",
    "kv_cache": "allocating the KV cache",
    "tuning": "tuning kernels",
    "capturing": "capturing CUDA graphs",
    "warming_up": "warming up",
    "ready": "ready",
}

# What `manage.py diagnose` tells of, in its order: coarse phase -> phase.
COARSE = {
    "download": "downloading",
    "load_weights": "loading",
    "compile": "compiling",
    "kv_cache": "kv_cache",
    "cuda_graphs": "capturing",
    "ready": "ready",
}


@dataclass(frozen=True, kw_only=True)
class PhaseMoment:
    """When the start got into a phase: the slowest rank, where they differ."""

    phase: str
    line: int
    at: str  # as given with the line; "" where nothing was


@dataclass(frozen=True, kw_only=True)
class ProgressBar:
    rank: str
    label: str
    done: int
    total: int


@dataclass(frozen=True, kw_only=True)
class PhaseRank:
    name: str  # "": the only one, or the one that draws bars for all
    percent: int


@dataclass(frozen=True, kw_only=True)
class PhaseProgress:
    engine: str = ""  # vllm, sglang or llamacpp; "": the lines do not tell
    phase: str = ""  # a key of PHASES, of the slowest rank; "": nothing was recognised
    moments: tuple[PhaseMoment, ...] = ()
    # Phase -> number of the first line that proves it, of whichever rank.
    seen: dict[str, int] = field(default_factory=dict)
    bars: tuple[ProgressBar, ...] = ()  # of the phase
    over: tuple[str, ...] = ()  # ranks that are through the phase
    behind: tuple[str, ...] = ()  # ranks that are not, where others are
    # Numbers, and words such as the version; see the rules of each engine.
    facts: dict[str, float | str] = field(default_factory=dict)

    @property
    def coarse(self) -> list[str]:
        """The keys of COARSE that a line proves, in their order."""
        return [name for name, phase in COARSE.items() if phase in self.seen]

    @property
    def is_ready(self) -> bool:
        """Whether the engine itself has said that it serves."""
        return "ready" in self.seen

    @property
    def words(self) -> str:
        return PHASES.get(self.phase, "")

    @property
    def ranks(self) -> tuple[PhaseRank, ...]:
        """How far each rank is in the phase, as far as they say."""
        shares: dict[str, list[ProgressBar]] = {}
        for bar in self.bars:
            shares.setdefault(bar.rank, []).append(bar)
        percents = {
            rank: 100 * sum(b.done for b in bars) // max(sum(b.total for b in bars), 1)
            for rank, bars in shares.items()
        }
        percents |= dict.fromkeys(self.over, 100)
        return tuple(PhaseRank(name=name, percent=percents[name]) for name in sorted(percents))

    @property
    def percent(self) -> int | None:
        """Of the phase, 0-100, for the slowest rank; None: the engine does not say."""
        if set(self.behind) - {bar.rank for bar in self.bars}:
            return None  # only the first rank draws bars, and it is through
        return min((rank.percent for rank in self.ranks), default=None)

    @property
    def bar(self) -> ProgressBar | None:
        """The newest bar of the slowest rank: "17 of 51"."""
        slowest = min(self.ranks, key=lambda rank: rank.percent, default=None)
        mine = [bar for bar in self.bars if slowest is not None and bar.rank == slowest.name]
        return mine[-1] if mine else None

    def moment(self, phase: str) -> PhaseMoment | None:
        return next((each for each in self.moments if each.phase == phase), None)

    def to_json(self) -> dict[str, Any]:
        return {
            "engine": self.engine,
            "phase": self.phase,
            "moments": [[each.phase, each.line, each.at] for each in self.moments],
            "seen": self.seen,
            "bars": [[each.rank, each.label, each.done, each.total] for each in self.bars],
            "over": list(self.over),
            "behind": list(self.behind),
            "facts": self.facts,
        }

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> Self:
        return cls(
            engine=kept.get("engine", ""),
            phase=kept.get("phase", ""),
            moments=tuple(_moments(kept.get("moments", ()))),
            seen=dict(kept.get("seen", {})),
            bars=tuple(_bars(kept.get("bars", ()))),
            over=tuple(kept.get("over", ())),
            behind=tuple(kept.get("behind", ())),
            facts=dict(kept.get("facts", {})),
        )


def _moments(kept: Iterable[list[Any]]) -> Iterable[PhaseMoment]:
    return (PhaseMoment(phase=phase, line=line, at=at) for phase, line, at in kept)


def _bars(kept: Iterable[list[Any]]) -> Iterable[ProgressBar]:
    return (ProgressBar(rank=rank, label=label, done=n, total=of) for rank, label, n, of in kept)
