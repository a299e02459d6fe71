"""What flickers is told once, and what nobody can see is not over."""

from hypothesis import given
from hypothesis import strategies as st

from servers.judge.alerts.case import (
    AFTER,
    CALM,
    AlertCase,
    AlertChange,
    Key,
    Open,
    Severity,
    Steady,
    describe_debounce,
)


def case(kind: str = "thermal", severity: Severity = "warning", detail: str = "") -> AlertCase:
    return AlertCase(kind=kind, subject="GPU-1", severity=severity, title="too hot", detail=detail)


class AppliedChanges:
    """Does what Steady says, as the watcher does."""

    def __init__(self) -> None:
        self.steady = Steady()
        self.open: dict[Key, Open] = {}

    def step(self, now: float, *cases: AlertCase, unknown: tuple[str, ...] = ()) -> list[str]:
        changes = self.steady.step(now, cases, self.open, unknown_kinds=unknown)
        for change in changes:
            self._do(change)
        return [change.what for change in changes]

    def _do(self, change: AlertChange) -> None:
        if change.case is None:
            del self.open[change.key]
        else:
            self.open[change.key] = Open(
                severity=change.case.severity, words=describe_debounce(change.case)
            )


def test_a_failure_is_told_at_once_and_over_at_once() -> None:
    book = AppliedChanges()

    assert book.step(0.0, case("failed")) == ["raise"]
    assert book.step(2.0, case("failed")) == []
    assert book.step(4.0) == ["clear"]


def test_what_is_hot_for_a_moment_is_not_told() -> None:
    book = AppliedChanges()

    assert book.step(0.0, case()) == []
    assert book.step(5.0) == []
    assert book.step(AFTER["thermal"], case()) == [], "it began anew"
    assert book.step(2 * AFTER["thermal"], case()) == ["raise"]


def test_it_is_over_only_after_a_calm_while() -> None:
    book = AppliedChanges()
    book.step(0.0, case())
    book.step(20.0, case())
    assert book.open

    assert book.step(30.0) == []
    assert book.step(100.0, case()) == [], "back before it was over: nothing is told"
    assert book.step(110.0) == []
    assert book.step(110.0 + CALM["thermal"]) == ["clear"]


def test_what_nobody_sees_is_not_over() -> None:
    book = AppliedChanges()
    book.step(0.0, case())
    book.step(20.0, case())

    assert book.step(30.0, unknown=("thermal",)) == []
    assert book.step(900.0, unknown=("thermal",)) == []
    assert book.step(901.0) == [], "the calm while begins when somebody looks again"
    assert book.step(901.0 + CALM["thermal"]) == ["clear"]


def test_worse_is_told_and_better_is_not() -> None:
    book = AppliedChanges()
    book.step(0.0, case())
    book.step(20.0, case())

    assert book.step(22.0, case(severity="critical")) == ["worse"]
    assert book.step(24.0, case(severity="critical")) == []
    assert book.step(26.0, case(severity="warning")) == []


def test_figures_in_the_words_are_written_down_now_and_then() -> None:
    book = AppliedChanges()
    book.step(100.0, case())
    book.step(120.0, case())

    changes = [book.step(120.0 + t, case(detail=f"{t} °C")) for t in range(1, 61)]

    assert changes[0] == ["words"]
    assert sum(map(len, changes)) == 2


@given(st.lists(st.booleans(), max_size=200))
def test_a_case_is_raised_and_cleared_in_turn_and_seldom(seen: list[bool]) -> None:
    book = AppliedChanges()
    told = [what for t, there in enumerate(seen)
            for what in book.step(2.0 * t, *([case()] if there else []))]  # fmt: skip

    assert told[::2] == ["raise"] * len(told[::2])
    assert told[1::2] == ["clear"] * len(told[1::2])
    assert len(told) <= 2 + 2 * len(seen) * 2.0 / (CALM["thermal"] + AFTER["thermal"])
