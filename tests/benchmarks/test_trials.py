"""Trials of upgrades: each step by the rows alone, killed anywhere, and always with a way back."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from servers.judge.benchmarks.comparison import MeasuredPoint
from servers.judge.benchmarks.points import summarise
from servers.judge.benchmarks.trials import AnswersVerdict, Decision, judge_trial
from servers.lifecycle.benchmarks import trials
from servers.lifecycle.benchmarks.commands import BenchmarkRequestError
from servers.lifecycle.benchmarks.trials import TrialRequestError
from servers.lifecycle.images import inventory
from servers.models import (
    Benchmark,
    Canary,
    Job,
    Role,
    Run,
    Server,
    StoredImage,
    UpgradeTrial,
    User,
)
from servers.models.jobs import JobKind, JobState
from servers.models.runs.run import DesiredState, ManagedServer, RunState
from servers.models.trials import TrialDecision, TrialStep
from tests import factories, measurements
from tests.canary.answered import canary
from tests.cases import Cases, table

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_redis")]

OLD_IMAGE, NEW_IMAGE = "sha256:" + "a" * 64, "sha256:" + "b" * 64


@pytest.fixture
def speeds() -> dict[str, float]:
    """By image, how fast it is; the verdict of its answers stands beside."""
    return {OLD_IMAGE: 1.0, NEW_IMAGE: 1.0}


@pytest.fixture
def verdicts() -> dict[str, str]:
    return {OLD_IMAGE: "pass", NEW_IMAGE: "pass"}


@pytest.fixture
def taints() -> dict[str, tuple[str, ...]]:
    return {}


@pytest.fixture(autouse=True)
def measures(
    monkeypatch: pytest.MonkeyPatch,
    speeds: dict[str, float],
    verdicts: dict[str, str],
    taints: dict[str, tuple[str, ...]],
) -> None:
    """Check-ups that end at once: what they find has tests of its own."""

    def find(server: Server) -> tuple[Server, str]:
        now = Server.objects.get(pk=server.pk)
        assert now.run is not None
        return now, now.run.image_id

    def measure(server: Server, preset: str, *, by: User | None) -> Benchmark:
        now, image = find(server)
        return measurements.benchmark(
            now, preset, speed=speeds[image], by=by, taints=taints.get(image, ())
        )

    def check(server: Server, _set: str, *, by: User | None) -> Canary:
        now, image = find(server)
        return canary(now, by=by, verdict=verdicts[image])

    monkeypatch.setattr("servers.lifecycle.benchmarks.trials.commands.ask", measure)
    monkeypatch.setattr("servers.lifecycle.benchmarks.trials.canaries.ask", check)


@pytest.fixture
def server() -> ManagedServer:
    made = factories.server(factories.box("rtx8"))
    factories.run(made, image_id=OLD_IMAGE)
    return made


@pytest.fixture
def trial(server: ManagedServer) -> UpgradeTrial:
    return trials.ask(server, by=factories.person())


def advance(trial: UpgradeTrial, times: int = 1) -> UpgradeTrial:
    for _time in range(times):
        trials.advance_all(trial.box)
    return UpgradeTrial.objects.with_details().get(pk=trial.pk)


def end_old(trial: UpgradeTrial) -> None:
    """The watcher and Docker stop the run that is to be stopped."""
    active = Run.objects.active().filter(server=trial.server)
    active.exclude(wanted=DesiredState.RUNNING).move(
        old=list(RunState), new=RunState.STOPPED, ended_at=timezone.now()
    )


def load(trial: UpgradeTrial, state: RunState = RunState.READY, **values: Any) -> Run:
    """What follows is there: the next run, as the stop of the last one has asked for it."""
    end_old(trial)
    assert trial.server is not None
    server = Server.objects.get(pk=trial.server.pk)
    return factories.run(server, state, age=60, **{"image_id": NEW_IMAGE, **values})


def bring_to(trial: UpgradeTrial, step: TrialStep) -> UpgradeTrial:
    """As far as this step, killed and begun anew between any two."""
    for _time in range(20):
        if trial.step == step:
            return trial
        trial = advance(trial)
        if trial.step == TrialStep.LOAD_NEW and step != TrialStep.LOAD_NEW:
            advance(trial)
            load(trial)
    raise AssertionError(f"It stays at {trial.step}.")


def test_what_is_as_fast_and_right_is_kept(trial: UpgradeTrial) -> None:
    found = bring_to(trial, TrialStep.OVER)

    assert found.decision == TrialDecision.KEEP
    assert found.said == "Its answers are right. Speed: no difference that can be told."
    assert found.new_run is not None
    assert found.new_run.image_id == NEW_IMAGE


@pytest.mark.parametrize(
    ("speed", "verdict", "said"),
    [
        (0.82, "pass", "It is 18 % slower, more than the 5 % that are put up with."),
        (1.2, "wrong", "Its answers are wrong where the old one’s were right."),
        (1.0, "changed", "Its answers have changed. Speed: no difference that can be told."),
    ],
)
def test_what_is_worse_goes_back_to_what_ran(
    trial: UpgradeTrial,
    speeds: dict[str, float],
    verdicts: dict[str, str],
    speed: float,
    verdict: str,
    said: str,
) -> None:
    speeds[NEW_IMAGE], verdicts[NEW_IMAGE] = speed, verdict

    found = bring_to(trial, TrialStep.GO_BACK)
    assert (found.decision, found.said) == (TrialDecision.BACK, said)
    advance(trial)
    end_old(trial)
    advance(trial)

    run = Run.objects.select_related("plan").latest("pk")
    assert (run.plan.repeats_id, run.plan.pinned_image) == (trial.old_run_id, OLD_IMAGE)
    assert run.state == RunState.QUEUED
    assert advance(trial).is_open
    Run.objects.filter(pk=run.pk).move(
        old=[RunState.QUEUED], new=RunState.READY, ready_at=timezone.now()
    )
    found = advance(trial)
    assert (found.step, found.decision, found.said) == (TrialStep.OVER, TrialDecision.BACK, said)


def fails(trial: UpgradeTrial) -> None:
    load(trial, RunState.FAILED, failure="CUDA out of memory.")


def dies(trial: UpgradeTrial) -> None:
    run = load(trial)
    advance(trial)
    Run.objects.filter(pk=run.pk).move(
        old=[RunState.READY], new=RunState.FAILED, ended_at=timezone.now()
    )


def hangs(trial: UpgradeTrial) -> None:
    load(trial, RunState.STARTING)
    UpgradeTrial.objects.update(moved_at=timezone.now() - timedelta(hours=30))


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        (fails, "It did not become ready. CUDA out of memory."),
        (dies, "It ended, or did not answer any more, while it was measured."),
        (hangs, "It took too long to become ready."),
    ],
)
def test_what_does_not_serve_goes_back(
    trial: UpgradeTrial, trouble: Callable[[UpgradeTrial], None], said: str
) -> None:
    bring_to(trial, TrialStep.LOAD_NEW)
    advance(trial)
    trouble(trial)

    found = advance(trial)
    assert (found.step, found.said) == (TrialStep.GO_BACK, said)
    advance(trial)
    end_old(trial)
    advance(trial)
    assert Run.objects.latest("pk").plan.repeats_id == trial.old_run_id


def test_a_person_decides_at_any_time(server: ManagedServer, trial: UpgradeTrial) -> None:
    ben = factories.person("ben", Role.OPERATOR)
    trials.go_back(trial, by=ben)
    first = advance(trial)
    assert (first.decision, first.decided_by) == (TrialDecision.ABANDONED, ben)
    assert Run.objects.count() == 1, "nothing was stopped"

    second = bring_to(trials.ask(server, by=ben), TrialStep.MEASURE_NEW)
    trials.keep(second, by=ben)
    assert advance(second).decision == TrialDecision.KEEP
    with pytest.raises(TrialRequestError, match="It is over"):
        trials.go_back(advance(second), by=ben)


def test_the_person_who_stops_the_server_has_the_last_word(trial: UpgradeTrial) -> None:
    found = bring_to(trial, TrialStep.MEASURE_NEW)
    Run.objects.filter(pk=found.new_run_id or 0).write(
        stopped_by=factories.person("ben"), wanted=DesiredState.STOPPED
    )

    found = advance(trial)

    assert (found.step, found.decision) == (TrialStep.OVER, TrialDecision.ABANDONED)
    assert found.said == "ben has stopped it."


def test_one_at_a_time_and_only_what_can_be_brought_back(server: ManagedServer) -> None:
    ada = factories.person()
    trials.ask(server, by=ada)
    with pytest.raises(TrialRequestError, match="Another trial is under way on rtx8"):
        trials.ask(server, by=ada)
    other = factories.server(factories.box("spark"), "glm-5")
    with pytest.raises(TrialRequestError, match="It is not ready: start it first"):
        trials.ask(other, by=ada)
    factories.run(other, image_id="")
    with pytest.raises(TrialRequestError, match="Nobody knows which image it runs"):
        trials.ask(other, by=ada)


def test_another_check_up_is_waited_for_and_not_for_ever(
    trial: UpgradeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object, **_named: object) -> None:
        raise BenchmarkRequestError("Another check-up is under way on rtx8.")

    monkeypatch.setattr("servers.lifecycle.benchmarks.trials.commands.ask", refuse)
    assert advance(trial, 3).step == TrialStep.MEASURE_OLD

    UpgradeTrial.objects.update(moved_at=timezone.now() - timedelta(hours=1))
    found = advance(trial)

    assert (found.decision, found.said) == (
        TrialDecision.ABANDONED,
        "Another check-up is under way on rtx8.",
    )


def test_what_cannot_be_measured_cleanly_is_not_stopped(
    trial: UpgradeTrial, taints: dict[str, tuple[str, ...]]
) -> None:
    taints[OLD_IMAGE] = ("benchmarks.others",)

    found = bring_to(trial, TrialStep.OVER)

    assert (found.decision, found.said) == (
        TrialDecision.ABANDONED,
        "What runs could not be measured cleanly. People use it. Try again when it is idle. "
        "Nothing was changed.",
    )
    assert Run.objects.get().wanted == DesiredState.RUNNING

    taints[OLD_IMAGE] = ("benchmarks.client-lag",)
    server = Server.objects.get()
    found = bring_to(trials.ask(server, by=factories.person()), TrialStep.OVER)
    assert "cleanly. Why: limited by the client. Nothing" in found.said


def test_the_new_one_is_measured_three_times_for_a_clean_result(
    trial: UpgradeTrial, taints: dict[str, tuple[str, ...]]
) -> None:
    taints[NEW_IMAGE] = ("benchmarks.others",)

    found = bring_to(trial, TrialStep.GO_BACK)

    assert Benchmark.objects.filter(run=found.new_run).count() == 3
    assert found.said == "Its speed could not be compared, as no clean point is in both results."


def test_what_was_cut_off_with_its_watcher_is_done_again_and_not_for_ever(
    server: ManagedServer, trial: UpgradeTrial
) -> None:
    with Cases() as cases:
        for step, column, model in (
            (TrialStep.MEASURE_OLD, "measured_before", Benchmark),
            (TrialStep.CHECK_OLD, "answers_before", Canary),
            (TrialStep.CHECK_NEW, "answers_after", Canary),
        ):
            with cases.named(step):
                trial = bring_to(trial, step)
                for tries in (1, 2, 3):
                    if getattr(trial, column) is None:
                        trial = advance(trial)
                    made = getattr(trial, column)
                    cut_off(made)
                    trial = advance(trial)
                    assert (getattr(trial, column) is None) == (tries < 3)
                    assert model.objects.filter(server=server).latest("pk") == made
                assert trial.step != step


def cut_off(made: Benchmark | Canary) -> None:
    """As by the end of its watcher."""
    assert made.box is not None
    job = Job.objects.create(
        box=made.box, kind=JobKind.BENCHMARK, state=JobState.FAILED, result={"was_cut": True}
    )
    type(made).objects.filter(pk=made.pk).update(job=job)


def test_the_old_image_stays_while_the_trial_may_need_it(trial: UpgradeTrial) -> None:
    StoredImage.objects.create(
        box=trial.box, image_id=OLD_IMAGE, size=1, engine="vllm", tags=["vllm/vllm-openai:old"]
    )
    bring_to(trial, TrialStep.MEASURE_NEW)
    [fate] = [each for each in inventory.fates(trial.box) if each.image.image_id == OLD_IMAGE]
    assert not fate.may_go

    bring_to(advance(trial), TrialStep.OVER)
    [fate] = [each for each in inventory.fates(trial.box) if each.image.image_id == OLD_IMAGE]
    assert "trial" not in fate.why


def test_pages_tell_what_it_costs_how_far_it_is_and_what_it_found(server: ManagedServer) -> None:
    client = factories.log_in(factories.person("ben", Role.OPERATOR))
    launch = replace(server.profile.launch, image="lmsysorg/sglang:v0.99.0")
    server.profile.save_version(launch, by=None)

    tab = client.get(f"/servers/{server.slug}/check-up/").content.decode()
    assert "The profile has changed since this start." in tab
    plan = client.get(f"/servers/{server.slug}/try/").content.decode()
    assert "v0.99.0" in plan
    assert "the last load took" in plan
    assert "Nobody has used it through the gateway in the last hour." in plan
    begun = client.post(f"/servers/{server.slug}/try/")
    trial = UpgradeTrial.objects.get()
    assert begun["Location"] == f"/trials/{trial.pk}/"

    bring_to(trial, TrialStep.MEASURE_NEW)
    page = client.get(begun["Location"]).content.decode()
    assert page.count('<span class="badge ready">done</span>') == 3
    assert "Go back now" in page
    client.post(f"/trials/{trial.pk}/decide/", {"decision": "keep"})
    page = client.get(begun["Location"]).content.decode()
    assert "A person decided to keep it. (ben)" in page
    assert "Go back now" not in page


# Of llama.cpp on two cores beside other programs: tokens a second of one person and of all together,
# by the number of people. Its rounds lie ten times as far apart as those of an idle machine.
RECORDED: dict[str, list[tuple[float, float]]] = json.loads(
    (Path(__file__).parent / "recorded/rounds.json").read_text()
)


def draw(chance: random.Random, speed: float, *, is_calm: bool) -> list[MeasuredPoint]:
    """Of the quick check-up: recorded rounds, or such as an idle server's differ by."""
    found = []
    base = summarise([measurements.timing(100.0, 0.1, 0.0, 16, 200)], concurrency=1)
    for name, concurrency in (("One person", 1), ("People at once", 8)):
        if is_calm:
            shares = [chance.gauss(1.0, 0.012) for _round in range(3)]
            rates = [(100 * share, 90 * concurrency * share) for share in shares]
        else:
            rates = chance.choices(RECORDED[str(concurrency)], k=3)
        figures = [
            replace(base, user_rate=speed * alone, output_rate=speed * together)
            for alone, together in rates
        ]
        found.append(
            MeasuredPoint(
                name=name, concurrency=concurrency, prompt_tokens=200, output_tokens=64,
                rounds=tuple(figures), taints=(),
            )
        )  # fmt: skip
    return found


@table(
    ("is_calm", "speed", "answers", "decision", "least", "most"),
    [
        (True, 1.0, "pass", "back", 0, 10),  # equal builds are accused in at most 1 %
        (True, 1.0, "pass", "keep", 900, 1000),
        (True, 0.9, "pass", "back", 950, 1000),  # 10 % slower is found in at least 95 %
        (True, 1.3, "wrong", "back", 1000, 1000),
        (False, 1.0, "pass", "back", 0, 10),
        (False, 0.9, "pass", "keep", 0, 50),  # what cannot be told is not kept either
        (False, 1.0, "wrong", "back", 1000, 1000),
    ],
)
def test_a_thousand_trials(
    is_calm: bool,
    speed: float,
    answers: AnswersVerdict,
    decision: Decision,
    least: int,
    most: int,
) -> None:
    chance = random.Random(20)  # noqa: S311 - noise, no secrets
    found = [
        judge_trial(
            draw(chance, 1.0, is_calm=is_calm), draw(chance, speed, is_calm=is_calm),
            answers=answers, most_loss=0.05,
        ).decision
        for _trial in range(1000)
    ]  # fmt: skip

    assert least <= found.count(decision) <= most
