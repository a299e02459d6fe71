"""A load that would take a machine with unified memory down is told of, and stopped in time."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone

from servers import lifecycle
from servers.host.docker.containers import DockerContainers
from servers.judge.memory.pools import GuardThresholds, MemoryGuard
from servers.judge.runs import limits
from servers.lifecycle.runs import health
from servers.models import Box, CheckpointFacts, Run
from servers.models.runs.run import DesiredState, ManagedRun, ManagedServer, RunState
from servers.watcher.memory.monitor import LoadMonitor
from tests import factories
from tests.base_images import ENGINE
from tests.weights.fit import models
from tests.weights.fit.models import GB, GIB

ALL = GuardThresholds()


def levels(guard: MemoryGuard, *left: float, swapped: float = 0, every: float = 1) -> list[str]:
    """The level after each second, with GiB left, and GiB swapped a second."""
    return [
        guard.step(
            number * every, available=int(gib * GIB), swapped=int(number * every * swapped * GIB)
        ).level
        for number, gib in enumerate(left)
    ]


def test_an_alarm_comes_before_the_end() -> None:
    guard = MemoryGuard(ALL, foreseen=None)

    assert levels(guard, 40, 20, 8, 5.9, 4, 2.9) == [
        "fine", "fine", "fine", "alarm", "alarm", "stop",
    ]  # fmt: skip


def test_the_words_hold_it_against_what_was_foreseen() -> None:
    guard = MemoryGuard(ALL, foreseen=9 * GIB)
    for second, left in enumerate((15, 13, 11, 9, 7, 5)):
        told = guard.step(second, available=left * GIB, swapped=0)

    assert told.says == (
        "The machine has 5.0 GiB left where 9.0 GiB were foreseen. It falls by 2.0 GiB/s."
    )


@pytest.mark.parametrize("left", [2.2, 3, 5, 9])
def test_the_published_recipe_for_two_sparks_that_leaves_little_may_start(left: float) -> None:
    guard = MemoryGuard(ALL, foreseen=int(left * GIB))

    # Down to what was foreseen, with the noise of a load around it.
    course = [30, 20, 12, left + 0.3, left, left - 0.3, left, left]
    assert "stop" not in levels(guard, *course)


def test_what_falls_far_below_what_was_foreseen_is_stopped_all_the_same() -> None:
    assert levels(MemoryGuard(ALL, foreseen=2 * GIB), 5, 2, 0.9)[-1] == "stop"
    assert levels(MemoryGuard(ALL, foreseen=-20 * GIB), 5, 2, 0.4)[-1] == "stop"


def test_a_swap_storm_is_the_end_where_little_is_left_and_a_gust_is_not() -> None:
    low = [5.0] * 6
    assert levels(MemoryGuard(ALL, foreseen=None), *low, swapped=0.5)[-1] == "stop"
    assert levels(MemoryGuard(ALL, foreseen=None), *low, swapped=0.1)[-1] == "alarm"
    # Plenty is left: the kernel puts away what nobody uses.
    assert levels(MemoryGuard(ALL, foreseen=None), *[50.0] * 6, swapped=0.5)[-1] == "fine"
    gust = MemoryGuard(ALL, foreseen=None)
    assert gust.step(0, available=5 * GIB, swapped=0).level == "alarm"
    assert gust.step(1, available=5 * GIB, swapped=2 * GIB).level == "alarm"


def test_an_alarm_does_not_flicker() -> None:
    found = levels(MemoryGuard(ALL, foreseen=None), 5.9, 6.1, 5.9, 7.1, 7.3, 7.1)

    assert found == ["alarm", "alarm", "alarm", "alarm", "fine", "fine"]


def test_it_can_be_switched_off_in_part_and_whole() -> None:
    assert levels(MemoryGuard(GuardThresholds(alarm=6 * GIB, stop=0), foreseen=None), 5, 1, 0.1) == [
        "alarm"
    ] * 3  # fmt: skip
    off = MemoryGuard(GuardThresholds(alarm=0, stop=0), foreseen=None)
    assert levels(off, 5, 1, 0.1, swapped=1) == ["fine"] * 3


# Against rows and a real container


@pytest.fixture
def spark(own_redis: None) -> Box:
    made = factories.box("spark-1", hf_cache="~/.cache/huggingface")
    card = {"name": "NVIDIA GB10", "compute_capability": "12.1", "total": int(119.7 * GIB)}
    made.facts = {**made.facts, "gpus": [{"index": 0, "kind": "unified", **card}]}
    made.save()
    return made


def sample(t: float, left: float, kind: str = "unified") -> dict[str, Any]:
    meminfo = {"MemTotal": int(119.7 * GIB), "MemAvailable": int(left * GIB)}
    return {"t": t, "gpus": [{"index": 0, "kind": kind}], "meminfo": meminfo, "swap": None}


@pytest.fixture
def server(spark: Box) -> ManagedServer:
    CheckpointFacts.objects.create(
        box=spark, source="org/m2@main", config=models.MINIMAX_M2, weights=int(60 * GB),
        changed_at=timezone.now(),
    )  # fmt: skip
    return factories.server(
        spark, "m2", engine="vllm", image=ENGINE, checkpoint="org/m2", gpus="none",
        flags=("--gpu-memory-utilization", "0.9"), env={"ENGINE_START": "hang"},
    )  # fmt: skip


@pytest.mark.django_db
def test_what_should_be_left_follows_from_the_estimate(server: ManagedServer) -> None:
    run = factories.run(server, RunState.STARTING, around={"free": 112 * GIB})
    run.version.spec["gpus"] = "all"
    run.version.save()
    run.refresh_from_db()

    left = health.foresee_free(run)

    assert left is not None
    assert left / GIB == pytest.approx(112 - 0.9 * 119.7, abs=0.1)
    run.start.around = {}
    assert health.foresee_free(run) is None


@pytest.mark.django_db
def test_an_alarm_is_on_the_run_for_as_long_as_it_lasts(server: ManagedServer) -> None:
    run = factories.run(server, RunState.STARTING)
    guard = LoadMonitor(server.box)

    guard.step(sample(1, 5.0))
    run.refresh_from_db()
    assert run.start.memory_warning == "The machine has 5.0 GiB left."
    guard.step(sample(2, 50.0))
    run.refresh_from_db()
    assert run.start.memory_warning == ""


@pytest.mark.django_db
def test_a_ready_engine_and_a_discrete_card_are_let_alone(server: ManagedServer) -> None:
    run = factories.run(server, RunState.READY)
    LoadMonitor(server.box).step(sample(1, 1.0))
    Run.objects.update(state=RunState.STARTING)
    LoadMonitor(server.box).step(sample(2, 1.0, kind="discrete"))

    run.refresh_from_db()
    assert (run.wanted, run.start.memory_warning) == (DesiredState.RUNNING, "")


@pytest.fixture
def starting(asking: DockerContainers, server: ManagedServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[ManagedRun]:  # fmt: skip
    monkeypatch.setattr(settings, "BOX_FILE", tmp_path / "box.toml")
    settings.BOX_FILE.write_text(limits.default_text("/home/ada"))
    Box.objects.update(hf_cache="")
    server.refresh_from_db()
    run = lifecycle.start(server, by=None)
    assert run is not None
    lifecycle.advance(run)
    run.refresh_from_db()
    assert run.state == RunState.STARTING, run.failure
    yield run
    asking.remove(run.container_id)


@pytest.mark.docker
@pytest.mark.django_db(transaction=True)
def test_a_load_that_runs_the_machine_out_of_memory_is_killed_at_once(starting: ManagedRun) -> None:
    guard = LoadMonitor(starting.server.box)
    guard.step(sample(1, 30.0))
    guard.step(sample(2, 2.4))

    starting.refresh_from_db()
    assert starting.wanted == DesiredState.STOPPED
    while starting.state == RunState.STOPPING:
        lifecycle.advance(starting)
        starting.refresh_from_db()
    assert starting.state == RunState.FAILED
    assert starting.exit_code in (137, 143)
    assert starting.failure.startswith("The machine has 2.4 GiB left. It falls by 27.6 GiB/s.")
    assert "INFERDASH_LOADING_STOP_GIB" in starting.failure
