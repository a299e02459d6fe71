import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from servers.host.http import connections, prometheus
from servers.host.runs import probes
from servers.host.runs.probes import Endpoint, EngineError, HealthAnswer, PortKind
from tests.cases import table
from tests.ports import free_port
from tests.scripted_engine import METRICS, MODEL, ScriptedEngine
from tests.waiting import PATIENCE


@pytest.fixture
def engine() -> Iterator[ScriptedEngine]:
    with ScriptedEngine() as engine:
        yield engine


@pytest.fixture
def endpoint(engine: ScriptedEngine) -> Endpoint:
    return Endpoint(address="127.0.0.1", port=engine.port)


@pytest.fixture
def nobody() -> Endpoint:
    """A port on which nothing listens."""
    return Endpoint(address="127.0.0.1", port=free_port())


def question(**script: Any) -> dict[str, Any]:
    script.setdefault("deltas", [])
    return {"model": MODEL, "messages": [{"role": "user", "content": json.dumps(script)}]}


async def whole(endpoint: Endpoint, body: dict[str, Any]) -> str:
    return b"".join([piece async for piece in probes.chat(endpoint, body)]).decode()


def refusal(endpoint: Endpoint, body: dict[str, Any]) -> EngineError:
    with pytest.raises(EngineError) as caught:
        asyncio.run(whole(endpoint, body))
    return caught.value


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (200, HealthAnswer.OK),
        (503, HealthAnswer.LOADING),
        (500, HealthAnswer.UNHEALTHY),
        (404, HealthAnswer.UNHEALTHY),
    ],
)
def test_health_is_what_the_engine_answers(
    engine: ScriptedEngine, endpoint: Endpoint, status: int, expected: HealthAnswer
) -> None:
    engine.answers["/health"] = (status, "")

    assert probes.health(endpoint, "/health") is expected


def test_an_engine_that_does_not_listen_yet_is_no_exception(nobody: Endpoint) -> None:
    assert probes.health(nobody, "/health") is HealthAnswer.REFUSED
    assert probes.models(nobody) is None
    assert probes.version(nobody, "/version", "version") is None
    assert probes.metrics(nobody, ["vllm:num_requests_running"]) == {}
    assert probes.busy_slots(nobody, "/slots") is None


def test_an_engine_that_accepts_and_says_nothing_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probes, "PROBE_TIMEOUT", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = Endpoint(address="127.0.0.1", port=silent.getsockname()[1])

        assert probes.health(endpoint, "/health") is HealthAnswer.SILENT


def test_served_names_and_version_are_read(endpoint: Endpoint) -> None:
    assert probes.models(endpoint) == [MODEL, "alias"]
    assert probes.version(endpoint, "/version", "version") == "0.33.0"
    assert probes.version(endpoint, "/version", "build_info") is None
    assert probes.busy_slots(endpoint, "/slots") == 1


def test_other_names_of_a_model_are_names_too(engine: ScriptedEngine, endpoint: Endpoint) -> None:
    # llama.cpp with --alias tiny,small: the first by the alphabet, and all of them beside it.
    listed = '{"data": [{"id": "small", "aliases": ["small", "tiny"]}]}'
    engine.answers["/v1/models"] = (200, listed)

    assert probes.models(endpoint) == ["small", "tiny"]


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"data": 3}', "<html>"])
def test_an_answer_that_lists_no_models_means_it_does_not_say(
    engine: ScriptedEngine, endpoint: Endpoint, body: str
) -> None:
    engine.answers["/v1/models"] = (200, body)

    assert probes.models(endpoint) is None


def test_metrics_are_summed_over_models_but_not_over_ranks() -> None:
    names = [
        "vllm:num_requests_running",
        "vllm:generation_tokens_total",
        "sglang:num_running_reqs",
        "llamacpp:requests_processing",
        "vllm:nan",
        "absent",
        'vllm:num_requests_running{engine="1"}',
        'vllm:num_requests_running{engine="2"}',
    ]

    assert prometheus.totals(METRICS, names) == {
        "vllm:num_requests_running": 3.0,
        "vllm:generation_tokens_total": 1500.0,
        "sglang:num_running_reqs": 4.0,
        "llamacpp:requests_processing": 5.0,
        'vllm:num_requests_running{engine="1"}': 1.0,
    }


@pytest.mark.parametrize("status", [404, 501])
def test_metrics_that_are_switched_off_are_empty(
    engine: ScriptedEngine, endpoint: Endpoint, status: int
) -> None:
    engine.answers["/metrics"] = (status, METRICS)

    assert probes.metrics(endpoint, ["vllm:num_requests_running"]) == {}


