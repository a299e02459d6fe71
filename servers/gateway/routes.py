"""Routes: the engine behind each model name, and its load."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from asgiref.sync import sync_to_async

from servers.gateway.callers import Refusal
from servers.host.runs.probes import Endpoint
from servers.judge.runs.start_progress import StartProgress
from servers.lifecycle import gateway
from servers.lifecycle.links import ways
from servers.lifecycle.runs.starts import find_endpoint, measure_progress
from servers.models import Run, Server
from servers.models.runs.run import DesiredState, RunState

# Seconds. What was started or stopped is taken up within this.
REMEMBERED = 1.0
# Seconds after which a program may ask again for a server that starts: what is left as far as
# that is known, within these.
RETRY, LONGEST = 10, 300
# States that a server passes through on its way to ready.
_COMING = (RunState.QUEUED, RunState.PULLING, RunState.CREATING, RunState.STARTING)
# What this process passes on now, by run: what programs ask, and people in the playground.
PASSING: Counter[int] = Counter()
# Whether somebody may ask a server that has these names.
type May = Callable[[Iterable[str]], bool]


@dataclass(frozen=True, kw_only=True)
class Route:
    """An engine that is ready."""

    run: int
    server: str
    model: str  # what the engine calls it
    names: tuple[str, ...]  # by which programs may ask for it, the engine's own first
    listed: tuple[str, ...]  # of these, those that /v1/models says
    owner: str  # the engine
    since: float  # unix seconds
    endpoint: Endpoint = field(repr=False)
    busy: int = 0  # requests that the engine said it runs, a few seconds ago
    is_near: bool = True  # on this machine, and not behind the link of another box


@dataclass(frozen=True, kw_only=True)
class NoRoute:
    """A server that is not ready, or sleeps."""

    pk: int
    server: str
    names: tuple[str, ...]
    listed: tuple[str, ...]
    owner: str
    says: str
    brief: str  # the same for who may not read logs and figures
    advice: str  # to whoever asks now; "" where `says` says it
    is_coming: bool  # it is on its way to ready
    left: float | None  # seconds until then; None: not known
    may_start: bool  # a request starts it, or wakes it
    hold: int  # seconds for which a request is held meanwhile

    def explain(self, *, sees_causes: bool) -> str:
        return f"{self.says if sees_causes else self.brief} {self.advice}".rstrip()

    @property
    def retry_after(self) -> int | None:
        """Seconds after which to ask again; None: that makes no sense."""
        if not self.is_coming:
            return None
        return max(RETRY, min(round(self.left or RETRY), LONGEST))


def _may_all(_names: Iterable[str]) -> bool:
    return True


class Routes:
    def __init__(self) -> None:
        self._routes: list[Route] = []
        self._absences: list[NoRoute] = []
        self._until = 0.0
        self._passing = PASSING
        self._looking = asyncio.Lock()
        self._begun = 0  # looks

    async def look(self, *, anew: bool = False) -> None:
        """With `anew` what was so when this was called, and not earlier.

        A hundred that wait for one server look together, and not one after the other.
        """
        if not anew and self._until >= time.monotonic():
            return
        mine = self._begun + 1
        async with self._looking:
            if self._begun >= mine:
                return  # one that began later than this was called
            self._begun += 1
            self._routes, self._absences = await sync_to_async(look)()
            self._until = time.monotonic() + REMEMBERED

    @property
    def ready(self) -> list[Route]:
        return self._routes

    def find(
        self, model: str | None, *, but: frozenset[int] = frozenset(), may: May = _may_all
    ) -> Route | None:
        """The one of that name with the least to do, none of the runs `but`. Raises Refusal.

        Without a name it is the only one that is ready.
        """
        if model is None:
            if len(self._routes) == 1:
                return self._routes[0] if may(self._routes[0].names) else None
            raise Refusal(
                400, "model_missing",
                f"The request says no “model”, and {len(self._routes)} are ready{self._list_names()}.",
            )  # fmt: skip
        named = [each for each in self._routes if model in each.names and may(each.names)]
        found = [each for each in named if each.run not in but]
        # A server's own name, which is its alone, comes after what its engine answers to.
        found = [each for each in found if each.model == model] or found
        return min(found, key=self._order, default=None)

    def _order(self, each: Route) -> tuple[int, int, bool, int]:
        """The least busy first; of equals the near one, which answers a little sooner."""
        return self._passing[each.run], each.busy, not each.is_near, each.run

    @property
    def startable(self) -> list[NoRoute]:
        """Those that a request starts, or has started."""
        return [each for each in self._absences if each.may_start]

    @property
    def busy(self) -> frozenset[int]:
        """Runs that requests are being passed on to."""
        return frozenset(run for run, count in self._passing.items() if count)

    @contextmanager
    def hold_route(self, route: Route) -> Iterator[None]:
        self._passing[route.run] += 1
        try:
            yield
        finally:
            self._passing[route.run] -= 1

    def knows(self, model: str | None) -> bool:
        every: list[Route | NoRoute] = [*self._routes, *self._absences]
        return model is not None and any(model in each.names for each in every)

    def absence(self, model: str | None, *, may: May = _may_all) -> NoRoute | None:
        """Of those with that name that are not ready the one that comes soonest."""
        named = [each for each in self._absences if model in each.names and may(each.names)]
        return min(named, key=lambda each: (not each.is_coming, not each.may_start), default=None)

    def absent(
        self, model: str | None, *, may: May = _may_all, sees_causes: bool = False
    ) -> Refusal:
        """Why nothing of that name answers."""
        absent = self.absence(model, may=may)
        if absent is None:
            return Refusal(
                404, "model_not_found", f"No server answers to “{model}”{self._list_names()}."
            )
        return Refusal(
            503, "model_not_ready", absent.explain(sees_causes=True), absent.retry_after,
            server=absent.server, brief=absent.explain(sees_causes=sees_causes),
        )  # fmt: skip

    def _list_names(self) -> str:
        names = sorted({each.model for each in self._routes})
        return f": {', '.join(names)}" if names else "; none is ready now"


def list_models(shown: Iterable[Route | NoRoute], *, sees_causes: bool) -> list[dict[str, object]]:
    """Each name once, in OpenAI's form and with more beside it."""
    found: dict[str, dict[str, object]] = {}
    for each in shown:
        for name in each.listed:
            found.setdefault(
                name,
                {
                    "id": name, "object": "model", "owned_by": each.owner, "root": each.listed[0],
                    "server": each.server, **_now(each, sees_causes=sees_causes),
                },
            )  # fmt: skip
    return list(found.values())


