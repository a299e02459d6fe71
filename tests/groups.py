"""Groups of tests that take minutes and that few changes touch: what each depends on.

`make test-all` runs every test and keeps in proved.json, of each group all of whose tests were run
and green, a hash of its inputs. `make test` (`--changed`) leaves out the groups whose inputs still
have that hash.
"""

import hashlib
import json
import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROVED = ROOT / "tests/proved.json"
# Another file, for the tests of this module.
VARIABLE = "INFERDASH_TEST_PROVED"
# A file for the markers of the groups that a run has proved.
OUTCOME = "INFERDASH_TEST_OUTCOME"


class GroupError(Exception):
    """The inputs of a group cannot be told; the text says why."""


@dataclass(frozen=True, kw_only=True)
class GuardedGroup:
    marker: str  # of its tests
    about: str
    # Patterns of files below the root; `*` also stands for slashes.
    inputs: tuple[str, ...]


# With other packages anything may break; and what starts engines, installations and browsers.
ALL = (
    *("Makefile", "requirements*.txt", "package*.json", "pyproject.toml", ".python-version"),
    *("tests/conftest.py", "tests/docker_engine.py", "tests/base_images.py", "tests/namespace.py"),
    *("tests/ports.py", "tests/redis_server.py", "tests/terminal.py", "tests/waiting.py"),
)
PAGES = (
    *("tests/browser/chromium.py", "tests/browser/conftest.py", "tests/browser/steps.py"),
    *("tests/chat_stack.py", "tests/dying.py", "tests/emptied.py", "tests/installation.py"),
    *("tests/migrated.py", "tests/nvml/*", "tests/running.py", "tests/scripted_engine.py"),
    *("tests/shell.py", "tests/web_stack.py"),
)
PRODUCT = (
    *("manage.py", "inferdash/*.py", "inferdash/tls/*", "inferdash/up/*", "inferdash/compose/*"),
    "servers/migrations/*",
)
GROUPS = (
    GuardedGroup(
        marker="demo",
        about="the demo, from its start to what it leaves",
        inputs=(
            *(*ALL, *PRODUCT, "inferdash/demo/*", "tests/test_demo.py", "templates/base.html"),
            *(
                "servers/host/*",
                "servers/watcher/*",
                "servers/launch/engines/*",
                "servers/judge/logs/failures/*",
            ),
        ),
    ),
    GuardedGroup(
        marker="migrations",
        about="databases of earlier versions, migrated and back",
        inputs=(
            *(*ALL, "servers/migrations/*", "servers/models/alerts.py"),
            *("servers/models/people/user.py", "tests/databases.py", "tests/migrated.py"),
            *("tests/old_rows.py", "tests/shell.py", "tests/test_migrations.py"),
            *("tests/files/hostile.py", "tests/files/test_purged.py"),
        ),
    ),
    GuardedGroup(
        marker="release",
        about="the wheel and the site of the documents",
        inputs=(
            *(*ALL, *PRODUCT, "docs/*", "zensical.toml", "templates/*", "static/*"),
            *("tests/test_wheel.py", "tests/test_documents.py"),
        ),
    ),
    GuardedGroup(
        marker="fresh",
        about="`make up` and `make lint` on a bare machine",
        inputs=(
            *(*ALL, *PRODUCT, "tsconfig.json", "tests/js/types/*"),
            *("tests/test_fresh.py", "tests/fresh/*"),
        ),
    ),
    GuardedGroup(
        marker="up",
        about="`make up`: what it installs, starts again and ends",
        inputs=(
            *(*ALL, *PRODUCT, "tests/test_install.py", "tests/up/conftest.py"),
            *("tests/up/programs.py", "tests/up/test_whole.py"),
            "tests/tls/certificates.py",
        ),
    ),
    GuardedGroup(
        marker="boxes",
        about="a hub, and a further box from its token to its end",
        inputs=(
            *(*ALL, *PRODUCT, "inferdash/wire/*", "servers/host/links/*", "servers/host/http/*"),
            "inferdash/service/*",
            *("servers/lifecycle/links/*", "servers/models/links.py", "servers/models/box.py"),
            *("servers/management/*", "servers/state/*", "servers/events.py", "tests/boxes/*"),
            *("servers/watcher/loop.py", "tests/engine/*", "tests/shell.py", "tests/nvml/*"),
        ),
    ),
    GuardedGroup(
        marker="service",
        about="services of systemd: installed, upgraded, rolled back",
        inputs=(*ALL, *PRODUCT, "inferdash/service/*", "tests/engine/*", "tests/service/*"),
    ),
    GuardedGroup(
        marker="compose",
        about="the compose installation",
        inputs=(
            *(*ALL, *PAGES, *PRODUCT, "servers/management/*"),
            *("inferdash/wire/*", "servers/host/links/*", "servers/lifecycle/links/*"),
            *("Dockerfile", ".dockerignore", "docker-compose.yml", ".env.example"),
            *("tests/test_compose.py", "tests/compose/*", "tests/browser/test_walk.py"),
            *("tests/engine/*", "tests/browser/chat/talk.py"),
        ),
    ),
    GuardedGroup(
        marker="vllm",
        about="vLLM itself, on the CPU",
        inputs=(
            *(
                *ALL,
                *PAGES,
                "servers/launch/engines/*",
                "servers/host/runs/probes.py",
                "servers/host/gateway.py",
            ),
            *("servers/gateway/*", "servers/judge/logs/phases/*", "servers/judge/runs/figures/*"),
            *("servers/judge/logs/meters/*", "tests/vllm/*", "tests/browser/*vllm*"),
            *("tests/browser/test_watching.py", "tests/browser/axe.py", "tests/engine/*"),
            *("tests/browser/chat/talk.py", "tests/browser/chat/test_pictures.py"),
            *(
                "tests/images/test_asked_vllm.py",
                "tests/images/inspection/*",
                "tests/profiles/lint/test_vllm_help.py",
            ),
            *("servers/judge/benchmarks/engine_bench.py", "servers/judge/benchmarks/imports.py"),
            *("servers/lifecycle/benchmarks/engine_bench.py", "servers/host/docker/throwaway.py"),
            *("tests/benchmarks/real_engine.py", "tests/benchmarks/test_vllm_bench.py"),
            *("tests/jobs.py", "tests/lifecycle/starts.py"),
            "tests/profiles/lint/test_flaglist.py",
            *("tests/cases.py", "tests/runs/metrics/*", "tests/logs/*", "tests/factories.py"),
        ),
    ),
    GuardedGroup(
        marker="llamacpp",
        about="llama.cpp itself, on the CPU",
        inputs=(
            *(
                *ALL,
                *PAGES,
                "servers/launch/engines/*",
                "servers/host/runs/probes.py",
                "servers/host/gateway.py",
            ),
            *("servers/gateway/*", "servers/judge/logs/phases/*", "servers/judge/runs/figures/*"),
            *(
                "servers/judge/logs/meters/*",
                "tests/llamacpp/*",
                "tests/browser/test_llamacpp_walk.py",
            ),
            *("servers/judge/benchmarks/engine_bench.py", "servers/judge/benchmarks/imports.py"),
            *("servers/lifecycle/benchmarks/engine_bench.py", "servers/host/docker/throwaway.py"),
            *("tests/benchmarks/real_engine.py", "tests/benchmarks/test_llama_bench.py"),
            *("tests/jobs.py", "tests/lifecycle/starts.py", "tests/factories.py"),
            *("tests/browser/vllm_talk.py", "tests/browser/chat/talk.py"),
        ),
    ),
    GuardedGroup(
        marker="chaos",
        about="worker, watcher, Redis and Docker killed at every step of a start",
        inputs=(
            *(*ALL, *PRODUCT, "servers/watcher/*", "servers/lifecycle/*", "servers/models/*"),
            *("servers/state/*", "servers/events.py", "servers/tasks.py", "servers/host/docker/*"),
            *("servers/host/logs.py", "servers/host/benchmarks/*", "servers/host/canary/*"),
            *("servers/judge/benchmarks/trials.py", "tests/chaos/*", "tests/measurements.py"),
            *("tests/unix_proxy.py", "tests/cutting_proxy.py", "tests/databases.py"),
            "tests/dying.py",
            *("tests/engine/*", "tests/factories.py", "tests/migrated.py", "tests/logs/*"),
        ),
    ),
    GuardedGroup(
        marker="pages",
        about="every page in every state, width and colour",
        inputs=(
            *(*ALL, *PAGES, "templates/*", "static/*", "servers/views/*", "servers/contexts/*"),
            *("servers/templatetags/*", "tests/factories.py", "tests/page_states.py"),
            *("tests/browser/axe.py", "tests/browser/matrix/*"),
        ),
    ),
    GuardedGroup(
        marker="screenshots",
        about="the README's pictures",
        inputs=(
            *(*ALL, *PAGES, "templates/*", "static/*", "servers/views/*", "docs/images/*"),
            *("tests/factories.py", "tests/browser/test_screenshots.py"),
        ),
    ),
    GuardedGroup(
        marker="soak",
        about="streams through the gateway for a while: none lost, none left behind",
        inputs=(
            *(*ALL, *PAGES, "inferdash/*.py", "inferdash/up/web.py", "servers/gateway/*"),
            *(
                "servers/host/gateway.py",
                "servers/host/http/connections.py",
                "tests/test_soak.py",
            ),
            "tests/bench/*",
        ),
    ),
)


