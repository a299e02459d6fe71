"""No test is skipped in silence: what was not run is named at the end, and fails the whole.

A marker names a part of the machine. Where that part is missing its tests are not run; they are
listed under NOT RUN together with every other skipped test, and the exit code is 1 unless
ALLOW_MISSING=1. Loaded by `-p tests.parts`.
"""

import os
import shutil
from collections.abc import Callable, Generator

import pytest

_SBIN = ":/usr/sbin:/sbin"


def _lacks(*programs: str) -> str | None:
    path = os.environ.get("PATH", "") + _SBIN
    absent = [program for program in programs if not shutil.which(program, path=path)]
    return f"{', '.join(absent)} not installed" if absent else None


def _engine() -> str | None:
    if os.geteuid() != 0:
        return "a Docker Engine of the tests' own needs root"
    return _lacks("dockerd", "containerd", "iptables", "debootstrap")


def _fresh() -> str | None:
    if os.geteuid() != 0:
        return "a machine of its own needs root"
    return _lacks("debootstrap", "unshare", "chroot")


def _compose() -> str | None:
    plugins = ("/usr/libexec/docker", "/usr/lib/docker", "/usr/local/lib/docker")
    if any(os.access(f"{place}/cli-plugins/docker-compose", os.X_OK) for place in plugins):
        return _engine()
    return _engine() or _lacks("docker-compose")


def _vllm() -> str | None:
    return _engine() or _lacks("gcc", "g++")


# From the quickest to the slowest.
MISSING: dict[str, Callable[[], str | None]] = {
    "docker": _engine,
    "browser": lambda: _lacks("chromium"),
    "fresh": _fresh,
    "compose": _compose,
    "vllm": _vllm,
}

_not_run = pytest.StashKey[dict[str, str]]()
_skipped_modules: list[str] = []  # collection reports know no config


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_not_run] = {}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The quick ones first: what takes minutes comes after what fails in seconds."""
    order = list(MISSING)

    def slowest(item: pytest.Item) -> int:
        return max(
            (order.index(m.name) for m in item.iter_markers() if m.name in order), default=-1
        )

    items.sort(key=slowest)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, missing in MISSING.items():
        if item.get_closest_marker(marker) and (reason := missing()):
            pytest.skip(f"{marker}: {reason}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        item.config.stash[_not_run][item.nodeid] = reason.removeprefix("Skipped: ")
    return report


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.skipped:  # a whole module, by importorskip or skip at its top
        _skipped_modules.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    missing = session.config.stash[_not_run]
    missing.update(dict.fromkeys(_skipped_modules, "the whole module"))
    if missing and exitstatus == pytest.ExitCode.OK and os.environ.get("ALLOW_MISSING") != "1":
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    missing = terminalreporter.config.stash[_not_run]
    if not missing:
        return
    terminalreporter.section("NOT RUN", red=True)
    for test, reason in missing.items():
        terminalreporter.line(f"{test}: {reason}")
    if os.environ.get("ALLOW_MISSING") != "1":
        terminalreporter.line("Exit code 1 because of these; ALLOW_MISSING=1 passes without them.")
