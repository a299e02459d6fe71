"""Heat maps of grids, and promises of sources as figures."""

import dataclasses

import pytest

from servers.judge.benchmarks.cards import build_figures
from servers.judge.benchmarks.comparison import MeasuredPoint
from servers.judge.benchmarks.heat_maps import LEVELS, list_heat_maps
from servers.judge.benchmarks.points import Spread
from servers.judge.benchmarks.promises import compare_promises
from tests.cases import Cases


def point(name: str, people: int, prompt: int, rate: float, first: float = 0.2) -> MeasuredPoint:
    figures = build_figures(
        requests=3, user_rate=rate, output_rate=rate * people, prefill_rate=1900.0,
        ttft=Spread(median=first, p90=None, p99=None, worst=first),
    )  # fmt: skip
    return MeasuredPoint(
        name=name, concurrency=people, prompt_tokens=prompt, output_tokens=64, rounds=(figures,) * 3,
        taints=(),
    )  # fmt: skip


def test_a_grid_is_shown_as_a_map_the_best_in_the_strongest_colour() -> None:
    tainted = dataclasses.replace(point("Grid", 8, 4000, 20.0, 2.0), taints=("benchmarks.others",))
    grid = [point("Grid", 1, 500, 60.0, 0.1), point("Grid", 8, 500, 40.0), tainted]

    each, together, first = list_heat_maps(grid)

    assert [map.title for map in (each, together, first)] == [
        "Per person", "Together", "First token",
    ]  # fmt: skip
    assert [people for people, _x in each.people] == [1, 8]
    assert [row.name for row in each.rows] == ["500", "4k"]
    [short, long] = each.rows
    assert [(cell.text, cell.level) for cell in short.cells] == [("60.0", LEVELS), ("40.0", 2)]
    assert [(cell.text, cell.level) for cell in long.cells] == [("–", None), ("20.0", 0)]
    assert [cell.is_clean for cell in long.cells] == [True, False]
    assert first.rows[0].cells[0].level == LEVELS, "less of a wait is better"
    assert first.rows[1].cells[1].level == 0
    assert list_heat_maps(grid[:2]) == [], "of one length there is no map"


PROMISES = {
    "range": ({"tokens per second": "80-120"}, 60.0, [("user_rate", 0.75)]),
    "kept": ({"tokens per second": "30-35"}, 60.0, [("user_rate", 2.0)]),
    "with words behind": ({"tokens per second": "37-50, 45.6 on average"}, 37.0, [("user_rate", 1.0)]),
    "milliseconds": ({"first token": "100-200 ms"}, 60.0, [("ttft", 1.0)]),
    "by length": (
        {"prompt tokens per second": "376 at 4K, 3800 at 16K"}, 60.0, [("prefill_rate", 0.5)],
    ),
    "no figure": ({"tokens per second": "fast", "weights": "274 GB"}, 60.0, []),
}  # fmt: skip


def test_what_a_source_promises_is_compared() -> None:
    with Cases() as cases:
        for name, (expected, rate, wanted) in PROMISES.items():
            with cases.named(name):
                points = [point("One person", 1, 500, rate), point("Prompt", 1, 16000, rate)]
                found = compare_promises(expected, points)
                assert [each.figure.key for each in found] == [key for key, _share in wanted]
                shares = [each.share for each in found]
                assert shares == pytest.approx([share for _key, share in wanted])
