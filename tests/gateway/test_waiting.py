"""Whom a request is for, and what it waits for: in one process, without engines."""

from pathlib import Path
from typing import Any

import pytest

from servers.gateway import calls
from servers.gateway.callers import Caller, Refusal
from servers.gateway.routes import NoRoute, Route, Routes
from servers.host.runs.probes import Endpoint
from tests.cases import Cases

pytestmark = pytest.mark.asyncio

HERE = Endpoint(address="127.0.0.1", port=8000)


def route(server: str, run: int, busy: int, is_near: bool = True) -> Route:
    names = ("twin", server)
    return Route(
        run=run, server=server, model="twin", names=names, listed=names, owner="vllm", since=0.0,
        endpoint=HERE, busy=busy, is_near=is_near,
    )  # fmt: skip


def absence(server: str, *, is_coming: bool = False, hold: int = 0) -> NoRoute:
    names = ("twin", server)
    return NoRoute(
        pk=1, server=server, names=names, listed=names, owner="vllm", says=f"{server} is starting.",
        brief="", advice="", is_coming=is_coming, left=None, may_start=True, hold=hold,
    )  # fmt: skip


def those(*known: Route | NoRoute) -> Routes:
    """As they are found at every look."""

    class Found(Routes):
        async def look(self, *, anew: bool = False) -> None:
            self._routes = [each for each in known if isinstance(each, Route)]
            self._absences = [each for each in known if isinstance(each, NoRoute)]

    return Found()


def only(name: str) -> Caller:
    return Caller(key=1, person=1, models=frozenset({name}))


async def test_of_several_of_one_name_a_key_gets_one_that_it_may_ask() -> None:
    routes = those(route("twin-1", run=1, busy=7), route("twin-2", run=2, busy=0))
    await routes.look()

    assert (
        await calls.route_cold_start(routes, "twin", Caller(key=1, person=1))
    ).server == "twin-2"
    assert (await calls.route_cold_start(routes, "twin", only("twin-1"))).server == "twin-1"
    with pytest.raises(Refusal) as refused:
        await calls.route_cold_start(routes, "twin", only("another"))
    assert (refused.value.status, refused.value.code) == (403, "model_not_allowed")


async def test_the_least_busy_box_answers_and_of_equals_the_near_one() -> None:
    with Cases() as cases:
        for far, near, chosen in [(0, 0, "near"), (0, 1, "far"), (3, 3, "near"), (1, 0, "near")]:
            with cases.named(f"far {far}, near {near}"):
                routes = those(
                    route("far", run=1, busy=far, is_near=False), route("near", run=2, busy=near)
                )
                await routes.look()
                found = routes.find("twin")

                assert found is not None
                assert found.server == chosen


async def test_a_key_starts_one_that_it_may_ask_and_not_the_one_that_comes_soonest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[str] = []

    async def start(which: NoRoute, *_others: object) -> bool:
        started.append(which.server)
        return False

    monkeypatch.setattr(calls, "_start", start)
    routes = those(absence("twin-1"), absence("twin-2", is_coming=True))
    await routes.look()
    for caller in (only("twin-1"), Caller(key=1, person=1)):
        with pytest.raises(Refusal):
            await calls.route_cold_start(routes, "twin", caller)

    assert started == ["twin-1", "twin-2"]


async def test_who_waits_while_redis_is_away_is_refused_with_the_reason(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is nobody's error that nothing is heard: it is looked at now and then."""
    layer = {**settings.CHANNEL_LAYERS["default"]}
    layer["CONFIG"] = {**layer["CONFIG"], "hosts": [f"unix://{tmp_path}/none.sock"]}
    settings.CHANNEL_LAYERS = {"default": layer}

    async def start(*_them: object) -> bool:
        return False

    monkeypatch.setattr(calls, "_start", start)
    monkeypatch.setattr(calls, "LOOKED_AT", 0.05)
    waits = absence("twin-1", is_coming=True, hold=1)
    routes = those(waits)
    await routes.look()
    with pytest.raises(Refusal) as refused:
        await calls.route_cold_start(routes, "twin", Caller(key=1, person=1))

    assert (refused.value.status, refused.value.message) == (503, "twin-1 is starting.")
