from datetime import UTC, datetime
from typing import Any

import pytest

from servers.judge.charts import AXIS, HEIGHT, TOP, ChartedStart, chart

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)


def start(took: float = 60, **values: Any) -> ChartedStart:
    defaults: dict[str, Any] = {
        "run": 1, "server": "s", "box": "rtx8", "version": 1, "when": NOW, "is_ready": True,
        "parts": {},
    }  # fmt: skip
    return ChartedStart(took=took, **{**defaults, **values})


def test_without_starts_there_is_no_chart() -> None:
    assert chart([]) is None


def test_one_start_fills_the_height_up_to_a_round_time() -> None:
    made = chart([start(50)])

    assert made is not None
    assert [line.seconds for line in made.lines] == [0, 15, 30, 45, 60]
    (bar,) = made.bars
    assert bar.top == pytest.approx(TOP + HEIGHT * (1 - 50 / 60), abs=0.1)
    assert (made.parts, made.shapes) == ((("whole", "phases not known"),), ())


def test_parts_stand_on_each_other_and_make_up_the_whole() -> None:
    parts = {"queued": 5, "pulling": 15, "loading": 60, "capturing": 20}
    made = chart([start(120, parts=parts)])

    assert made is not None
    (bar,) = made.bars
    assert [each.part for each in bar.segments] == ["before", "weights", "compiling", "rest"]
    assert sum(each.height for each in bar.segments) == pytest.approx(HEIGHT, abs=0.3)
    assert bar.segments[0].y + bar.segments[0].height == pytest.approx(made.base, abs=0.1)
    assert [each.height for each in bar.segments][:2] == pytest.approx(
        [HEIGHT / 6, HEIGHT / 2], abs=0.1
    )


def test_versions_and_boxes_are_marked() -> None:
    made = chart(
        [
            start(60, version=1),
            start(80, version=1, is_ready=False),
            start(40, version=2, box="spark-1"),
            start(20, version=2),
        ]
    )

    assert made is not None
    assert [(band.version, band.x) for band in made.bands] == [(1, AXIS), (2, AXIS + 60)]
    assert made.shapes == (("●", "rtx8"), ("▲", "spark-1"))
    assert [bar.shape for bar in made.bars] == ["●", "●", "▲", "●"]
    assert made.medians == ((2, 30.0, 2), (1, 60, 1))


def test_two_hundred_starts_keep_apart_and_labels_do_not_run_into_each_other() -> None:
    made = chart([start(1 + n, version=n, box=f"b{n % 9}") for n in range(200)])

    assert made is not None
    assert all(bar.width >= 6 for bar in made.bars)
    labelled = [band.x for band in made.bands if band.is_labelled]
    assert all(b - a >= 20 for a, b in zip(labelled, labelled[1:], strict=False))
    assert {shape for shape, _box in made.shapes} == set("●▲■◆▼★")
