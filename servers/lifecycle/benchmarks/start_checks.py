"""Check-ups after starts: begun while nobody uses the server, ended for whoever does, told on its page."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache

from django.db.models import Max
from django.utils import timezone

from servers.judge.alerts.case import AlertCase
from servers.judge.benchmarks.comparison import SpeedChange, compare_speed
from servers.judge.benchmarks.facts import MeasuredFact, list_changes
from servers.judge.messages import Sentence, say
from servers.lifecycle.benchmarks import commands
from servers.lifecycle.benchmarks.commands import BenchmarkRequestError
from servers.lifecycle.benchmarks.results import read_points
from servers.lifecycle.benchmarks.subject import refuse
from servers.models import Benchmark, Run, Server
from servers.models.runs.run import RunState

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
    result = Benchmark.objects.filter_clean().filter(run=run.pk, after_start=True).first()
    return None if result is None else _compare(result, run)


def _compare(result: Benchmark, run: Run) -> StartCheck:
    earlier = Benchmark.objects.filter_clean().filter(
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


def list_cases(servers: Sequence[Server]) -> Iterator[AlertCase]:
    """Alert cases of servers of one box whose start made them slower, with their newest run.

    Of each the newest clean check-up counts: a later one that is as fast as usual ends the alert.
    """
    ready = {each.run_id: each for each in servers if each.run and each.run.state == RunState.READY}
    of_runs = Benchmark.objects.filter_clean().filter(run__in=ready, preset=PRESET)
    checked = of_runs.filter(after_start=True).order_by().values("run")
    newest = of_runs.filter(run__in=checked).order_by().values("run").annotate(last=Max("pk"))
    for result in Benchmark.objects.filter(pk__in=newest.values("last")):
        server = ready[result.run_id]
        run = server.run
        assert run is not None
        if (said := _describe_slowness(result.pk, server.slug, server.box.slug)) is not None:
            yield AlertCase.from_sentence(
                said, kind="slower", subject=server.slug, run=run.pk,
                began=result.ended_at.timestamp() if result.ended_at else None,
            )  # fmt: skip


@lru_cache(maxsize=256)
def _describe_slowness(result: int, server: str, box: str) -> Sentence | None:
    """None where it is as fast as usual. A result does not change, and is looked at every few
    seconds."""
    found = Benchmark.objects.select_related("run__version").get(pk=result)
    assert found.run is not None
    check = _compare(found, found.run)
    if not check.is_slower or check.change is None or check.before is None:
        return None
    changes = ", ".join(f"{each.name} {' → '.join(each.short_values)}" for each in check.changed)
    advice = (
        say("benchmarks.slower-since", changes=changes)
        if changes
        else say("benchmarks.slower-unexplained")
    )
    return say(
        "benchmarks.slower-than-usual",
        run=f"{server} on {box}",
        change=check.change.words,
        before=f"{timezone.localtime(check.before.asked_at):%-d %b %H:%M}",
        advice=advice.text,
    )
