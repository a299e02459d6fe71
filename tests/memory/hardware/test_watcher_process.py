"""The real watcher and collector on stand-in cards: an error of the driver's reaches the box's row."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.judge.memory.hardware.finding import RULES
from tests import migrated
from tests.nvml import SimulatedMachine, StandIn, profiles
from tests.terminal import ROOT
from tests.waiting import PATIENCE, wait_until

LOOK = """
import json
import django; django.setup()
from servers.models import Box
print(json.dumps([[len(box.gpus or []), box.facts.get("faults")] for box in Box.objects.all()]))
"""


@pytest.fixture
def machine() -> SimulatedMachine:
    return profiles.h200(2)


@pytest.fixture
def env(tmp_path: Path, machine: SimulatedMachine) -> Iterator[dict[str, str]]:
    standin = StandIn(tmp_path)
    standin.show(machine)
    env = standin.env | {
        "INFERDASH_DATA": str(tmp_path / "var"),
        "DJANGO_SETTINGS_MODULE": "inferdash.settings",
        "REDIS_URL": f"unix://{tmp_path}/none.sock",
        "DOCKER_HOST": f"unix://{tmp_path}/none.sock",
        "DATABASE_URL": "",
        "INFERDASH_BOX": "rtx8",
    }
    migrated.put_into(tmp_path / "var")
    watcher = subprocess.Popen([sys.executable, "manage.py", "watch"], cwd=ROOT, env=env)
    yield env
    watcher.terminate()
    watcher.wait(PATIENCE)


def rows(env: dict[str, str]) -> list[tuple[int, list[str] | None]]:
    """Of each box its number of GPUs, and which rules say that something is wrong."""
    look = [sys.executable, "-c", LOOK]
    done = subprocess.run(look, cwd=ROOT, env=env, check=True, stdout=subprocess.PIPE)
    return [tuple(each) for each in json.loads(done.stdout)]


def test_an_xid_reaches_the_boxs_row(
    tmp_path: Path, machine: SimulatedMachine, env: dict[str, str]
) -> None:
    def faults() -> list[str] | None:
        """None until both cards and what is wrong with the box are known."""
        return next((found for gpus, found in rows(env) if gpus == 2), None)

    wait_until(lambda: faults() is not None, "the box is known", every=0.5)
    assert "xid" not in (faults() or [])

    machine.cards[1].xid(79)
    StandIn(tmp_path).show(machine)

    wait_until(lambda: "xid" in (faults() or []), faults, every=0.5)
    assert set(faults() or []) <= set(RULES)