def hash_inputs(group: GuardedGroup, root: Path = ROOT) -> str:
    """Of the names and the contents of every input. Raises GroupError where there is none."""
    told = hashlib.sha256()
    used = [name for name in _files(root) if any(fnmatchcase(name, each) for each in group.inputs)]
    if not used:
        raise GroupError(f"The group {group.marker} has no inputs: see {__name__}.")
    for name in used:
        told.update(f"{name}\0{hashlib.sha256((root / name).read_bytes()).hexdigest()}\n".encode())
    return told.hexdigest()


def unused_patterns(group: GuardedGroup, root: Path = ROOT) -> list[str]:
    """Those that name no file: what they named was moved, and the group is blind to it."""
    names = _files(root)
    return [each for each in group.inputs if not any(fnmatchcase(name, each) for name in names)]


def changed(root: Path = ROOT, proved: Path | None = None) -> set[str]:
    """The markers of the groups whose inputs are not those that a green `make test-all` had."""
    path = proved or Path(os.environ.get(VARIABLE, PROVED))
    known = json.loads(path.read_text()) if path.exists() else {}
    return {each.marker for each in GROUPS if known.get(each.marker) != hash_inputs(each, root)}


def hashes(root: Path = ROOT) -> dict[str, str]:
    return {each.marker: hash_inputs(each, root) for each in GROUPS}


