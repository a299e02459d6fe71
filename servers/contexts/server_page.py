"""Page of one server: its head, its published port, and what each of its tabs shows of one run or two."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.template.loader import render_to_string

from servers.contexts.benchmarks import find_checkup
from servers.contexts.canary import find_answers, find_newest
from servers.contexts.trials import find_trial
from servers.judge.logs import parsing
from servers.launch import numbers
from servers.launch.engines import ENGINES
from servers.launch.engines.change import Difference, compare_launches
from servers.launch.engines.engine import listens_beyond_loopback
from servers.lifecycle.benchmarks import start_checks
from servers.lifecycle.logs import diagnoses
from servers.lifecycle.logs.diagnoses import ChangedSince
from servers.models import LogChunk, PromptRun, Run, Server, User
from servers.models.runs.run import PARTS, RunState

EVERYWHERE = ("0.0.0.0", "::", "[::]", "")  # noqa: S104 - as profiles and flags say it


@dataclass(frozen=True, kw_only=True)
class PublishedPort:
    """`port` as Docker writes it, and what stands before the path of an example."""

    port: str  # "0.0.0.0:8000"
    base: str  # "http://rtx8.example:8000"
    box: str
    # The example works on the box alone: it is published there only, or nobody can know the name
    # by which the reader reaches the box.
    is_of_box: bool = True
    is_open: bool = False

    @property
    def reader(self) -> str:
        """Who the example is for."""
        if not self.is_of_box:
            return f"any machine that reaches {self.box}"
        return f"a shell on {self.box}{'' if self.is_open else ' only'}"


def find_published_port(run: Run | None, box: str, host: str = "") -> PublishedPort | None:
    """None before it has a port. `host` is the name by which the page was opened, as its request
    says it: this machine's, where the box is this one."""
    port = published_port(run)
    if run is None or not port:
        return None
    address, _colon, number = port.rpartition(":")
    inside = f"http://{_bracket(run.address or '')}:{number}"
    listens = ENGINES[run.launch.engine].listens_on(run.launch)
    # What others have started is asked at its container's own address, which no profile names.
    if address != (_bracket(listens) or EVERYWHERE[0]) or not listens_beyond_loopback(listens):
        return PublishedPort(port=port, base=inside, box=box)
    if address not in EVERYWHERE:
        return PublishedPort(
            port=port, base=f"http://{port}", box=box, is_of_box=False, is_open=True
        )
    name = _name(host)
    if box != settings.BOX or not name or not listens_beyond_loopback(name):
        return PublishedPort(port=port, base=inside, box=box, is_open=True)
    base = f"http://{_bracket(name)}:{number}"
    return PublishedPort(port=port, base=base, box=box, is_of_box=False, is_open=True)


def published_port(run: Run | None) -> str:
    """ "0.0.0.0:8000", as Docker writes it; "" before it has one."""
    if run is None or run.address is None or run.port is None:
        return ""
    listens = ENGINES[run.launch.engine].listens_on(run.launch)
    if not listens_beyond_loopback(listens) or listens_beyond_loopback(run.address):
        return f"{_bracket(run.address)}:{run.port}"
    return f"{_bracket(listens) or EVERYWHERE[0]}:{run.port}"


def _name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""  # no browser sends it


def _bracket(address: str) -> str:
    bare = address.strip("[]")
    return f"[{bare}]" if ":" in bare else bare


@dataclass(frozen=True, kw_only=True)
class RunComparison:
    """`runs`: the earlier and the later one."""

    runs: tuple[Run, Run]
    changed: tuple[ChangedSince, ...]
    differences: tuple[Difference, ...]


def compare_runs(server: Server, chosen: Sequence[str]) -> RunComparison | None:
    """None where these are not the keys of two runs of it."""
    keys = {key for each in chosen if (key := numbers.whole(each)) is not None}
    found = server.runs.select_related("started_by", "version", "plan__repeats__start", *PARTS)
    runs = list(found.filter(pk__in=keys).order_by("created_at", "pk")) if len(keys) == 2 else []
    if len(runs) != 2:
        return None
    before, after = runs
    return RunComparison(
        runs=(before, after),
        changed=tuple(diagnoses.list_changes(before, after)),
        differences=tuple(compare_launches(before.launch, after.launch)),
    )


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
    """`name` is that of its address, and of the page in the socket's."""

    name: str
    title: str
    template: str
    more: Callable[[Server, Run | None], Mapping[str, Any]] = lambda server, run: {}
    is_live: bool = False  # the socket sends what it shows; the others keep themselves new


def _find_overview(server: Server, run: Run | None) -> Mapping[str, Any]:
    rounds = PromptRun.objects.filter(run=run).select_related("prompt_set", "by")
    measures = run is not None and run.version.launch.measure_when_ready
    return {
        "last_lines": _find_last_lines(run),
        "rounds": rounds,
        "start_check": start_checks.find(run) if run and measures else None,
        "canary_row": find_newest(run),
    }


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
        more=lambda server, run: {
            **find_checkup(server, run),
            **find_answers(server, run),
            **find_trial(server, run),
        },
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
