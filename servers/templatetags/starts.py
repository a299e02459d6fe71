"""Progress of starts, for cards and pages."""

from django import template
from django.utils import timezone

from servers.judge.logs.phases import PHASES
from servers.judge.runs.start_chart import ChartedStart as Charted
from servers.judge.runs.start_chart import StartBar
from servers.judge.runs.start_progress import StartProgress
from servers.launch.engines.change import Difference
from servers.models import Box, Run
from servers.templatetags.format import duration
from servers.templatetags.launches import field_title

register = template.Library()


@register.filter
def starting_on(run: Run, box: Box) -> StartProgress | None:
    """Where the run's start on this box is; None before its container started."""
    return run.where_it_starts(run.version.launch, unified=box.is_unified)


@register.filter
def stuck_on(run: Run, box: Box) -> tuple[str, str]:
    """What a deadlock of the run looks like and what to do; two "" where there is none."""
    return run.stuck_words(run.version.launch.engine, unified=box.is_unified)


@register.filter
def parts_words(start: Charted) -> str:
    """ "pulling 12 s, loading weights 3 min 2 s"; "" where the parts are not known."""
    known = {name: seconds for name, seconds in start.parts.items() if seconds >= 0.5}
    return ", ".join(f"{PHASES.get(name, name)} {duration(took)}" for name, took in known.items())


@register.filter
def start_words(bar: StartBar) -> str:
    """What a bar of the chart says to who points at it."""
    start = bar.start
    came = "ready" if start.is_ready else "failed"
    lines = [f"{came} after {duration(start.took)}", f"version {start.version} on {start.box}"]
    return "\n".join([*lines, parts_words(start).replace(", ", "\n")]).strip()


@register.filter
def span_short(seconds: float) -> str:
    """A round time beside an axis: "30 s", "5 min", "2 h"."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s" if seconds else "0"


@register.filter
def short_difference(difference: Difference) -> str:
    """A change in a line: "--max-model-len 32768 → 16384", "+ NCCL_DEBUG=INFO", "− --fp8"."""
    name, sign = difference.name, "=" if difference.part == "env" else " "
    if not name.startswith("-") and difference.part != "env":
        name = f"{field_title(name)}:"
    before, after = (_one_line(each) for each in (difference.before, difference.after))
    if before is None:
        return f"+ {name}{sign}{after}".rstrip("= ")
    if after is None:
        return f"− {name}{sign}{before}".rstrip("= ")
    return f"{name}{sign}{before or 'set'} → {after or 'set'}"


def _one_line(text: str | None) -> str | None:
    return None if text is None else " ".join(text.split("\n"))


@register.filter
def how_far(run: Run) -> str:
    """The phase in which a start ended or is, with its percent; of a ready one how long it took."""
    if run.ready_at is not None:
        served = (run.ended_at or timezone.now()) - run.ready_at
        return f"ready after {duration(run.time_to_ready)}, served {duration(served)}"
    last = next((step for step in reversed(run.steps) if step.began is not None), None)
    if last is None:
        return ""
    percent = run.progress.percent if last.words else None
    words = last.words or last.state
    return f"{words}, {percent} %" if percent is not None else words