def test_an_endless_answer_is_given_up(
    engine: ScriptedEngine, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "PROBE_LIMIT", 100)
    engine.answers["/health"] = (200, "x" * 101)

    assert probes.health(endpoint, "/health") is HealthAnswer.SILENT


def test_the_key_is_sent_and_never_shown(engine: ScriptedEngine) -> None:
    endpoint = Endpoint(address="127.0.0.1", port=engine.port, key="sk-1")

    probes.models(endpoint)

    assert engine.headers[-1]["authorization"] == "Bearer sk-1"
    assert "sk-1" not in repr(endpoint)


@pytest.mark.parametrize("key", ["schlüssel", "钥匙", "two\nlines", "\udc80"])
def test_a_key_of_any_letters_breaks_no_question(engine: ScriptedEngine, key: str) -> None:
    endpoint = Endpoint(address="127.0.0.1", port=engine.port, key=key)

    probes.models(endpoint)
    assert probes.list_models(endpoint).kind in (PortKind.MODELS, PortKind.NOTHING)


def test_a_key_arrives_in_the_letters_that_a_header_has(engine: ScriptedEngine) -> None:
    """Servers in Python read headers as Latin-1, as HTTP once had it."""
    probes.models(Endpoint(address="127.0.0.1", port=engine.port, key="schlüssel"))

    assert engine.headers[-1]["authorization"] == "Bearer schlüssel"


