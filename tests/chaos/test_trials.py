"""The watcher is killed at every step of a trial: the old version is ready again, unasked."""

from dataclasses import replace

import pytest

from servers.lifecycle.benchmarks import trials
from servers.models import Server, UpgradeTrial
from servers.models.jobs import JobState
from servers.models.runs.run import RunState
from servers.models.trials import TrialDecision, TrialStep
from tests import factories, measurements
from tests.chaos.place import QUICK, ChaosSite

pytestmark = [pytest.mark.docker, pytest.mark.chaos, pytest.mark.takes(240)]

STEPS = (
    TrialStep.CHECK_OLD, TrialStep.LOAD_NEW, TrialStep.MEASURE_NEW, TrialStep.CHECK_NEW,
    TrialStep.GO_BACK, TrialStep.OVER,
)  # fmt: skip
WITHIN = 900.0  # seconds: a check-up takes half a minute, and is repeated where it is not clean


def test_the_watcher_is_killed_at_any_step_of_a_trial(place: ChaosSite) -> None:
    watcher = place.watcher()
    server = place.server("tried")
    old = place.start(server, nudged=False)
    place.waits_for_state(old, RunState.READY)
    slow = {**QUICK, "ENGINE_TOKENS_PER_SECOND": "100"}
    server.profile.save_version(replace(server.profile.launch, env=slow), by=None)

    # What runs is being measured: nothing was changed yet, and nothing is.
    early = trials.ask(Server.objects.get(pk=server.pk), by=factories.person())

    def is_measuring() -> bool:
        early.refresh_from_db()
        made = early.measured_before
        return made is not None and made.job is not None and made.job.state == JobState.DOING

    place.waits_for("what runs is being measured", is_measuring, within=WITHIN, every=0.01)
    place.kill(watcher)
    watcher = place.watcher()
    place.waits_for("the trial is given up", lambda: has_come_to(early, TrialStep.OVER))
    assert early.decision == TrialDecision.ABANDONED, early.said
    assert [each.id for each in place.docker.list_ours()] == [old.container_id]

    # The speed of what runs is given, since a busy machine measures nothing cleanly: without a
    # clean result it would end there. What is loaded is slower, or cannot be told: back.
    fast = measurements.benchmark(Server.objects.get(pk=server.pk), speed=10)
    trial = UpgradeTrial.objects.create(
        box=place.box, server=server, server_name=server.slug, by=factories.person(), old_run=old,
        step=TrialStep.CHECK_OLD, measured_before=fast,
    )  # fmt: skip
    for step in STEPS[:-1]:
        place.waits_for(
            f"it is at {step}", lambda step=step: has_come_to(trial, step), within=WITHIN
        )
        print(f"{step}: killed at {trial.step}")
        place.kill(watcher)
        watcher = place.watcher()
    place.waits_for("it is over", lambda: has_come_to(trial, TrialStep.OVER), within=WITHIN)

    assert trial.decision == TrialDecision.BACK, trial.said
    assert trial.new_run is not None
    assert trial.new_run.launch.env == slow
    now = Server.objects.get(pk=server.pk).run
    assert now is not None
    assert (now.state, now.plan.repeats_id) == (RunState.READY, old.pk)
    assert (now.version_id, now.image_id) == (old.version_id, old.image_id)
    running = [each for each in place.docker.list_ours() if each.state == "running"]
    assert [each.id for each in running] == [now.container_id]


def has_come_to(trial: UpgradeTrial, step: TrialStep) -> bool:
    """Whether it is there, or has passed it before anybody looked."""
    trial.refresh_from_db()
    return trial.step in STEPS and STEPS.index(TrialStep(trial.step)) >= STEPS.index(step)
