"""Page of one server: its head, and what each of its tabs shows of one run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.template.loader import render_to_string

from servers.contexts.benchmarks.results import find_checkup
from servers.contexts.runs.published import find_published_port
from servers.judge.logs import parsing
from servers.launch.engines.change import compare_launches
from servers.lifecycle.logs import diagnoses
from servers.models import LogChunk, PromptRun, Run, Server, User
from servers.models.runs.run import PARTS, RunState

type Key = tuple[str, int | None]

RUNS = 50  # in the table
LINES = 4  # of the end of a log
_LEVELS = {parsing.Level.ERROR: "error", parsing.Level.WARNING: "warn"}
_WITH = ("started_by", "stopped_by", "version", *PARTS)


@dataclass(frozen=True, kw_only=True)
class TailLine:
    """A line of the end of a log, without what an engine writes before each."""

    number: int | None  # None: it is not stored, Docker gave it when the container ended
    level: str  # "error", "warn", or ""
    text: str


@dataclass(frozen=True, kw_only=True)
class ServerTab:
    """`name` is its own in urls.py, and of the page in the socket's address."""

    name: str
    title: str
    template: str
    more: Callable[[Server, Run | None], Mapping[str, Any]] = lambda server, run: {}
    is_live: bool = False  # the socket sends what it shows; the others keep themselves new


def _find_overview(server: Server, run: Run | None) -> Mapping[str, Any]:
    rounds = PromptRun.objects.filter(run=run).select_related("prompt_set", "by")
    return {"last_lines": _find_last_lines(run), "rounds": rounds}


def _find_last_lines(run: Run | None) -> list[TailLine]:
    """What its log said last, where that tells how its start does or why it failed."""
    if run is None or run.state not in (RunState.STARTING, RunState.FAILED):
        return []
    lines: list[tuple[int | None, str]] = [
        (line.number, line.text) for line in LogChunk.objects.tail(run.pk, LINES)
    ]
    lines = lines or [(None, text) for text in run.log.last_lines[-LINES:]]
    levels = parsing.levels(text for _number, text in lines)
    return [
        TailLine(number=number, level=_LEVELS.get(level, ""), text=_strip_prefixes(text))
        for (number, text), level in zip(lines, levels, strict=True)
    ]


def _strip_prefixes(line: str) -> str:
    said = parsing.parse_line(line)
    return said[-1].text if said else ""


def _find_configuration(server: Server, run: Run | None) -> Mapping[str, Any]:
    newest = server.profile.current
    if newest is None or run is None or run.version_id == newest.pk:
        return {"newest": newest}
    found = compare_launches(run.version.launch, newest.launch)
    return {"newest": newest, "differences": found}


def _find_runs(server: Server, run: Run | None) -> Mapping[str, Any]:
    return {"runs": list(server.runs.select_related(*_WITH)[:RUNS]), "most_runs": RUNS}


TABS = (
    ServerTab(
        name="server",
        title="Overview",
        template="runs/tabs/overview.html",
        more=_find_overview,
        is_live=True,
    ),
    ServerTab(name="server_log", title="Log", template="runs/tabs/log.html"),
    ServerTab(
        name="server_metrics", title="Metrics", template="runs/tabs/metrics.html", is_live=True
    ),
    ServerTab(
        name="server_checkup",
        title="Check-up",
        template="runs/tabs/checkup.html",
        more=find_checkup,
    ),
    ServerTab(
        name="server_configuration",
        title="Configuration",
        template="runs/tabs/configuration.html",
        more=_find_configuration,
        is_live=True,
    ),
    ServerTab(name="server_runs", title="Runs", template="runs/tabs/runs.html", more=_find_runs),
)
BY_NAME = {tab.name: tab for tab in TABS}


def build_context(
    server: Server, run: Run | None, person: User, host: str, tab: ServerTab
) -> dict[str, Any]:
    """What a tab shows of one of its runs, to who opened it by this host."""
    has_failed = run is not None and run.state == RunState.FAILED
    return {
        "server": server,
        "run": run,
        "person": person,
        "is_latest": run == server.run,
        "published": find_published_port(run, server.box.slug, host),
        "launch": run.launch if run is not None else server.launch,
        "failure": diagnoses.explain_failure(run, person) if run and has_failed else None,
        "tab": tab,
        **tab.more(server, run),
    }


def render_parts(keys: set[Key], person: User, page: str, pk: int | None, host: str) -> list[str]:
    """For a browser that shows a tab of this server's latest run."""
    tab = BY_NAME.get(page)
    if tab is None or pk is None:
        return []
    # Its profile is among what its page shows.
    if not keys & {("server", pk), ("servers", None), ("everything", None)}:
        return []
    server = Server.objects.with_details().filter(pk=pk).first()
    if server is None:
        return []
    shown = build_context(server, server.run, person, host, tab)
    return [render_to_string("runs/_live_page.html", shown)]
