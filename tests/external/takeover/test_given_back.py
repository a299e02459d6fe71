"""Whether memory came back is judged by who is on a GPU, and by what is in use there."""

from typing import Any

from servers.judge.memory.release import Members, describe_missing, held_before
from tests.samples import GIB, card, process, sample

THEIRS = Members(container="c" * 64)


def test_what_they_held_is_waited_for() -> None:
    before = held_before(_loaded(), THEIRS)

    assert before == {0: (_loaded()["gpus"][0]["used"], 60 * GIB)}
    assert describe_missing(before, _loaded(), THEIRS) == "the memory of GPU 0"
    assert describe_missing(before, sample([card(0, []), card(1, [(8, 10)])], []), THEIRS) == ""


def test_memory_that_nobody_holds_is_not_back() -> None:
    before = held_before(_loaded(), THEIRS)
    stuck = card(0, [], used=_loaded()["gpus"][0]["used"] - 30 * GIB)

    assert describe_missing(before, sample([stuck, card(1, [])], []), THEIRS) == "30.0 GiB of GPU 0"


def test_others_on_the_gpu_do_not_count() -> None:
    before = held_before(_loaded(), Members(pids=(8,)))

    assert list(before) == [1]
    assert (
        describe_missing(before, sample([card(0, [(7, 60)]), card(1, [])], []), Members(pids=(8,)))
        == ""
    )


def test_a_driver_without_figures_tells_who_is_there() -> None:
    silent = card(0, [(7, 60)])
    silent["processes"][0]["used"] = None
    before = held_before(sample([silent], [process(7, container="c" * 64)]), THEIRS)

    assert before[0][1] is None
    assert describe_missing(before, sample([card(0, [])], []), THEIRS) == ""


def test_a_box_without_gpus_waits_for_nothing() -> None:
    assert held_before(None, THEIRS) == {}
    assert held_before({"gpus": []}, THEIRS) == {}


def _loaded() -> dict[str, Any]:
    cards = [card(0, [(7, 60)]), card(1, [(8, 10)])]
    return sample(cards, [process(7, container="c" * 64), process(8)])