def keep(
    before: dict[str, str], proved: set[str], root: Path = ROOT, path: Path = PROVED
) -> set[str]:
    """Write down what was proved, and return what was not: what failed, or was not run, or has
    other inputs by now than `before` the tests."""
    now = hashes(root)
    found = {each: value for each, value in before.items() if each in proved and now[each] == value}
    write(found, path)
    return before.keys() - found.keys()


def write(found: dict[str, str], path: Path = PROVED) -> None:
    path.write_text(json.dumps(found, indent=2, sort_keys=True) + "\n")


def _files(root: Path) -> list[str]:
    """Every file that is, or would be, committed."""
    # As root in the checkout of somebody else git refuses, unless it is told that this is meant.
    command = ["git", "-c", f"safe.directory={root}", "ls-files", "-z", "--cached", "--others"]
    listed = subprocess.run(
        [*command, "--exclude-standard"], cwd=root, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        raise GroupError(f"git does not list the files of {root}: {listed.stderr.strip()}")
    names = sorted(set(filter(None, listed.stdout.split("\0"))))
    return [name for name in names if (root / name).is_file()]


# As a plugin of pytest


_left_out: dict[str, int] = {}
# Groups of which a test was run; and those of which one was not green, or not run.
_ran: set[str] = set()
_not_green: set[str] = set()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--changed",
        action="store_true",
        help="leave out the groups of tests.groups whose inputs are as they were proved",
    )


def pytest_configure(config: pytest.Config) -> None:
    for group in GROUPS:
        config.addinivalue_line("markers", f"{group.marker}: {group.about}")
    if not hasattr(config, "workerinput"):
        # Once, as a file that changes meanwhile would give each process other tests.
        config.stash[_RUN] = changed() if config.getoption("--changed") else None


def pytest_configure_node(node: "_Node") -> None:
    run = node.config.stash[_RUN]
    node.workerinput["groups"] = None if run is None else sorted(run)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    run = _chosen(config)
    if run is None:
        return
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        of = _markers(item.iter_markers())
        (kept if not of or of & run else left).append(item)
        if of and not of & run:
            for marker in of:
                _left_out[marker] = _left_out.get(marker, 0) + 1
    items[:] = kept
    config.hook.pytest_deselected(items=left)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    mine = {each.marker for each in GROUPS} & set(report.keywords)
    _ran.update(mine)
    if not report.passed:  # what was not run proves nothing either
        _not_green.update(mine)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if not report.passed:
        _not_green.update(each.marker for each in GROUPS)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = _left_out
    elif path := os.environ.get(OUTCOME):
        Path(path).write_text(json.dumps(sorted(_ran - _not_green - _left_out.keys())))


def pytest_testnodedown(node: "_Node", error: object) -> None:
    _left_out.update(getattr(node, "workeroutput", {}).get("left_out", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _left_out:
        return
    terminalreporter.section("PROVED BEFORE")
    for group in GROUPS:
        if count := _left_out.get(group.marker):
            terminalreporter.line(f"{group.marker}: {count} tests of {group.about}")
    terminalreporter.line("Nothing that they depend on has changed since; make test-all runs them.")


class _Node:
    """What is used here of xdist's controller of a process."""

    config: pytest.Config
    workerinput: dict[str, object]
    workeroutput: dict[str, dict[str, int]]


_RUN: pytest.StashKey[set[str] | None] = pytest.StashKey()


def _chosen(config: pytest.Config) -> set[str] | None:
    """The groups that are run; None: whatever is asked for."""
    if not hasattr(config, "workerinput"):
        return config.stash[_RUN]
    groups = config.workerinput["groups"]
    return None if groups is None else set(groups)


def _markers(marks: Iterable[pytest.Mark]) -> set[str]:
    known = {group.marker for group in GROUPS}
    return {mark.name for mark in marks} & known
