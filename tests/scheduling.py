"""Gives the tests to the processes: modules whole, the longest first, installations to two of them.

Whole, as the tests of some go on from each other. The longest first, else one process has minutes
to do when the others have ended. An installation takes ten seconds of a core to start, and a tenth
of one for as long as it is there.
"""

import heapq
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests import durations

INSTALLATIONS = 2
USES_ONE = "place: Installation"  # in the text of a module, which is all that is known of it here
OWN = "with installation("  # in the text of a module that starts another one for itself
GUESS = 1.0  # seconds of a module that has not run yet


class ByModule(LoadScopeScheduling):  # type: ignore[misc] # xdist has no types
    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        self._units = share_installations()

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        return self._units.get(module, module)


@cache
def share_installations(root: Path = durations.ROOT) -> dict[str, str]:
    """Which of the installations each module uses that uses one: as much work for each."""
    seconds = sum_by_module(durations.load())
    modules = [
        str(path.relative_to(root))
        for path in sorted(root.glob("tests/**/test_*.py"))
        if USES_ONE in path.read_text()
    ]
    units = [(0.0, f"installation {number}") for number in range(INSTALLATIONS)]
    shared = {}
    for module in sorted(modules, key=lambda each: -seconds.get(each, GUESS)):
        total, unit = heapq.heappop(units)
        shared[module] = unit
        heapq.heappush(units, (total + seconds.get(module, GUESS), unit))
    return shared


@cache
def starts_its_own(module: str) -> bool:
    """Whether it needs none of those that are shared: it comes before they are started."""
    path = durations.ROOT / module
    return path.exists() and OWN in path.read_text()


def sum_by_module(seconds: Mapping[str, float]) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for test, took in seconds.items():
        found[test.partition("::")[0]] += took
    return found


def sort_items(
    items: list[pytest.Item], seconds: Mapping[str, float], units: Mapping[str, str]
) -> None:
    """Units that take longest first; the tests of a module stay together, and in their order."""
    by_module = sum_by_module(seconds)
    by_unit: dict[str, float] = defaultdict(float)
    for module, took in by_module.items():
        by_unit[units.get(module, module)] += took

    def rank(item: pytest.Item) -> tuple[float, str, bool, float, str]:
        module = item.nodeid.partition("::")[0]
        unit = units.get(module, module)
        shares = module not in units or not starts_its_own(module)
        return -by_unit.get(unit, 0.0), unit, shares, -by_module.get(module, 0.0), module

    items.sort(key=rank)


# As a plugin of pytest


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByModule | None:
    return ByModule(config, log) if config.getoption("--tell-durations") else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        sort_items(items, durations.load(), share_installations())
