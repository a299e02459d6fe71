"""Progress of starts, failures and their fixes, for cards and pages."""

import re

from django import template
from django.utils import timezone

from servers.judge.charts import ChartedStart as Charted
from servers.judge.charts import StartBar
from servers.judge.external.engines import Origin
from servers.judge.logs.parsing import LogPatternRemark
from servers.judge.logs.phases.progress import PHASES
from servers.judge.memory import release_words as sentences
from servers.judge.memory.advice import REBOOT
from servers.judge.memory.orphans import Orphan
from servers.judge.profiles.facts import LintFinding
from servers.judge.runs.start_progress import StartProgress
from servers.launch.engines.change import Difference
from servers.lifecycle import gateway, memory
from servers.lifecycle.images import work
from servers.lifecycle.logs.diagnoses import FixStep
from servers.lifecycle.profiles import checks
from servers.lifecycle.runs import starts
from servers.models import Box, Run
from servers.models.jobs import JobKind
from servers.templatetags.format import duration
from servers.templatetags.launches import field_title

register = template.Library()

MOST_PARTS = 3  # of a start, in a line


@register.filter
def starting_on(run: Run, box: Box) -> StartProgress | None:
    """Where the run's start on this box is; None before its container started."""
    return starts.measure_progress(run, run.version.launch, unified=box.is_unified)


@register.filter
def stuck_on(run: Run, box: Box) -> tuple[str, str]:
    """What a deadlock of the run looks like and what to do; two "" where there is none."""
    return starts.describe_deadlock(run, unified=box.is_unified)


register.filter("steps", starts.list_steps)


@register.filter
def start_line(run: Run) -> str:
    """How its start went: "Ready in 14 s: starting the engine 2.3 s, loading weights 5.0 s …"."""
    if not run.saw_start:
        return ""
    parts = [step for step in starts.list_steps(run) if step.state not in ("ready", "stopping")]
    took = [(step.words or step.state, step.took) for step in parts if step.took]
    longest = sorted(took, key=lambda each: each[1], reverse=True)[:MOST_PARTS]
    said = ", ".join(
        f"{words} {duration(span)}" for words, span in took if (words, span) in longest
    )
    if run.ready_at:
        head = f"Ready in {duration(run.time_to_ready)}"
    elif run.ended_at:
        head = f"Ended {duration(run.ended_at - run.began_at)} into its start"
    else:
        return ""
    more = " …" if len(took) > len(longest) else ""
    return f"{head}: {said}{more}" if said else head


@register.filter
def served_seconds(run: Run) -> float | str:
    """For how long it was ready; "" of one that never was."""
    if run.ready_at is None:
        return ""
    return ((run.ended_at or timezone.now()) - run.ready_at).total_seconds()


@register.filter
def served(run: Run) -> str:
    """The same in words."""
    return duration(float(served_seconds(run))) if run.ready_at else ""


@register.filter
def log_remarks(run: Run | None) -> tuple[LogPatternRemark, ...]:
    """What its log has and must not have, or lacks."""
    return starts.find_log_remarks(run) if run else ()


@register.filter
def origin(run: Run | None) -> Origin | None:
    """What made the external container or process, and what would restart it."""
    return Origin.from_json(run.start.origin) if run else None


register.filter("sleep_words", gateway.describe_sleep)
register.filter("sleep_clause", gateway.describe_sleep_clause)
register.filter("release", memory.read_release)


@register.filter
def release_outcome(run: Run) -> str:
    return memory.read_release(run).outcome


@register.filter
def release_words(run: Run | None) -> str:
    """The release in a sentence or two; "" where there is nothing to say."""
    return memory.describe_release(run) if run else ""


@register.filter
def release_short(run: Run) -> str:
    """The release in a few words, for a table."""
    return sentences.short(memory.read_release(run))


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
        return f"ready after {duration(run.time_to_ready)}, served {served(run)}"
    last = next((step for step in reversed(starts.list_steps(run)) if step.began is not None), None)
    if last is None:
        return ""
    percent = starts.read_progress(run).percent if last.words else None
    words = last.words or last.state
    return f"{words}, {percent} %" if percent is not None else words


MOST_KNOWN = 4


@register.filter
def known_of(run: Run, box: Box) -> list[LintFinding]:
    """What is known to go wrong with such a launch, the worst first, some at most."""
    found = checks.findings(run.launch, box, run.server.profile)
    return [each for each in found if each.severity != "info"][:MOST_KNOWN]


register.filter("can_change", work.can_change)


@register.simple_tag
def reboot_command() -> str:
    return REBOOT


@register.filter
def can_be_ended(box: Box) -> list[Orphan]:
    """Processes that engines have left on the box, and that its page would end."""
    found = [Orphan.from_json(said) for said in box.left_behind]
    return [left for left in found if JobKind.KILL in left.actions]


@register.filter
def reclaim_level(step: FixStep) -> int:
    """What is to be dropped by the words of a remedy: 1, 2 or 3, as the kernel counts."""
    named = re.search(r"echo ([123])", step.says)
    return int(named[1]) if named else 3
