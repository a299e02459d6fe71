"""Real containers with a real limit, killed by the real kernel; and rows, where only words differ."""

import time
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from servers.judge.logs import evidence
from servers.lifecycle.logs import diagnoses
from servers.models import Run
from servers.models.runs.run import RunState
from servers.watcher.memory.oom import OomMonitor
from tests import factories
from tests.chaos.place import ChaosSite
from tests.external.monitoring.hands import Hands

HOG = "x = bytearray(1 << 30)"
LIMIT = 256 << 20


@pytest.mark.docker
def test_a_part_of_an_engine_that_is_killed_explains_its_end(
    place: ChaosSite, hands: Hands
) -> None:
    """Docker's OOMKilled stays false, or not: nobody needs it."""
    place.watcher()
    container = hands.run("hungry", mem_limit=LIMIT)
    run = hands.is_ready(hands.watches(container))

    def fresh() -> Run:
        run.refresh_from_db()
        return run

    made = hands.client.exec_create(container, ["python3", "-c", HOG])
    hands.client.exec_start(made["Id"])
    place.waits_for("the kill is noted", lambda: bool(fresh().log.oom))
    assert run.state == RunState.READY, "the engine itself lives"

    hands.kills_engine(container)

    place.waits_for("why it failed is known", lambda: fresh().log.cause == evidence.CAUSE)
    assert "The kernel killed" in run.why
    assert "may use 256 MiB" in run.why


def test_the_counter_alone_makes_it_likely_and_the_kernels_line_sure(
    db: None, own_redis: object
) -> None:
    box = factories.box("rtx8")
    now = timezone.now()
    run = factories.run(
        factories.server(box, "glm-5"), RunState.FAILED, container_id="c" * 64, exit_code=137,
        started_at=now - timedelta(minutes=9), ended_at=now - timedelta(seconds=4),
        is_complete=True,
    )  # fmt: skip
    calm = factories.run(
        factories.server(box, "calm"), RunState.FAILED, container_id="d" * 64, exit_code=3,
        started_at=now - timedelta(minutes=9), ended_at=now - timedelta(minutes=3),
    )  # fmt: skip
    watcher = OomMonitor(box)
    at = time.time() - 5
    move = {"t": at, "count": 1, "largest": [["dockerd", 2 * 2**30]]}
    killed: dict[str, Any] = {
        "t": at, "pid": 7, "name": "python3", "held": 20 * 2**30, "is_limit": False,
        "container": "c" * 64, "others": [], "said": "Out of memory: Killed process 7 (python3)",
    }  # fmt: skip

    watcher.look({"oom": {"moves": [move], "killed": [killed | {"container": "e" * 64}]}})
    run.refresh_from_db()
    assert run.log.oom == {}, "the kernel says that it was another"

    watcher.look({"oom": {"moves": [move], "killed": []}})
    diagnoses.look(box)
    run.refresh_from_db()
    assert run.log.cause == evidence.CAUSE
    assert run.why.startswith("It is likely")
    assert "dockerd 2.0 GiB" in run.why

    watcher.look({"oom": {"moves": [move], "killed": [killed]}})
    diagnoses.look(box)
    run.refresh_from_db()
    assert run.why.startswith("The kernel killed python3 (process 7): the box had no main memory")
    assert run.log.diagnosis["evidence"][0] == [0, killed["said"]]
    calm.refresh_from_db()
    assert calm.log.oom == {}
