"""How long each test takes: told by group at the end, and kept, for tests.scheduling too.

The whole list goes to test-results/durations.json. `make test-all` keeps what takes longer than
a second in tests/durations.json, which is committed: a new machine knows it, too.
"""

import json
import time
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.groups import GROUPS

ROOT = Path(__file__).resolve().parent.parent
KNOWN = ROOT / "tests/durations.json"
WHOLE = ROOT / "test-results/durations.json"
WORTH_KEEPING = 1.0  # seconds
USUAL = 20.0  # seconds. A test that takes longer says so: @pytest.mark.takes(60)
GROUPED_BELOW = 5.0  # seconds of a whole folder: told in one line with the others like it
# By the first of these that a test has.
MARKERS = (*(group.marker for group in GROUPS), "browser")

_seconds: dict[str, float] = defaultdict(float)
_shared: dict[str, float] = {}  # of these, what further tests go on to use
_expected: dict[str, float] = {}
_groups: dict[str, str] = {}


def load(path: Path = KNOWN) -> dict[str, float]:
    """Seconds by test; empty where nothing is known."""
    found: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}
    return found


def keep(source: Path = WHOLE, target: Path = KNOWN) -> None:
    found = {test: round(took, 1) for test, took in load(source).items() if took >= WORTH_KEEPING}
    target.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n")


def find_slow(
    seconds: Mapping[str, float], expected: Mapping[str, float], shared: Mapping[str, float]
) -> list[str]:
    """A line for each test that takes longer than its mark says, or than is usual without one."""
    own = {test: took - shared.get(test, 0.0) for test, took in seconds.items()}
    found = []
    for test, took in sorted(own.items(), key=lambda pair: -pair[1]):
        limit = expected.get(test, USUAL)
        if took > limit:
            mark = f"takes({limit:.0f})" if test in expected else "no mark"
            found.append(f"{took:6.1f} s, {mark}: {test}")
    return found


def sum_up(seconds: Mapping[str, float], groups: Mapping[str, str]) -> list[tuple[str, int, float]]:
    """Group, how many tests, and their seconds in all, the longest first."""
    found: dict[str, list[float]] = defaultdict(list)
    for test, took in seconds.items():
        found[groups.get(test, "")].append(took)
    rows = [(name, len(each), sum(each)) for name, each in found.items()]
    return sorted(rows, key=lambda row: -row[2])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--tell-durations", action="store_true", help="by group at the end, and into a file"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"takes(seconds): longer than the usual {USUAL:.0f} s")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What the process that tells of it cannot see of the test travels with its reports."""
    if mark := item.get_closest_marker("takes"):
        item.user_properties.append(("takes", mark.args[0]))
    names = {mark.name for mark in item.iter_markers()}
    folder = Path(item.nodeid.partition("::")[0]).parent.name
    usual = "docker" if "docker" in names else folder
    item.user_properties.append(("group", next((n for n in MARKERS if n in names), usual)))


@contextmanager
def note_shared(item: pytest.Item) -> Iterator[None]:
    """Which test comes first and starts what others go on to use is chance: it is not the slow one."""
    began = time.monotonic()
    try:
        yield
    finally:
        item.user_properties.append(("shared", time.monotonic() - began))


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    if fixturedef.scope == "function":
        return (yield)
    with note_shared(request._pyfuncitem):
        return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid] += report.duration
    # Each of a test's reports has all that was noted of it so far.
    _shared[report.nodeid] = sum(
        float(said)  # type: ignore[arg-type]
        for name, said in report.user_properties
        if name == "shared"
    )
    properties = dict(report.user_properties)
    if "takes" in properties:
        _expected[report.nodeid] = float(properties["takes"])  # type: ignore[arg-type]
    _groups[report.nodeid] = str(properties.get("group", ""))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if not _seconds or not config.getoption("--tell-durations"):
        return
    WHOLE.parent.mkdir(exist_ok=True)
    WHOLE.write_text(json.dumps(dict(sorted(_seconds.items())), indent=0) + "\n")
    terminalreporter.section(f"SECONDS BY GROUP (each test's: {WHOLE.relative_to(ROOT)})")
    for line in _table(sum_up(_seconds, _groups)):
        terminalreporter.line(line)
    if slow := find_slow(_seconds, _expected, _shared):
        terminalreporter.section("SLOWER THAN SAID")
        for line in slow:
            terminalreporter.line(line)


def _table(rows: Iterable[tuple[str, int, float]]) -> list[str]:
    lines, count, rest = [], 0, 0.0
    for name, tests, seconds in rows:
        if seconds >= GROUPED_BELOW:
            lines.append(f"{seconds:8.1f} {name} ({tests})")
        else:
            count, rest = count + tests, rest + seconds
    return [*lines, f"{rest:8.1f} all others ({count})"] if count else lines
