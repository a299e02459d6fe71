"""The watcher is killed at every step of a trial: the old version is ready again, unasked."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from servers.lifecycle.benchmarks import commands, trials
from servers.lifecycle.canary import commands as canaries
from servers.models import Benchmark, Canary, Job, Server, UpgradeTrial
from servers.models.jobs import JobState
from servers.models.runs.run import RunState
from servers.models.trials import TrialDecision, TrialStep
from tests import factories, measurements
from tests.chaos.docker_proxy import Step
from tests.chaos.place import QUICK, ChaosSite

pytestmark = [pytest.mark.docker, pytest.mark.chaos, pytest.mark.takes(240)]

# Check-ups of it are under way for much longer than a kill takes.
SLOW = {**QUICK, "ENGINE_TOKENS_PER_SECOND": "150"}
STEPS = (
    TrialStep.MEASURE_OLD, TrialStep.CHECK_OLD, TrialStep.LOAD_NEW, TrialStep.MEASURE_NEW,
    TrialStep.CHECK_NEW, TrialStep.GO_BACK, TrialStep.OVER,
)  # fmt: skip
WITHIN = 600.0  # seconds, of each wait


def test_the_watcher_is_killed_at_any_step_of_a_trial(place: ChaosSite) -> None:
    watcher = place.watcher()
    server = place.server("tried", env=SLOW)
    old = place.start(server, nudged=False)
    place.waits_for_state(old, RunState.READY, within=WITHIN)
    changed = {**SLOW, "ENGINE_SECONDS": "0.2"}
    server.profile.save_version(replace(server.profile.launch, env=changed), by=None)

    def kill_when(what: str, is_so: Callable[[], bool]) -> None:
        nonlocal watcher
        took = place.waits_for(what, is_so, within=WITHIN, every=0.01)
        print(f"{what}: killed after {took:.1f} s")
        place.kill(watcher)
        watcher = place.watcher()

    def die_at(call: Step) -> None:
        nonlocal watcher
        place.kill(watcher)
        place.waits_for_end(place.watcher_killed_at(call))
        watcher = place.watcher()

    # What runs is measured: nothing was changed yet, and it is measured anew.
    ada = factories.person()
    early = trials.ask(Server.objects.get(pk=server.pk), by=ada)
    kill_when("what runs is measured", lambda: is_under_way(early, "measured_before"))
    cut = early.measured_before
    place.waits_for(
        "it is measured anew",
        lambda: is_under_way(early, "measured_before") and early.measured_before != cut,
        within=WITHIN,
    )
    trials.go_back(early, by=ada)
    assert [each.id for each in place.docker.list_ours()] == [old.container_id]

    # How fast what runs is has been measured: a busy machine might have no clean result of it.
    trial = UpgradeTrial.objects.create(
        box=place.box, server=server, server_name=server.slug, by=ada, old_run=old,
        step=TrialStep.CHECK_OLD,
        measured_before=measurements.benchmark(Server.objects.get(pk=server.pk), speed=10),
    )  # fmt: skip
    kill_when("its answers are checked", lambda: is_under_way(trial, "answers_before"))
    kill_when("the new one is loaded", lambda: has_come_to(trial, TrialStep.LOAD_NEW, hurry=True))
    die_at(("POST /containers/create", "after"))
    kill_when("the new one is measured", lambda: is_under_way(trial, "measured_after"))
    kill_when(
        "the new one’s answers are checked",
        lambda: (
            has_come_to(trial, TrialStep.CHECK_NEW, hurry=True)
            and is_under_way(trial, "answers_after")
        ),
    )
    kill_when(
        "the old one is loaded again", lambda: has_come_to(trial, TrialStep.GO_BACK, hurry=True)
    )
    die_at(("POST /containers/ID/start", "before"))
    took = place.waits_for("it is over", lambda: has_come_to(trial, TrialStep.OVER), within=WITHIN)
    print(f"the old one is ready {took:.1f} s after the last watcher’s start")

    assert trial.decision == TrialDecision.BACK, trial.said
    assert trial.new_run is not None
    assert trial.new_run.launch.env == changed
    now = Server.objects.get(pk=server.pk).run
    assert now is not None
    assert (now.state, now.plan.repeats_id) == (RunState.READY, old.pk)
    assert (now.version_id, now.image_id) == (old.version_id, old.image_id)
    assert server.runs.count() == 3, "the old one, the new one, the old one again"
    running = [each for each in place.docker.list_ours() if each.state == "running"]
    assert [each.id for each in running] == [now.container_id]


def is_under_way(trial: UpgradeTrial, column: str) -> bool:
    trial.refresh_from_db()
    made: Benchmark | Canary | None = getattr(trial, column)
    return (
        made is not None and Job.objects.filter(pk=made.job_id or 0, state=JobState.DOING).exists()
    )


def has_come_to(trial: UpgradeTrial, step: TrialStep, *, hurry: bool = False) -> bool:
    """Whether it is there, or has passed it before anybody looked; `hurry`: without a check-up
    that was begun anew, which would take minutes."""
    trial.refresh_from_db()
    is_there = STEPS.index(TrialStep(trial.step)) >= STEPS.index(step)
    if hurry and not is_there:
        for benchmark in Benchmark.objects.filter_open():
            commands.stop(benchmark, by=None)
        for canary in Canary.objects.filter(ended_at=None):
            canaries.stop(canary, by=None)
    return is_there
