"""The page contexts of trials: what one would do and cost, how far one is, and what it found."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.utils import timezone

from servers.judge.benchmarks.facts import list_changes
from servers.launch.engines.change import Difference, compare_launches
from servers.lifecycle.benchmarks.subject import refuse
from servers.models import Benchmark, Canary, Request, Run, Server, TagNews, UpgradeTrial
from servers.models.runs.run import DesiredState, RunState
from servers.models.trials import TrialDecision, TrialStep

LATELY = timedelta(hours=1)
_BADGES = {
    TrialDecision.KEEP: "ready",
    TrialDecision.BACK: "attention",
    TrialDecision.ABANDONED: "",
}


@dataclass(frozen=True, kw_only=True)
class TrialStepRow:
    """`state` is done, now, or to come; the link leads to what the step has found."""

    title: str
    state: str
    benchmark: Benchmark | None = None
    canary: Canary | None = None


@dataclass(frozen=True, kw_only=True)
class TrialPlan:
    """What would be tried, and what it costs people. `loads`: None where nobody knows."""

    differences: list[Difference]
    newer_image: str  # the tag with a newer build; "" where none is known
    loads: timedelta | None
    people: int  # who asked it in the last hour
    model: str  # the name that requests give
    others: list[str]  # servers that take its requests meanwhile

    @property
    def changes(self) -> bool:
        return bool(self.differences or self.newer_image)


def plan_trial(server: Server, run: Run) -> TrialPlan:
    current = server.profile.current
    assert current is not None
    news = TagNews.objects.filter(box=server.box, reference=current.launch.image).first()
    has_newer = news is not None and bool(news.newer_id) and news.newer_id != run.image_id
    asked = Request.objects.filter(server=server.slug, at__gte=timezone.now() - LATELY)
    return TrialPlan(
        differences=compare_launches(run.version.launch, current.launch),
        newer_image=current.launch.image if has_newer else "",
        loads=run.ready_at - run.created_at if run.ready_at and run.saw_start else None,
        model=run.served_name,
        others=_find_others(server, run),
        people=asked.exclude(person=None).order_by().values("person").distinct().count(),
    )


def _find_others(server: Server, run: Run) -> list[str]:
    """Ready ones to which the gateway sends requests for the same name."""
    same = Server.objects.filter(
        removed_at=None, run__state=RunState.READY, run__wanted=DesiredState.RUNNING,
        run__served_name=run.served_name, box=server.box,
    )  # fmt: skip
    return list(same.exclude(pk=server.pk).order_by("slug").values_list("slug", flat=True))


def find_trial(server: Server, run: Run | None) -> dict[str, Any]:
    """What the Check-up tab of a server shows of trials."""
    latest = server.trials.with_details().first()
    found: dict[str, Any] = {"trial": latest, "trial_plan": None}
    if run is not None and not refuse(run) and not (latest and latest.is_open):
        plan = plan_trial(server, run)
        found["trial_plan"] = plan if plan.changes else None
    return found


def describe_trial(trial: UpgradeTrial) -> dict[str, Any]:
    """What the page of one shows."""
    before, after = trial.measured_before, trial.measured_after
    return {
        "trial": trial,
        "steps": _list_steps(trial),
        "badge": _BADGES.get(TrialDecision(trial.decision), ""),
        "changes": list_changes(before.measured_on, after.measured_on) if before and after else [],
        "may_keep": trial.runs_new,
        "is_going_back": trial.step == TrialStep.GO_BACK,
    }


def _list_steps(trial: UpgradeTrial) -> list[TrialStepRow]:
    found: dict[TrialStep, tuple[Benchmark | None, Canary | None]] = {}
    if trial.is_patient:
        found[TrialStep.WAIT] = (None, None)
    found |= {
        TrialStep.MEASURE_OLD: (trial.measured_before, None),
        TrialStep.CHECK_OLD: (None, trial.answers_before),
        TrialStep.LOAD_NEW: (None, None),
        TrialStep.MEASURE_NEW: (trial.measured_after, None),
        TrialStep.CHECK_NEW: (None, trial.answers_after),
    }
    if trial.is_twice:
        found |= {
            TrialStep.AGAIN_OLD: (None, None),
            TrialStep.MEASURE_OLD_AGAIN: (trial.measured_before_again, None),
            TrialStep.AGAIN_NEW: (None, None),
            TrialStep.MEASURE_NEW_AGAIN: (trial.measured_after_again, None),
        }
    if trial.decision == TrialDecision.BACK:
        found[TrialStep.GO_BACK] = (None, None)
    order = list(found)
    reached = _count_reached(trial, order)
    return [
        TrialStepRow(
            title=step.label,
            state="done" if place < reached else "now" if trial.step == step else "to come",
            benchmark=found[step][0],
            canary=found[step][1],
        )
        for place, step in enumerate(order)
        if trial.is_open or place < reached
    ]


def _count_reached(trial: UpgradeTrial, order: list[TrialStep]) -> int:
    """Steps that are over: those before its own, or those that left something."""
    if trial.is_open and trial.step != TrialStep.GO_BACK:
        return order.index(TrialStep(trial.step))
    left: dict[TrialStep, object] = {
        TrialStep.WAIT: trial.measured_before,
        TrialStep.MEASURE_OLD: trial.measured_before,
        TrialStep.CHECK_OLD: trial.answers_before,
        TrialStep.LOAD_NEW: trial.new_run,
        TrialStep.MEASURE_NEW: trial.measured_after,
        TrialStep.CHECK_NEW: trial.answers_after,
        TrialStep.AGAIN_OLD: trial.measured_before_again,
        TrialStep.MEASURE_OLD_AGAIN: trial.measured_before_again,
        TrialStep.AGAIN_NEW: trial.measured_after_again,
        TrialStep.MEASURE_NEW_AGAIN: trial.measured_after_again,
    }
    done = next((place for place, step in enumerate(order) if left.get(step) is None), len(order))
    return len(order) if trial.decision == TrialDecision.BACK and not trial.is_open else done
