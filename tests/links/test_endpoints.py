"""Engines of a far box, asked from the hub as near ones are: over a real ssh and a real relay."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async

from servers.gateway.app import Gateway
from servers.host.benchmarks.generator import PointPlan
from servers.host.benchmarks.orders import LoadLimits
from servers.host.benchmarks.process import LoadGenerator
from servers.host.benchmarks.requests import BenchmarkTarget
from servers.host.canary.asker import CanaryAsker
from servers.host.gateway import AwayError, relay
from servers.host.http import connections
from servers.host.http.wire import Way, WireError
from servers.host.runs import probes, questions
from servers.host.runs.probes import CHAT_PATH, Endpoint, EngineError, HealthAnswer
from servers.lifecycle.links import ways
from servers.models import Key, Role, User
from tests import factories
from tests.canary.test_asker import QUESTION
from tests.cases import Cases
from tests.links import linked
from tests.links.wires import SECRET, RelayThread, SshWire, ssh_wire
from tests.ports import free_port
from tests.scripted_engine import MODEL, ScriptedEngine
from tests.waiting import PATIENCE, wait_until_async

HANGS = {"deltas": [{"content": "word "}], "then": "hang"}


@pytest.fixture(scope="module")
def wire() -> Iterator[SshWire]:
    with ssh_wire() as wire:
        yield wire


@pytest.fixture
def engine() -> Iterator[ScriptedEngine]:
    with ScriptedEngine() as engine:
        yield engine


@pytest.fixture
def box(wire: SshWire) -> Iterator[RelayThread]:
    with RelayThread(wire.files.relay_socket) as box:
        yield box


@pytest.fixture
def near(engine: ScriptedEngine) -> Endpoint:
    return Endpoint(address="127.0.0.1", port=engine.port, key="a key")


@pytest.fixture
def far(engine: ScriptedEngine, wire: SshWire, box: RelayThread) -> Endpoint:
    return Endpoint(address="127.0.0.1", port=engine.port, key="a key", via=wire.way)


def say(script: dict[str, Any]) -> dict[str, Any]:
    message = {"role": "user", "content": json.dumps(script)}
    return {"model": MODEL, "messages": [message], "stream": True}


async def pass_on(endpoint: Endpoint, script: dict[str, Any]) -> bytes:
    """As the gateway does."""
    headers, body = [(b"content-type", b"application/json")], json.dumps(say(script)).encode()
    async with relay(endpoint, "POST", CHAT_PATH, headers, body) as answer:
        return b"".join([piece async for piece in answer.pieces])


async def chat(endpoint: Endpoint, script: dict[str, Any]) -> bytes:
    """As the playground does."""
    async with aclosing(probes.chat(endpoint, say(script))) as pieces:
        return b"".join([piece async for piece in pieces])


def test_all_that_is_asked_of_a_near_engine_is_asked_of_a_far_one(
    near: Endpoint, far: Endpoint, engine: ScriptedEngine, box: RelayThread
) -> None:
    words = {"deltas": [{"content": f"word{number} "} for number in range(50)]}
    assert far.via is not None
    assert SECRET not in repr(far)

    def answer(endpoint: Endpoint) -> list[object]:
        return [
            probes.health(endpoint, "/health"),
            probes.models(endpoint),
            probes.metrics(endpoint, ["vllm:num_requests_running"]),
            probes.version(endpoint, "/version", "version"),
            probes.list_models(endpoint),
            questions.ask(endpoint, MODEL, "Hello", most=5, limit=PATIENCE).text,
            connections.waited_for(pass_on(endpoint, words)),
            connections.waited_for(chat(endpoint, words)),
        ]

    expected = answer(near)
    engine.headers.clear()
    assert box.count_open() == 0
    assert answer(far) == expected
    assert expected[0] is HealthAnswer.OK
    assert {each.get("authorization") for each in engine.headers} == {"Bearer a key"}
    probes.health(far, "/health")
    assert box.count_open() == 1, "the connection is kept for the next request"


def test_programs_that_ask_in_a_process_of_their_own_reach_it_too(
    far: Endpoint, box: RelayThread
) -> None:
    url = str(far.url(CHAT_PATH))
    target = BenchmarkTarget(url=url, model=MODEL, headers={}, via=far.via)
    limits = LoadLimits(seconds=3600, requests=10)
    plan = PointPlan(
        concurrency=2, requests=2, seconds=PATIENCE, output_tokens=5, prompts=("Hello",)
    )
    with LoadGenerator(target, limits) as generator, CanaryAsker(target, limits) as asker:
        timings = generator.measure(plan, lambda _timing: None)
        assert [each.error for each in timings.requests] == ["", ""]
        # This engine always answers by a stream, which a canary does not want.
        assert asker.ask(QUESTION).error == "the answer is no chat completion"
    assert box.asked == [(far.address, far.port)] * 3, "two at once, and the canary's"


def test_who_hangs_up_stops_the_engine(far: Endpoint, engine: ScriptedEngine) -> None:
    async def ask() -> None:
        async with aclosing(probes.chat(far, say(HANGS))) as pieces:
            while b"word" not in await anext(pieces):
                pass

    connections.waited_for(ask())
    assert engine.outcomes.get(timeout=PATIENCE) == "cancelled"


def test_what_is_wrong_is_told_from_an_engine_that_is_away(
    far: Endpoint, wire: SshWire, box: RelayThread, engine: ScriptedEngine
) -> None:
    dead = Endpoint(address="127.0.0.1", port=free_port(), via=wire.way)
    stranger = Endpoint(address=far.address, port=far.port, via=Way(wire.port, "another secret"))

    def fail(endpoint: Endpoint) -> tuple[type[BaseException], str]:
        """What httpx raises, with its words; as the gateway and the playground hear it."""
        request = connections.waited_for(build(endpoint))
        with pytest.raises(httpx.TransportError) as raised:
            connections.waited_for(connections.send(request))
        with pytest.raises(AwayError) as away:
            connections.waited_for(pass_on(endpoint, HANGS))
        is_cut = isinstance(raised.value, WireError)
        assert (away.value.was_refused, away.value.is_cut) == (True, is_cut)
        with pytest.raises(EngineError) as told:
            connections.waited_for(chat(endpoint, HANGS))
        assert str(told.value).startswith(str(raised.value) if is_cut else "The engine does not")
        assert probes.health(endpoint, "/health") is HealthAnswer.REFUSED
        return type(raised.value), str(raised.value)

    async def build(endpoint: Endpoint) -> httpx.Request:
        return endpoint.build_request("GET", "/health")

    with Cases() as cases:
        with cases.named("nothing listens"):
            assert fail(dead) == (httpx.ConnectError, "Nothing listens on the engine's port.")
        with cases.named("no engine of the box"):
            box.allowed = set()
            says = "Its box has no such engine any more."
            assert fail(far) == (httpx.ConnectError, says)
            box.allowed = None
        with cases.named("another secret"):
            kind, says = fail(stranger)
            assert kind is WireError
            assert says.startswith("Its box refuses this hub")
        with cases.named("too many"):
            box.relay.most = 0
            kind, says = fail(far)
            assert kind is WireError
            assert says.endswith("too many connections are open.")
            box.relay.most = 1000
        with cases.named("the relay is gone"):
            box.__exit__(None, None, None)
            kind, says = fail(far)
            assert (kind, says) == (WireError, "The relay of its box does not answer.")
            box.__enter__()
            assert probes.health(far, "/health") is HealthAnswer.OK
        with cases.named("the wire is cut"):
            wire.cut()
            try:
                assert fail(far) == (WireError, "The connection to its box is cut.")
            finally:
                wire.mend()
            assert probes.health(far, "/health") is HealthAnswer.OK


def test_a_wire_that_is_cut_in_the_middle_of_an_answer_ends_it(
    far: Endpoint, wire: SshWire, engine: ScriptedEngine
) -> None:
    async def ask() -> str:
        try:
            async with aclosing(probes.chat(far, say(HANGS))) as pieces:
                while b"word" not in await anext(pieces):
                    pass
                await asyncio.to_thread(wire.cut)
                async for _piece in pieces:
                    pass
        except EngineError as error:
            return str(error)
        return ""

    try:
        assert "lost in the middle" in connections.waited_for(ask())
        assert engine.outcomes.get(timeout=PATIENCE) == "cancelled"
    finally:
        wire.mend()


@pytest.mark.asyncio
@pytest.mark.parametrize("ask", [pass_on, chat])
async def test_a_request_that_is_cancelled_at_any_step_leaves_no_connection(
    far: Endpoint, box: RelayThread, ask: Any
) -> None:
    words = {"deltas": [{"content": "word "}] * 3}
    transport: Any = connections.client()._transport
    ends = steps = 0
    while ends < 3:
        asking = asyncio.create_task(ask(far, words))
        for _ in range(steps):
            await asyncio.sleep(0)
        ends += asking.done()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await wait_until_async(
            lambda: all(
                each.is_idle() or each.is_closed()
                for each in (transport._far[far.via]._pool.connections if transport._far else [])
            ),
            f"no connection is left of the request that was cancelled at step {steps}",
            every=0.01,
        )
        # It waits for other processes: from some step on by time.
        steps += 1 if steps < 20 else 1 + steps // 2
    await connections.forget(asyncio.get_running_loop())
    await wait_until_async(lambda: box.count_open() == 0, "the relay forgets who has gone")


@pytest.mark.django_db(transaction=True)
@pytest.mark.asyncio
async def test_the_gateway_streams_from_a_far_engine_and_says_when_its_wire_is_cut(
    hub: User, box: RelayThread, wire: SshWire, engine: ScriptedEngine
) -> None:
    def prepare() -> str:
        ways.forget()
        link = linked.join("laurel", hub)
        link.port = wire.port
        link.keep_credentials(password="p", relay_secret=SECRET)
        link.save()
        assert link.box is not None
        server = factories.server(link.box, "far")
        factories.run(server, served_name=MODEL, address="127.0.0.1", port=engine.port)
        return Key.make(hub, "a program", Role.OPERATOR, expires_at=None)[1]

    token = await sync_to_async(prepare)()
    words = {"deltas": [{"content": f"word{number} "} for number in range(5)]}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=Gateway(refuse_all)), base_url="http://127.0.0.1",
        headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE,
    ) as program:  # fmt: skip
        answer = await program.post(CHAT_PATH, json=say(words))
        assert (answer.status_code, answer.text.count('"word')) == (200, 5)
        await connections.forget(asyncio.get_running_loop())  # as after a few idle seconds
        await asyncio.to_thread(wire.cut)
        try:
            refused = await program.post(CHAT_PATH, json=say(words))
        finally:
            await asyncio.to_thread(wire.mend)
        error = refused.json()["error"]
        assert (refused.status_code, error["code"]) == (502, "box_away")
        assert error["message"] == "far cannot be reached. The connection to its box is cut."
        assert (await program.post(CHAT_PATH, json=say(words))).status_code == 200
    await connections.forget(asyncio.get_running_loop())
    ways.forget()


async def refuse_all(_scope: Any, _receive: Any, _send: Any) -> None:
    raise AssertionError("This is for the gateway.")
