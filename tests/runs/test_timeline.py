from datetime import UTC, datetime, timedelta

from servers.judge.runs.start_progress import list_steps

CLICK = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return CLICK + timedelta(seconds=seconds)


def test_a_run_that_starts_shows_what_took_how_long_and_what_is_to_come() -> None:
    moments = [("queued", at(0)), ("creating", at(2)), ("starting", at(5)), ("ready", None)]

    found = list_steps(moments, ended_at=None, has_failed=False)

    assert [(step.state, step.took) for step in found] == [
        ("queued", timedelta(seconds=2)),
        ("creating", timedelta(seconds=3)),
        ("starting", None),
        ("ready", None),
    ]
    assert [step.state for step in found if step.is_now] == ["starting"]


def test_a_failed_run_ends_where_it_failed() -> None:
    moments = [("queued", at(0)), ("creating", at(2)), ("starting", None), ("ready", None)]

    found = list_steps(moments, ended_at=at(10), has_failed=True)

    assert [(step.state, step.failed_here) for step in found] == [
        ("queued", False),
        ("creating", True),
    ]
    assert found[-1].took == timedelta(seconds=8)


def test_a_state_that_was_passed_over_is_left_out() -> None:
    moments = [("queued", at(0)), ("creating", None), ("starting", at(5)), ("ready", at(9))]

    found = list_steps(moments, ended_at=None, has_failed=False)

    assert [step.state for step in found] == ["queued", "starting", "ready"]
