"""A deadlock is known by its GPUs: busy, and nothing moves."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from servers.judge.runs import health as runs_spinning
from servers.models import Run
from servers.models.runs.run import RunState
from servers.watcher.runs.start_tracker import StartTracker
from tests import factories, samples
from tests.cases import table
from tests.runs.test_phases import started
from tests.runs.test_starts import fresh, page, starting_run, write

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
WEDGED: dict[str, Any] = {"util": 96, "mem_util": 0, "power_w": 118.0}
WEDGED_GB10: dict[str, Any] = {"util": 96, "power_w": 18.0, "sm_mhz": 2400}


def minutes(count: float) -> datetime:
    return NOW - timedelta(minutes=count)


@table(
    ("card", "says"),
    [
        (samples.card(0, [(1, 60.0)], **WEDGED), True),
        (samples.card(0, [(1, 60.0)], util=96, mem_util=42, power_w=410.0), False),
        (samples.card(0, [(1, 60.0)], util=96, mem_util=1, power_w=410.0), False),
        (samples.card(0, [(1, 60.0)], util=12, mem_util=0, power_w=90.0), False),
        (samples.card(0, [(1, 60.0)], util=None), None),
        (samples.card(0, [(1, 60.0)], util=96, mem_util=None), None),
        (samples.card(0, [(1, 60.0)], util=96, mem_util=0, power_w=None), True),
        (samples.unified(50.0, [(1, 60.0)], **WEDGED_GB10), True),
        (samples.unified(50.0, [(1, 60.0)], util=96, power_w=45.0, sm_mhz=2400), False),
        # Held back by its firmware, which only taking the mains away cures: no deadlock.
        (samples.unified(50.0, [(1, 60.0)], util=96, power_w=19.5, sm_mhz=799), False),
        (samples.unified(50.0, [(1, 60.0)], util=96, power_w=None), None),
    ],
)
def test_one_card_tells_whether_it_only_spins(card: dict[str, Any], says: bool | None) -> None:
    assert runs_spinning.spins(card) is says


def test_every_card_has_to_spin() -> None:
    wedged = samples.card(0, [(1, 60.0)], **WEDGED)
    assert runs_spinning.all_spin([wedged, wedged])
    assert not runs_spinning.all_spin([wedged, samples.card(1, [(2, 60.0)], util=50)])
    assert not runs_spinning.all_spin([wedged, samples.card(1, [(2, 60.0)], util=None)])
    assert not runs_spinning.all_spin([])


@pytest.mark.parametrize(
    ("spinning", "heard", "unified", "says"),
    [
        (3, 5, False, True),
        (1, 5, False, False),
        (3, 1, False, False),
        (3, 5, True, False),
        (12, 12, True, True),
        (3, None, False, True),
        (None, 60, False, False),
    ],
)
def test_a_deadlock_is_long_and_silent(
    spinning: float | None, heard: float | None, unified: bool, says: bool
) -> None:
    since = None if spinning is None else minutes(spinning)
    last = None if heard is None else minutes(heard)
    assert runs_spinning.is_stuck(since, last, unified=unified, now=NOW) is says


def test_words_and_remedy_name_the_place_and_the_engines_flag() -> None:
    assert runs_spinning.describe_spinning("capturing", cards=2) == (
        "looks like a collective deadlock in graph capture"
    )
    assert runs_spinning.describe_spinning("", cards=1) == "looks like a deadlock while it serves"
    assert "--disable-cuda-graph" in runs_spinning.name_spinning_remedy(
        "sglang", "capturing", unified=True
    )
    assert "NCCL 2.30.4" in runs_spinning.name_spinning_remedy("sglang", "capturing", unified=True)
    assert "--enforce-eager" in runs_spinning.name_spinning_remedy(
        "vllm", "capturing", unified=False
    )
    assert "NCCL_P2P_LEVEL=PHB" in runs_spinning.name_spinning_remedy(
        "vllm", "connecting", unified=False
    )
    assert "NCCL_P2P_LEVEL" not in runs_spinning.name_spinning_remedy(
        "vllm", "connecting", unified=True
    )


def sample_of(run: Run, **values: Any) -> dict[str, Any]:
    cards = [samples.card(index, [(100 + index, 60.0)], **values) for index in range(2)]
    processes = [samples.process(100 + index, run.container_id) for index in range(2)]
    return samples.sample(cards, processes)


@pytest.mark.django_db(transaction=True)
def test_a_start_whose_gpus_spin_is_said_to_be_stuck(own_redis: object) -> None:
    on = factories.server(factories.box(), model="gpt-oss-120b")
    run = starting_run(on, ago=900)
    lines = started("vllm")
    cut = next(place for place, line in enumerate(lines) if "Capturing" in line)
    write(run, lines[: cut + 1], from_at=timezone.now() - timedelta(minutes=8))
    watched = StartTracker()
    watched.look(fresh(run))
    watched.judge(fresh(run), sample_of(run, **WEDGED))
    assert fresh(run).health.spins_since is not None
    assert "Stuck:" not in page(on), "two minutes have not passed"

    Run.objects.filter(pk=run.pk).write(health__spins_since=timezone.now() - timedelta(minutes=5))
    watched.judge(fresh(run), sample_of(run, **WEDGED))
    for path in ("/", ""):
        said = page(on, path)
        assert "Stuck:</strong> looks like a collective deadlock in graph capture" in said
        assert "--enforce-eager" in said
    assert "is stuck: looks like a collective deadlock in graph capture" in page(on)

    watched.judge(fresh(run), sample_of(run, util=97, mem_util=40, power_w=420.0))
    assert fresh(run).health.spins_since is None
    assert "Stuck:" not in page(on)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("tokens", "says"), [(0.0, True), (52.0, False), (None, False)])
def test_a_server_that_owes_tokens_and_makes_none_is_stuck(
    own_redis: object, tokens: float | None, says: bool
) -> None:
    on = factories.server(factories.box(), model="gpt-oss-120b")
    run = factories.run(on, RunState.READY, requests_running=2, tokens_per_second=tokens)
    StartTracker().judge(fresh(run), sample_of(run, **WEDGED))
    assert (fresh(run).health.spins_since is not None) is says
