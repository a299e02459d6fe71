"""Metrics of engines, as words and sparklines."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django import template

from servers.judge.profiles import lint
from servers.judge.profiles.facts import LaunchFacts, LintFinding, Subject
from servers.judge.profiles.lint_rules import LintRule
from servers.judge.runs import metrics
from servers.judge.runs.metrics import Figures
from servers.launch.engines.change import LaunchChange
from servers.models import Run, Server
from servers.state import samples
from servers.state.samples import EngineMetrics
from servers.templatetags.format import DASH, duration

register = template.Library()

WIDTH, HEIGHT = 120, 20  # of the small line, in its own units
SHORTEST = 12  # points over which it is spread at least: two minutes
# In the order of POINT in static/js/runs/engine-charts.js.
POINT = (
    *("generation", "prompt", "running", "queued", "first_p50", "first_p95"),
    *("token_p50", "token_p95", "kv", "prefix"),
)
ALL = "all_told"  # under which a page with many servers has them all


@register.simple_tag(takes_context=True)
def told_of_all(context: dict[str, Any], servers: Iterable[Server]) -> str:
    """Ask for all at once what told_of wants of each."""
    context[ALL] = samples.figures_by_run(server.run for server in servers)
    return ""


@register.simple_tag(takes_context=True)
def told_of(context: dict[str, Any], run: Run | None) -> EngineMetrics | None:
    every: Mapping[int, EngineMetrics] | None = context.get(ALL)
    if every is None:
        return samples.figures_of(run)
    return every.get(run.pk) if run is not None else None


@register.simple_tag
def figures_now(run: Run, told: EngineMetrics | None) -> Figures:
    """What the engine told last; of one that tells nothing, what is known of its run."""
    if told is not None:
        return told.figures
    health = run.health
    return Figures(running=health.requests_running, generation=health.tokens_per_second)


@register.filter
def tokens(per_second: float | None) -> str:
    """ "0", "7.4", "1240"; "–" where that is not known."""
    if per_second is None:
        return DASH
    return f"{per_second:.1f}" if 0 < per_second < 9.95 else f"{per_second:.0f}"


@register.filter
def requests(count: float | None) -> str:
    return DASH if count is None else f"{count:.0f}"


@register.filter
def told_at(told: EngineMetrics) -> datetime:
    return datetime.fromtimestamp(told.at, UTC)


@register.filter
def latency(seconds: float | None) -> str:
    """ "157 ms", "2.4 s"; "–" where that is not known."""
    if seconds is None:
        return DASH
    return f"{seconds * 1000:.3g} ms" if seconds < 0.9995 else duration(seconds)


@register.filter
def share(part: float | None) -> str:
    """Of a whole, "62 %"."""
    return DASH if part is None else f"{part * 100:.0f} %"


@register.filter
def chart_point(told: EngineMetrics) -> str:
    """For <engine-charts>: the time, and the figures in the order of its POINT."""
    values: Iterable[float | None] = (getattr(told.figures, name) for name in POINT)
    words = ("" if each is None else f"{each:.6g}" for each in values)
    return ",".join([f"{told.at:.0f}", *words])


@dataclass(frozen=True, kw_only=True)
class Sparkline:
    """A path of tokens a second, and what it says in words."""

    path: str
    words: str
    width: int = WIDTH
    height: int = HEIGHT


@register.filter
def small_line(told: EngineMetrics) -> Sparkline | None:
    """None while there is nothing but silence to draw."""
    most = max((each for each in told.line if each is not None), default=0.0)
    if most <= 0:
        return None
    # All of the width after its first minutes: a line that has just begun would be a dot in a corner.
    step = WIDTH / (max(len(told.line), SHORTEST) - 1)
    begins = WIDTH - step * (len(told.line) - 1)
    words, is_down = [], False
    for place, each in enumerate(told.line):
        if each is None:
            is_down = False
            continue
        y = HEIGHT - 1 - each / most * (HEIGHT - 2)
        words.append(f"{'L' if is_down else 'M'}{begins + place * step:.1f} {y:.1f}")
        is_down = True
    minutes = math.ceil(len(told.line) * metrics.FINEST / 60)
    span = "minute" if minutes == 1 else f"{minutes} minutes"
    said = f"Generated tokens a second in the last {span}, at most {tokens(most)}"
    return Sparkline(path="".join(words), words=said)


@dataclass(frozen=True, kw_only=True)
class Advice:
    """Why an engine tells no figures of its own. `fix`: what would make it; None: the profile says
    so already, for the next start, or nothing does."""

    says: str
    rule: str
    about: str
    fix: LaunchChange | None
    is_saved: bool


@register.simple_tag
def silence(server: Server, run: Run) -> Advice | None:
    """What is known of why its metrics are off; None: nothing."""
    book = metrics.by_engine().get(run.version.launch.engine)
    rule = lint.rules().get(book.rule) if book is not None else None
    if not isinstance(rule, LintRule):
        return None
    found = rule.judge(LaunchFacts(Subject(launch=run.version.launch)))
    if found is None:
        return None
    now: LintFinding | None = rule.judge(LaunchFacts(Subject(launch=server.profile.launch)))
    return Advice(
        says=found.says,
        rule=found.rule,
        about=found.about,
        fix=now.fix if now is not None else None,
        is_saved=now is None,
    )
