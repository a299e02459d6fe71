"""The thresholds as a setting."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from inferdash.settings import memory_thresholds
from servers.judge.memory.stops import GIB, MemoryThresholds, read_thresholds
from servers.judge.memory.verdicts import Judge
from tests.memory.scenes import MemoryScene, crashed


def test_what_is_not_named_is_as_usual() -> None:
    assert read_thresholds("") == MemoryThresholds()
    found = read_thresholds("grace.unified=120, bad=8.5  enter_after=5")

    assert found.grace == {"unified": 120.0, "discrete": 30.0, "numa": 240.0}
    assert found.bad == (int(8.5 * GIB), 0.05)
    assert found.enter_after == 5.0
    assert read_thresholds("baseline=1").baseline == dict.fromkeys(
        ("unified", "discrete", "numa"), GIB
    )
    assert read_thresholds("baseline_growth=1").baseline_growth == GIB


@pytest.mark.parametrize(
    "text", ["graze=1", "grace", "grace=soon", "grace.tape=1", "bad.unified=1", "bad=-1", "=1"]
)
def test_what_is_no_threshold_stops_the_start_with_a_sentence(text: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="INFERDASH_MEMORY_THRESHOLDS: “"):
        memory_thresholds(text)


def test_the_judge_goes_by_them() -> None:
    scene = crashed(MemoryScene(kind="discrete", total=96.0), lost=40.0).for_(20)

    def last(thresholds: MemoryThresholds) -> str:
        judge = Judge(thresholds)
        return [judge.step(snapshot)[0].verdict for snapshot in scene][-1]

    assert last(MemoryThresholds()) == "settling"
    assert last(read_thresholds("grace=2 enter_after=5")) == "leaked"
