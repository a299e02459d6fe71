"""Statistics of benchmark figures: percentiles that have enough to stand on, and intervals of rounds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

# Requests that must lie beyond a percentile, so that one of them does not decide it.
BEYOND = 3
# Student's t for 95 %, by degrees of freedom; the last one stands for all above.
_T95 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
)
_T95_MANY = 1.96
LEAST_DIFFERENCE = 0.03  # of a figure: less matters to nobody, however sure it is


def percentile(values: Sequence[float], share: float) -> float | None:
    """Interpolated between neighbours, as numpy's default; None where too few values lie beyond it.

    `share` is 0 to 1. The median wants one value, the 99th percentile 300.
    """
    if not values or (share > 0.5 and len(values) * (1 - share) < BEYOND - 1e-9):
        return None
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


@dataclass(frozen=True, kw_only=True)
class RoundsInterval:
    """Where the mean of a figure lies with 95 %, by its rounds. One round has no interval."""

    mean: float
    low: float
    high: float
    rounds: int

    @property
    def is_sure(self) -> bool:
        return self.rounds > 1


def estimate(rounds: Sequence[float]) -> RoundsInterval:
    """Mean ± t × s / √n, rounds as the unit. Raises ValueError for no rounds."""
    if not rounds:
        raise ValueError("There is no round.")
    mean = fmean(rounds)
    if len(rounds) == 1:
        return RoundsInterval(mean=mean, low=-math.inf, high=math.inf, rounds=1)
    freedom = len(rounds) - 1
    factor = _T95[freedom - 1] if freedom <= len(_T95) else _T95_MANY
    spread = factor * stdev(rounds) / math.sqrt(len(rounds))
    return RoundsInterval(mean=mean, low=mean - spread, high=mean + spread, rounds=len(rounds))


@dataclass(frozen=True, kw_only=True)
class FigureDifference:
    """How a figure changed, as a share of the first: 0.1 is 10 % more. `is_real` is None where
    one side has a single round."""

    change: float
    low: float
    high: float
    is_real: bool | None


def compare_rounds(before: Sequence[float], after: Sequence[float]) -> FigureDifference:
    """Welch's interval of the difference of two means, and whether it is one.

    Real is what leaves zero outside and is more than LEAST_DIFFERENCE. Raises ValueError where a
    side has no round, or the first one's mean is 0.
    """
    one, other = estimate(before), estimate(after)
    if one.mean == 0:
        raise ValueError("A share of nothing is no figure.")
    change = other.mean / one.mean - 1
    if not (one.is_sure and other.is_sure):
        return FigureDifference(change=change, low=-math.inf, high=math.inf, is_real=None)
    reach = _find_reach([before, after]) / abs(one.mean)
    low, high = change - reach, change + reach
    is_real = not low <= 0 <= high and abs(change) > LEAST_DIFFERENCE
    return FigureDifference(change=change, low=low, high=high, is_real=is_real)


def _find_reach(samples: Sequence[Sequence[float]]) -> float:
    """Half the 95 % interval of a sum or difference of their means, which are independent."""
    parts = [stdev(each) ** 2 / len(each) for each in samples]
    error = math.sqrt(sum(parts))
    if error == 0:
        return 0.0
    # Welch and Satterthwaite's degrees of freedom.
    below = sum(part**2 / (len(each) - 1) for part, each in zip(parts, samples, strict=True))
    freedom = max(1, math.floor(sum(parts) ** 2 / below))
    return error * (_T95[freedom - 1] if freedom <= len(_T95) else _T95_MANY)


def compare_together(
    pairs: Sequence[tuple[Sequence[float], Sequence[float]]],
) -> FigureDifference:
    """The change of several figures as one, before and after: the geometric mean of their ratios.

    Figures that have a single round count only where no other has more. Raises ValueError for no
    pair; every value is above 0.
    """
    sure = [pair for pair in pairs if min(len(pair[0]), len(pair[1])) > 1]
    chosen = sure or list(pairs)
    if not chosen:
        raise ValueError("There is no figure.")
    logs = [[[math.log(value) for value in side] for side in pair] for pair in chosen]
    mean = fmean(fmean(after) - fmean(before) for before, after in logs)
    if not sure:
        return FigureDifference(change=math.expm1(mean), low=-math.inf, high=math.inf, is_real=None)
    reach = _find_reach([side for pair in logs for side in pair]) / len(logs)
    low, high = math.expm1(mean - reach), math.expm1(mean + reach)
    is_real = not low <= 0 <= high and abs(math.expm1(mean)) > LEAST_DIFFERENCE
    return FigureDifference(change=math.expm1(mean), low=low, high=high, is_real=is_real)
