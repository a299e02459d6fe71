"""The scripted engine hangs up on everybody when it ends.

A socket that it left would fail whichever test runs when Python finds it, as every warning does.
"""

import gc
import json
import socket
import threading
from collections.abc import Callable

import pytest

from tests.scripted_engine import MODEL, EngineScript, ScriptedEngine
from tests.waiting import PATIENCE


def is_closed(client: socket.socket) -> bool:
    client.settimeout(30)
    try:
        while client.recv(65536):
            pass
    except ConnectionError:
        pass
    return True  # a socket that was left says nothing: TimeoutError


def connected(engine: ScriptedEngine, said: bytes = b"") -> socket.socket:
    client = socket.create_connection((engine.host, engine.port))
    client.sendall(said)
    return client


def test_who_connects_in_the_turn_in_which_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    held, told = threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        told.wait(PATIENCE)

    with ScriptedEngine() as engine:
        tell = engine._loop.call_soon_threadsafe

        def tell_it(callback: Callable[[], None]) -> None:
            tell(callback)
            told.set()

        tell(hold)
        assert held.wait(PATIENCE)
        client = connected(engine)
        monkeypatch.setattr(engine._loop, "call_soon_threadsafe", tell_it)

    with client:
        assert is_closed(client)
    gc.collect()


@pytest.mark.parametrize("said", [b"", b"POST /v1/chat", b"GET /health HTTP/1.1\r\n\r\n"])
def test_who_is_connected(said: bytes) -> None:
    with ScriptedEngine() as engine:
        client = connected(engine, said)
        connected(engine).close()
    with client:
        assert is_closed(client)
    gc.collect()


def test_who_does_not_read_what_it_is_told() -> None:
    told = EngineScript(deltas=[{"content": "x" * 1_000_000}] * 20)
    body = json.dumps({"model": MODEL}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: {len(body)}\r\n\r\n"
    with ScriptedEngine(plan=lambda _body: told) as engine:
        client = connected(engine, head.encode() + body)
        engine.arrived.get(timeout=PATIENCE)
    with client:
        assert is_closed(client)
    gc.collect()
