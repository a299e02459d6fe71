"""Comparison of measured points: which figures they have, and what differs between two results."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from servers.judge.benchmarks.points import PointConditions, PointFigures, Spread
from servers.judge.benchmarks.statistics import (
    FigureDifference,
    RoundsInterval,
    compare_rounds,
    compare_together,
    estimate,
)


@dataclass(frozen=True, kw_only=True)
class BenchmarkFigure:
    """`read` gives it in `unit`; None where a round does not have it."""

    key: str
    title: str
    unit: str
    more_is_better: bool
    read: Callable[[PointFigures], float | None]

    def format(self, value: float) -> str:
        if self.unit == "s":
            return f"{1000 * value:.0f} ms" if value < 1 else f"{value:.1f} s"
        return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _median(spread: Spread | None) -> float | None:
    return spread.median if spread else None


FIGURES = (
    BenchmarkFigure(
        key="user_rate",
        title="Per person",
        unit="tok/s",
        more_is_better=True,
        read=lambda figures: figures.user_rate,
    ),
    BenchmarkFigure(
        key="output_rate",
        title="Together",
        unit="tok/s",
        more_is_better=True,
        read=lambda figures: figures.output_rate,
    ),
    BenchmarkFigure(
        key="ttft",
        title="First token",
        unit="s",
        more_is_better=False,
        read=lambda figures: _median(figures.ttft),
    ),
    BenchmarkFigure(
        key="e2el",
        title="Whole answer",
        unit="s",
        more_is_better=False,
        read=lambda figures: _median(figures.e2el),
    ),
    BenchmarkFigure(
        key="prefill_rate",
        title="Prompt",
        unit="tok/s",
        more_is_better=True,
        read=lambda figures: figures.prefill_rate,
    ),
    BenchmarkFigure(
        key="cached_share",
        title="From cache",
        unit="%",
        more_is_better=True,
        read=lambda figures: None if figures.cached_share is None else 100 * figures.cached_share,
    ),
)


# Of points whose prompts come from the book: any text of this length, for so many at once.
_SHAPES = frozenset({"One person", "People at once", "Long prompt", "Prompt"})


def _format_share(share: float) -> str:
    return f"{100 * share:+.1f} %".replace("-", "−")  # noqa: RUF001


GRIDS = ("Grid", "Custom")  # names of points that differ in people and lengths


def _format_tokens(count: int) -> str:
    return f"{count // 1000}k" if count >= 1000 else str(count)


@dataclass(frozen=True, kw_only=True)
class MeasuredPoint:
    """`prompt_tokens` as wanted: 0 for a text of its own."""

    name: str
    concurrency: int
    prompt_tokens: int
    output_tokens: int
    rounds: tuple[PointFigures, ...]
    taints: tuple[str, ...]
    conditions: tuple[PointConditions, ...] = ()  # one a round

    @property
    def key(self) -> tuple[str, int, int, int]:
        """By which points of two results are the same: what their shape says is not told by name."""
        name = "" if self.name in _SHAPES and self.prompt_tokens else self.name
        return name, self.concurrency, self.prompt_tokens, self.output_tokens

    @property
    def label(self) -> str:
        """ "People at once: 8", "Long prompt: 16k", "500 tokens, 8 people", "Turn 2"."""
        if self.name in GRIDS:
            people = "1 person" if self.concurrency == 1 else f"{self.concurrency} people"
            return f"{_format_tokens(self.prompt_tokens)} tokens, {people}"
        if self.is_open_loop:
            return f"{_format_tokens(self.prompt_tokens)} tokens, {self.name}"
        if self.turn is not None:
            return self.name
        if self.concurrency > 1 or self.name == "People at once":
            long = f", {self.prompt_tokens // 1000}k prompt" if self.prompt_tokens >= 1000 else ""
            return f"{self.name}: {self.concurrency}{long}"
        if self.prompt_tokens >= 1000:
            return f"{self.name}: {_format_tokens(self.prompt_tokens)}"
        return self.name

    @property
    def turn(self) -> int | None:
        """Of conversations: which one, from 1."""
        _word, _space, number = self.name.partition("Turn ")
        return int(number) if number.isdecimal() else None

    @property
    def is_open_loop(self) -> bool:
        """Whether its requests arrived by the clock."""
        return self.name.endswith(" a second")

    @property
    def is_alone(self) -> bool:
        return self.concurrency == 1 and not self.is_open_loop

    def list_values(self, figure: BenchmarkFigure) -> list[float]:
        """One a round."""
        found = [figure.read(each) for each in self.rounds]
        return [each for each in found if each is not None]

    def estimate(self, figure: BenchmarkFigure) -> RoundsInterval | None:
        values = self.list_values(figure)
        return estimate(values) if values else None


@dataclass(frozen=True, kw_only=True)
class PointDifference:
    """A figure of two results, `before` and `after` as means of their rounds."""

    point: MeasuredPoint
    figure: BenchmarkFigure
    before: float
    after: float
    difference: FigureDifference

    @property
    def is_better(self) -> bool | None:
        """None where no difference can be told."""
        if not self.difference.is_real:
            return None
        return (self.difference.change > 0) == self.figure.more_is_better

    @property
    def before_text(self) -> str:
        return self.figure.format(self.before)

    @property
    def after_text(self) -> str:
        return self.figure.format(self.after)

    @property
    def change(self) -> str:
        """ "+12.0 %"."""
        return _format_share(self.difference.change)

    @property
    def interval(self) -> str:
        """ "+8.0 to +16.0 %", where the change lies with 95 %; "" where one side has a single round."""
        return _format_interval(self.difference)

    @property
    def verdict(self) -> str:
        if self.difference.is_real is None:
            return "one round only"
        if self.is_better is None:
            return "no difference that can be told"
        return "better" if self.is_better else "worse"


def _format_interval(difference: FigureDifference) -> str:
    low, high = difference.low, difference.high
    if math.isinf(low) or math.isinf(high):
        return ""
    return f"{_format_share(low).removesuffix(' %')} to {_format_share(high)}"


def compare_points(
    before: Sequence[MeasuredPoint], after: Sequence[MeasuredPoint]
) -> list[PointDifference]:
    """Of each point and figure that both have."""
    others = {point.key: point for point in after}
    found = []
    for point in before:
        other = others.get(point.key)
        for figure in FIGURES if other else ():
            one, two = point.list_values(figure), other.list_values(figure) if other else []
            if one and two and sum(one) > 0:
                found.append(
                    PointDifference(
                        point=point,
                        figure=figure,
                        before=estimate(one).mean,
                        after=estimate(two).mean,
                        difference=compare_rounds(one, two),
                    )
                )
    return found


@dataclass(frozen=True, kw_only=True)
class SpeedChange:
    """How the speed changed, all points together: 0.1 is 10 % faster."""

    difference: FigureDifference
    points: int  # that both have

    @property
    def is_faster(self) -> bool | None:
        """None where no difference can be told."""
        return self.difference.change > 0 if self.difference.is_real else None

    @property
    def interval(self) -> str:
        return _format_interval(self.difference)

    @property
    def words(self) -> str:
        """ "18 % slower", "no difference that can be told"."""
        if self.difference.is_real is None:
            return f"{self._share}, of one round only"
        return self._share if self.difference.is_real else "no difference that can be told"

    @property
    def _share(self) -> str:
        change = self.difference.change
        return f"{100 * abs(change):.0f} % {'faster' if change > 0 else 'slower'}"


def compare_speed(
    before: Sequence[MeasuredPoint], after: Sequence[MeasuredPoint]
) -> SpeedChange | None:
    """By one figure a point, as the figures of one point move together: tokens a second of a person
    who is alone, or else of all together. None where the two have no point with a speed in common."""
    user, output, *_others = FIGURES
    others = {point.key: point for point in after}
    pairs = []
    for point in before:
        if not (other := others.get(point.key)):
            continue
        for figure in (user, output) if point.concurrency == 1 else (output, user):
            one, two = point.list_values(figure), other.list_values(figure)
            if one and two and min(*one, *two) > 0:
                pairs.append((one, two))
                break
    if not pairs:
        return None
    return SpeedChange(difference=compare_together(pairs), points=len(pairs))
