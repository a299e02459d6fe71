import json
from pathlib import Path

from tests import durations
from tests.nested import run_pytest

TESTS = """
import pytest

@pytest.fixture(scope="module")
def other():
    return 1

@pytest.fixture
def own():
    return 1

@pytest.mark.takes(90)
@pytest.mark.docker
def test_that_says_so():
    pass

def test_that_does_not(own):
    pass

def test_that_comes_first(other):
    pass
"""


def test_a_test_above_its_mark_or_the_usual_time_is_told() -> None:
    seconds = {"a": 21.0, "b": 21.0, "c": 61.5, "d": 19.0, "starts what others use": 30.0}
    shared = {"a": 0.5, "starts what others use": 12.0}

    assert durations.find_slow(seconds, {"b": 60, "c": 60}, shared) == [
        "  61.5 s, takes(60): c",
        "  20.5 s, no mark: a",
    ]


def test_the_seconds_of_a_group_are_summed_up_longest_first() -> None:
    seconds = {"a": 1.0, "b": 2.0, "c": 7.0}

    assert durations.sum_up(seconds, {"a": "docker", "b": "docker", "c": "browser"}) == [
        ("browser", 1, 7.0),
        ("docker", 2, 3.0),
    ]


def test_what_takes_long_is_kept_for_the_next_run(tmp_path: Path) -> None:
    (tmp_path / "whole.json").write_text(json.dumps({"a": 0.2, "b": 3.21}))

    durations.keep(tmp_path / "whole.json", tmp_path / "known.json")

    assert durations.load(tmp_path / "known.json") == {"b": 3.2}
    assert durations.load(tmp_path / "none.json") == {}


def test_processes_tell_what_their_tests_took_and_expected(tmp_path: Path) -> None:
    """As if every test above no second at all were slow, and what is shared took a thousand."""
    (tmp_path / "test_sample.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text(
        "from itertools import count\n"
        "from pathlib import Path\n"
        "from types import SimpleNamespace\n"
        "from tests import durations\n"
        "durations.USUAL = durations.GROUPED_BELOW = 0.0\n"
        "durations.time = SimpleNamespace(monotonic=count(0, 1000).__next__)\n"
        "durations.ROOT = Path(__file__).parent\n"
        "durations.WHOLE = durations.ROOT / 'results/all.json'\n"
    )
    done = run_pytest(tmp_path, ("tests.durations",), "-n", "2", "--tell-durations")

    by_group, _title, slow = done.stdout.partition("SLOWER THAN SAID")
    assert "docker (1)" in by_group
    assert "no mark: test_sample.py::test_that_does_not" in slow
    assert "test_that_says_so" not in slow
    assert "test_that_comes_first" not in slow
    kept = json.loads((tmp_path / "results/all.json").read_text())
    assert set(kept) == {
        f"test_sample.py::test_that_{name}" for name in ("says_so", "does_not", "comes_first")
    }
