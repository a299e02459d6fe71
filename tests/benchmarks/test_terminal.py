"""`inferdash bench` and its completion, as a person has them."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.terminal import ROOT
from tests.waiting import PATIENCE
from tests.web_stack import WebStack

COMMAND = [sys.executable, "-m", "inferdash.terminal"]
ROWS = """
from tests import measurements
from servers.models import Key, Role
made = factories.server(factories.box())
factories.run(made)
for pk, speed in ((71, 1.0), (72, 0.8), (73, 1.003)):
    measurements.benchmark(made, speed=speed, pk=pk)
print(Key.make(factories.person("otto", Role.OPERATOR), "laptop", Role.OPERATOR, expires_at=None)[1])
"""

type Terminal = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def terminal(web: WebStack, tmp_path: Path) -> Terminal:
    web.empty()
    token = web.run(ROWS).split()[-1]
    env = {"INFERDASH_URL": web.url, "INFERDASH_KEY": token, "HOME": str(tmp_path)}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *words], env=env, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE
        )

    return run


@pytest.mark.takes(60)
def test_results_are_listed_compared_and_exported(terminal: Terminal) -> None:
    said = terminal("bench", "list", "qwen3-8b").stdout.splitlines()
    assert said[0].split()[:3] == ["ID", "SERVER", "CHECK-UP"]
    assert [line.split()[0] for line in said[1:]] == ["73", "72", "71"]
    assert json.loads(terminal("bench", "list", "nobody", "--json").stdout) == []

    two = terminal("bench", "compare", "71", "72").stdout.splitlines()
    assert two[0].split()[:2] == ["POINT", "FIGURE"]
    assert two[1].split()[-2:] == ["%", "worse"]
    three = terminal("bench", "compare", "71", "72", "73").stdout
    assert three.startswith("ID")
    assert "no difference that can be told" in three

    card = json.loads(terminal("bench", "export", "71", "--form", "card").stdout)
    assert card["kind"] == "inferdash result card"
    assert terminal("bench", "export", "71", "--form", "svg").stdout.startswith("<svg")
    assert terminal("bench", "export", "71", "--form", "csv").stdout.startswith("point,")
    assert terminal("bench", "export", "99").returncode == 3

    begun = terminal("bench", "run", "qwen3-8b", "--detach", "--json")
    asked = json.loads(begun.stdout)
    assert (asked["state"], asked["preset"], asked["asked_by"]) == ("waiting", "quick", "otto")
    again = terminal("bench", "run", "qwen3-8b", "--detach")
    assert again.returncode == 1
    assert "Another check-up is under way" in again.stderr
    assert "stopped" in terminal("bench", "stop", str(asked["id"])).stdout


@pytest.mark.takes(40)
def test_plans_of_ones_own_and_trials_are_begun(terminal: Terminal) -> None:
    own = ("bench", "run", "qwen3-8b", "--detach", "--prompts", "500")
    refused = terminal(*own, "--people", "1,8")
    assert (refused.returncode, "Only an editor" in refused.stderr) == (1, True)
    neither = terminal(*own)
    assert (neither.returncode, "Fill in people at once" in neither.stderr) == (2, True)
    assert terminal("bench", "hours", "qwen3-8b").stdout.split() == ["HOUR", "REQUESTS"]
    past = terminal("bench", "run", "qwen3-8b", "--replay", "2026-01-02T15:00Z", "--detach")
    assert (past.returncode, "knows of no request" in past.stderr) == (1, True)

    said = json.loads(terminal("trial", "run", "qwen3-8b", "--detach", "--json").stdout)
    assert (said["step"], said["is_open"], said["asked_by"]) == ("measure-old", True, "otto")
    assert "Another trial is under way" in terminal("trial", "run", "qwen3-8b").stderr
    early = terminal("trial", "keep", str(said["id"]))
    assert (early.returncode, "nothing to keep yet" in early.stderr) == (1, True)
    ended = terminal("trial", "back", str(said["id"]))
    assert (ended.returncode, "before anything was changed" in ended.stdout) == (1, True)
    assert terminal("trial", "list").stdout.splitlines()[1].split()[:2] == [
        str(said["id"]), "qwen3-8b",
    ]  # fmt: skip


def complete(*words: str) -> list[str]:
    script = subprocess.run(
        [*COMMAND, "completion", "bash"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    given = " ".join(f'"{word}"' for word in words)
    typed = f"{script}\nCOMP_WORDS=({given}); COMP_CWORD={len(words) - 1}; _inferdash"
    said = subprocess.run(
        ["bash", "-c", f"{typed}; echo ${{COMPREPLY[@]}}"], capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    return said.stdout.split()


def test_bench_and_claims_are_completed() -> None:
    assert complete("inferdash", "be") == ["bench"]
    assert sorted(complete("inferdash", "cl")) == ["claim", "claims"]
    assert complete("inferdash", "rel") == ["release"]
    assert complete("inferdash", "bench", "co") == ["compare"]