def _now(each: Route | NoRoute, *, sees_causes: bool) -> dict[str, object]:
    if isinstance(each, Route):
        return {"created": int(each.since), "ready": True}
    return {"created": 0, "ready": False, "why": each.says if sees_causes else each.brief}


def look() -> tuple[list[Route], list[NoRoute]]:
    routes, absences = [], []
    servers = Server.objects.filter(removed_at=None).select_related(
        "box",
        "profile__current",
        "held_back_by",
        "run__version",
        "run__plan__repeats__start",
        "run__start",
        "run__health",
    )
    for server in servers:
        run = server.run
        if run is not None:
            run.server = server  # else it is queried for each one
        endpoint = find_endpoint(run) if run is not None else None
        if (
            run is not None
            and endpoint is not None
            and run.state == RunState.READY
            and run.wanted == DesiredState.RUNNING
            and not run.sleeps
            and not ways.explain_unreachable(server.box)
        ):
            routes.append(_route(server, run, endpoint))
        else:
            absences.append(_absence(server, run))
    return routes, absences


def _route(server: Server, run: Run, endpoint: Endpoint) -> Route:
    launch = run.launch
    return Route(
        run=run.pk,
        server=server.slug,
        model=run.served_name or server.slug,
        names=_names(run.served_name, server.slug, launch.checkpoint, *launch.aliases),
        listed=_names(run.served_name, server.slug, *launch.aliases),
        owner=launch.engine,
        since=(run.ready_at or run.created_at).timestamp(),
        endpoint=endpoint,
        busy=run.health.requests_running or 0,
        is_near=endpoint.via is None,
    )


def _absence(server: Server, run: Run | None) -> NoRoute:
    launch = server.launch
    served_name = run.served_name if run else launch.served_name
    unreachable = ways.explain_unreachable(server.box)
    is_coming, left, advice, brief = False, None, "", ""
    if unreachable:
        says = f"{server} cannot be asked from here. {unreachable}"
    elif run is None or run.wanted != DesiredState.RUNNING or not run.is_active:
        starts = f"{server} is not running; a request starts it."
        says = gateway.why_not(server) or starts
        brief = gateway.why_not(server, is_brief=True) or starts
    elif run.sleeps:
        is_coming, left = True, run.health.sleep_info.get("woke_in")
        brief = f"{server} {gateway.describe_sleep_clause(run)}. A request wakes it."
        says = run.sleep_trouble or brief
    elif run.state in _COMING:
        start = measure_progress(run, run.launch, unified=server.box.is_unified)
        is_coming = True
        left = start.left.total_seconds() if start is not None and start.left is not None else None
        says = f"{server} is {run.state}{_where(start)}."
        advice = "Try again a little later."
    else:
        says = f"{server} is {run.state}. Its page in inferdash says why."
    return NoRoute(
        pk=server.pk,
        server=server.slug,
        names=_names(served_name, server.slug, launch.checkpoint, *launch.aliases),
        listed=_names(served_name, server.slug, *launch.aliases),
        owner=launch.engine,
        says=says,
        brief=brief or says,
        advice=advice,
        is_coming=is_coming,
        left=left,
        may_start=not unreachable
        and not server.is_watched
        and (launch.start_on_request or (run is not None and run.sleeps)),
        hold=launch.hold_requests,
    )


def why_not(server: Server) -> str:
    """Why a server that is not ready does not answer, and where its start is."""
    return _absence(server, server.run).explain(sees_causes=True)


def _where(start: StartProgress | None) -> str:
    if start is None:
        return ""
    percent = f" {start.percent} %" if start.percent is not None else ""
    left = f", {start.minutes_left}" if start.left is not None else ""
    return f" ({start.words}{percent}{left})"


def _names(*names: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name))
