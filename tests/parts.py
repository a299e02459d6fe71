"""No test is skipped in silence: what was not run is named at the end, and fails the whole.

A marker names a part of the machine. Where that part is missing its tests are not run; they are
listed under NOT RUN together with every other skipped test, and the exit code is 1 unless
ALLOW_MISSING=1. Loaded by `-p tests.parts`.
"""

import os
import shutil
from collections.abc import Callable

import pytest

from tests import namespace

_SBIN = ":/usr/sbin:/sbin"
LAST_WORDS = 3000  # characters of what a failed test and its programs printed


def _lacks(*programs: str) -> str | None:
    path = os.environ.get("PATH", "") + _SBIN
    absent = [program for program in programs if not shutil.which(program, path=path)]
    return f"{', '.join(absent)} not installed" if absent else None


# Why there is no network of the tests' own.
_no_namespace: list[str] = []


def _engine() -> str | None:
    if _no_namespace:
        return _no_namespace[0]
    if os.geteuid() != 0:
        return "a Docker Engine of the tests' own needs root"
    return _lacks("dockerd", "containerd", "iptables", "debootstrap", "slirp4netns")


def _fresh() -> str | None:
    if os.geteuid() != 0:
        return "a machine of its own needs root"
    return _lacks("debootstrap", "unshare", "chroot")


def _compose() -> str | None:
    plugins = ("/usr/libexec/docker", "/usr/lib/docker", "/usr/local/lib/docker")
    if any(os.access(f"{place}/cli-plugins/docker-compose", os.X_OK) for place in plugins):
        return _engine()
    return _engine() or _lacks("docker-compose")


def _browser() -> str | None:
    return _lacks("chromium-headless-shell") and _lacks("chromium")


def _ssh() -> str | None:
    return _lacks("ssh", "ssh-keyscan", "sshd")


def _vllm() -> str | None:
    return _engine() or _lacks("gcc", "g++")


# From the quickest to the slowest.
MISSING: dict[str, Callable[[], str | None]] = {
    "ssh": _ssh,
    "docker": _engine,
    "browser": _browser,
    "fresh": _fresh,
    "compose": _compose,
    "vllm": _vllm,
}

# By test. Of the module, as reports know no config; those of other processes come here, too.
_not_run: dict[str, str] = {}
_terminals: list[pytest.TerminalReporter] = []


@pytest.hookimpl(trylast=True)  # once there is a terminal
def pytest_configure(config: pytest.Config) -> None:
    """Before anything is started: its processes are where the session is."""
    if not hasattr(config, "workerinput"):
        _terminals.append(config.pluginmanager.getplugin("terminalreporter"))
    try:
        namespace.enter()
    except namespace.NamespaceError as error:
        _no_namespace.append(str(error))  # what needs it is not run, and says so


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The quick ones first: what takes minutes comes after what fails in seconds.

    Where several processes share the work, tests.scheduling has the last word.
    """
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


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:  # at once: a run that is broken off tells nothing at its end
        for terminal in _terminals:
            terminal.write_line("")
            terminal.write_line(f"{report.nodeid} failed ({report.when}):\n{report.longreprtext}")
            for title, printed in report.sections:
                terminal.write_line(f"{title}, at its end:\n{printed[-LAST_WORDS:]}")
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        _not_run[report.nodeid] = reason.removeprefix("Skipped: ")


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.skipped:  # a whole module, by importorskip or skip at its top
        _not_run[report.nodeid] = "the whole module"


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if _not_run and exitstatus == pytest.ExitCode.OK and os.environ.get("ALLOW_MISSING") != "1":
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _not_run:
        return
    terminalreporter.section("NOT RUN", red=True)
    for test, reason in _not_run.items():
        terminalreporter.line(f"{test}: {reason}")
    if os.environ.get("ALLOW_MISSING") != "1":
        terminalreporter.line("Exit code 1 because of these; ALLOW_MISSING=1 passes without them.")