def test_a_proxy_in_the_environment_is_not_used(
    endpoint: Endpoint, nobody: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{nobody.port}")

    fresh: dict[Any, httpx.AsyncClient] = {}  # made now, it sees the environment
    monkeypatch.setattr(connections, "_clients", fresh)

    assert probes.models(endpoint) == [MODEL, "alias"]
    for loop, client in fresh.items():
        asyncio.run_coroutine_threadsafe(client.aclose(), loop).result()


@pytest.mark.parametrize("path", ["health", "@10.0.0.1/", "http://10.0.0.1/", "//10.0.0.1/"])
def test_no_path_leads_to_another_address(path: str) -> None:
    endpoint = Endpoint(address="127.0.0.1", port=8000)

    if path.startswith("/"):
        assert endpoint.url(path).host == "127.0.0.1"
    else:
        with pytest.raises(ValueError, match="absolute path"):
            endpoint.url(path)


def test_an_ipv6_address_can_be_reached() -> None:
    assert str(Endpoint(address="::1", port=8000).url("/health")) == "http://[::1]:8000/health"


def test_a_chat_arrives_as_the_engine_sends_it(endpoint: Endpoint) -> None:
    text = asyncio.run(whole(endpoint, question(deltas=[{"content": "Hel"}, {"content": "lo"}])))

    assert '"Hel"' in text
    assert text.endswith("data: [DONE]\n\n")


def test_closing_the_chat_tells_the_engine_to_stop(
    engine: ScriptedEngine, endpoint: Endpoint
) -> None:
    async def first_piece() -> None:
        pieces = probes.chat(endpoint, question(then="hang"))
        await anext(pieces)
        await pieces.aclose()

    asyncio.run(first_piece())

    assert engine.outcomes.get(timeout=PATIENCE) == "cancelled"


def test_cancelling_before_the_first_token_tells_the_engine_to_stop(
    engine: ScriptedEngine, endpoint: Endpoint
) -> None:
    async def impatient() -> None:
        reading = asyncio.ensure_future(whole(endpoint, question(first_delay=3600)))
        await asyncio.to_thread(engine.arrived.get, timeout=PATIENCE)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        # The connection is closed beside who has hung up, while the loop goes on.
        assert await asyncio.to_thread(engine.outcomes.get, timeout=PATIENCE) == "cancelled"

    asyncio.run(impatient())


VLLM = {"error": {"message": "temperature must be non-negative", "type": "x", "code": 400}}
SGLANG = {"object": "error", "message": "temperature must be non-negative", "code": 400}
FASTAPI = {"detail": "temperature must be non-negative"}


@pytest.mark.parametrize("body", [VLLM, SGLANG, FASTAPI, "temperature must be non-negative"])
def test_a_refusal_carries_the_engines_words_in_every_shape(
    endpoint: Endpoint, body: dict[str, Any] | str
) -> None:
    error = refusal(endpoint, question(status=400, error=body))

    assert error.detail == "temperature must be non-negative"
    assert error.status == 400
    assert str(error) == (
        "The engine refused the request (400): temperature must be non-negative. "
        "Change the parameters or the message, then retry."
    )


@table(
    ("status", "words", "advice"),
    [
        (400, "This model's maximum context length is 4096 tokens.", "new conversation"),
        (400, "the request exceeds the available context size", "new conversation"),
        (401, "Unauthorized", "--api-key"),
        (404, "The model `x` does not exist.", "served name"),
        (503, "The server is draining", "wait a little"),
        (500, "boom", "log"),
        (400, "tiny is not a multimodal model", "whose model takes them"),
        (
            500,
            "image input is not supported - hint: if this is unexpected, you may need to provide "
            "the mmproj",
            "whose model takes them",
        ),
        (
            400,
            "At most 2 image(s) may be provided in one prompt. (parameter=image)",
            "raise --limit-mm-per-prompt",
        ),
        (400, "At most 0 image(s) may be provided in one prompt.", "whose model takes them"),
    ],
    shared=("endpoint",),
)
def test_a_refusal_says_what_to_do_next(
    endpoint: Endpoint, status: int, words: str, advice: str
) -> None:
    error = refusal(endpoint, question(status=status, error={"error": {"message": words}}))

    assert words.rstrip(".") in str(error)
    assert advice in str(error)


def test_an_answer_that_is_no_stream_is_refused(endpoint: Endpoint) -> None:
    error = refusal(endpoint, question(content_type="text/html", error="<h1>Hi</h1>"))

    assert "text/html instead of a stream" in str(error)


def test_a_redirect_is_not_followed(endpoint: Endpoint) -> None:
    assert refusal(endpoint, question(status=302, error="")).status == 302


def test_a_connection_lost_in_the_middle_is_said_after_what_arrived(endpoint: Endpoint) -> None:
    async def read() -> tuple[str, str]:
        text = ""
        try:
            async for piece in probes.chat(
                endpoint, question(deltas=[{"content": "half"}], then="drop", delay=0.05)
            ):
                text += piece.decode()
        except EngineError as error:
            return text, str(error)
        raise AssertionError("The engine dropped the connection unnoticed.")

    text, said = asyncio.run(read())

    assert "half" in text
    assert "lost in the middle" in said


def test_an_engine_that_is_gone_is_said(nobody: Endpoint) -> None:
    assert "does not answer on its port" in str(refusal(nobody, question()))


# Engines that mean harm, or are broken


def hostile(answer: Callable[[socket.socket], None]) -> Endpoint:
    """An engine that answers every question like this."""
    listening = socket.create_server(("127.0.0.1", 0))

    def one() -> None:
        connection, _address = listening.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(65536)
            answer(connection)
        listening.close()

    threading.Thread(target=one, daemon=True).start()
    return Endpoint(address="127.0.0.1", port=listening.getsockname()[1])


@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        (b"HTTP/1.1 200 OK\r\nx: ", b"a"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"a"),
    ],
)
def test_an_engine_that_answers_drop_by_drop_is_given_up(
    begin: bytes, piece: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each drop comes before httpx loses its patience, the last one never."""
    monkeypatch.setattr(probes, "PROBE_TIMEOUT", 0.5)

    def drip(connection: socket.socket) -> None:
        connection.sendall(begin)
        while True:
            connection.sendall(piece)
            time.sleep(0.05)

    assert probes.health(hostile(drip), "/health") is HealthAnswer.SILENT


@pytest.mark.parametrize("body", [b"[" * 200_000, b'{"data":' * 100_000, b"9" * 10_000, b"\xff"])
def test_an_answer_that_cannot_be_read_says_nothing(body: bytes) -> None:
    def answer(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)

    assert probes.models(hostile(answer)) is None


@pytest.mark.parametrize(
    "body",
    [
        '{"detail": "Not Found"}',
        "<!doctype html>\n  \n<title>A page</title>\n\t\n",
        '{"quoted.name", model="m"} 1\n{} 2\n{',
        " ",
        "\u2028x 1\n\x0b\n",
    ],
)
def test_what_is_no_metrics_says_nothing(
    endpoint: Endpoint, engine: ScriptedEngine, body: str
) -> None:
    """A proxy may answer any path with a page of its own."""
    engine.answers["/metrics"] = (200, f"{body}\nup 1\n")

    assert probes.metrics(endpoint, {"up"}) == {"up": 1.0}


def test_a_figure_without_end_is_none() -> None:
    assert prometheus.totals("a +Inf\nb -Inf\nc NaN\nd 1e400\ne 1", set("abcde")) == {"e": 1}
