"""Check-ups after starts: begun while nobody uses the server, ended for whoever does, told on its page."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from django.utils import timezone

from servers.judge.benchmarks.comparison import SpeedChange, compare_speed
from servers.judge.benchmarks.facts import MeasuredFact, list_changes
from servers.lifecycle.benchmarks import commands
from servers.lifecycle.benchmarks.commands import BenchmarkRequestError
from servers.lifecycle.benchmarks.results import read_points
from servers.lifecycle.benchmarks.subject import refuse
from servers.models import Benchmark, Run

PRESET = "quick"
WITHIN = timedelta(hours=1)  # of the start: later it says nothing of the start
QUIET = timedelta(seconds=20)  # without a request, before it begins
MOST_TRIES = 3  # those that people ended count
# What two check-ups of one server may differ by on their own; the comparison itself is finer.
NOTABLE = 0.05


def is_due(run: Run) -> bool:
    """Whether its profile wants one now. Of a run that is idle; without a query for most."""
    now = timezone.now()
    last = run.health.last_request_at
    return (
        run.version.launch.measure_when_ready
        and run.ready_at is not None
        and now - run.ready_at < WITHIN
        and (last is None or now - last > QUIET)
        and (bool(run.health.first_answer) or not run.version.launch.ask_when_ready)
        and not refuse(run)
    )


def begin(run: Run) -> bool:
    """Whether it goes on from here by itself: it is measured, or has been, or was tried enough."""
    mine = Benchmark.objects.filter(run=run.pk, after_start=True)
    found = list(mine.select_related("job"))
    is_over = any(each.is_open or each.is_clean for each in found) or len(found) >= MOST_TRIES
    if is_over:
        return not any(each.is_open for each in found)
    # Not while another one is under way on the box.
    with suppress(BenchmarkRequestError):
        commands.ask(run.server, PRESET, by=None, after_start=True)
    return False


def give_way(run: Run) -> bool:
    """End the one that is under way, for somebody uses the server; whether there was one."""
    mine = Benchmark.objects.filter(run=run.pk, after_start=True, ended_at=None)
    found = [each for each in mine.select_related("job__box") if each.is_open]
    return any(commands.stop(each, by=None) for each in found)


@dataclass(frozen=True, kw_only=True)
class StartCheck:
    """What a start's check-up found against the last clean result before it; `change` is None
    where there was none."""

    result: Benchmark
    before: Benchmark | None
    change: SpeedChange | None
    changed: tuple[MeasuredFact, ...]

    @property
    def is_slower(self) -> bool:
        change = self.change
        return (
            change is not None
            and change.is_faster is False
            and change.difference.change <= -NOTABLE
        )


def find(run: Run) -> StartCheck | None:
    """Of this run; None where none was measured cleanly."""
    whole = Benchmark.objects.filter_clean()
    result = whole.filter(run=run.pk, after_start=True).first()
    if result is None:
        return None
    earlier = whole.filter(
        version__profile=run.version.profile_id, box=result.box_id, pk__lt=result.pk,
        preset=result.preset, preset_version=result.preset_version,
    ).exclude(run=run.pk)  # fmt: skip
    before = earlier.first()
    if before is None:
        return StartCheck(result=result, before=None, change=None, changed=())
    return StartCheck(
        result=result,
        before=before,
        change=compare_speed(read_points(before), read_points(result)),
        changed=tuple(list_changes(before.measured_on, result.measured_on)),
    )
