"""The test engine itself: what the other tests take for a vLLM, an SGLang or a llama.cpp."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.ports import free_port
from tests.waiting import PATIENCE, wait_until

ROOT = Path(__file__).resolve().parents[1]
type Start = Callable[..., "Running"]


class Running:
    def __init__(self, words: list[str], **variables: str) -> None:
        self.port = free_port()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.engine", *words]
            + ["--host", "127.0.0.1", "--port", str(self.port)],
            cwd=ROOT,
            env=os.environ | {"ENGINE_SECONDS": "0.3"} | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def ask(self, path: str, body: dict[str, Any] | None = None) -> tuple[int, str]:
        """Status and body; 0 when the connection is refused."""
        with closing(self.connection()) as connection:
            try:
                connection.request("POST" if body else "GET", path, json.dumps(body))
            except ConnectionRefusedError:
                return 0, ""
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def until_ready(self) -> list[int]:
        """The statuses of /health up to the first 200."""
        seen: list[int] = []

        def is_ready() -> bool:
            seen.append(self.ask("/health")[0])
            return seen[-1] == 200

        self.until(is_ready)
        return seen

    def until(self, is_so: Callable[[], bool]) -> None:
        def has_come() -> bool:
            assert self.process.poll() is None, "it has ended"
            return is_so()

        wait_until(has_come, "the engine comes to it")

    def chat(self, question: str, **fields: Any) -> list[dict[str, Any]]:
        """The events of a streamed answer."""
        body = {"model": "tiny", "stream": True, "stream_options": {"include_usage": True}}
        messages = [{"role": "user", "content": question}]
        status, text = self.ask("/v1/chat/completions", {**body, "messages": messages, **fields})
        assert status == 200
        lines = [line.removeprefix("data: ") for line in text.splitlines() if line]
        return [json.loads(line) for line in lines if line != "[DONE]"]

    def stats(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.ask("/stats")[1])
        return found

    def close(self) -> str:
        """Kill it; returns what it has printed."""
        self.process.kill()
        said, _none = self.process.communicate()
        return said.decode()


@pytest.fixture
def start() -> Iterator[Start]:
    running: list[Running] = []

    def start(*words: str, **variables: str) -> Running:
        running.append(Running(list(words), **variables))
        return running[-1]

    yield start
    for engine in running:
        if engine.process.stdout is not None and not engine.process.stdout.closed:
            engine.close()


VLLM = ("vllm", "serve", "Qwen/Tiny", "--served-model-name", "tiny")
SGLANG = ("python3", "-m", "sglang.launch_server", "--model-path", "t", "--served-model-name=tiny")
LLAMACPP = ("/app/llama-server", "-m", "/models/tiny.gguf", "--alias", "tiny", "--metrics")


@pytest.mark.parametrize(
    ("words", "while_loading"),
    [(VLLM, {0}), (SGLANG, {0, 503}), (LLAMACPP, {0, 503})],
)
def test_each_flavour_answers_as_its_engine_while_it_loads(
    start: Start, words: tuple[str, ...], while_loading: set[int]
) -> None:
    engine = start(*words, ENGINE_SECONDS="1")

    assert set(engine.until_ready()) == while_loading | {200}
    assert json.loads(engine.ask("/v1/models")[1])["data"][0]["id"] == "tiny"


@pytest.mark.parametrize(
    ("words", "reasoning", "metric"),
    [
        (VLLM, "reasoning", "vllm:generation_tokens_total"),
        ((*SGLANG, "--enable-metrics"), "reasoning_content", "sglang:generation_tokens_total"),
        (LLAMACPP, "reasoning_content", "llamacpp:tokens_predicted_total"),
    ],
)
def test_each_flavour_names_things_its_way(
    start: Start, words: tuple[str, ...], reasoning: str, metric: str
) -> None:
    engine = start(*words)
    engine.until_ready()

    events = engine.chat("[[reason 2]] [[tokens 3]]")

    deltas = [choice["delta"] for event in events for choice in event["choices"]]
    assert [delta[reasoning] for delta in deltas if reasoning in delta] == ["the ", "quick "]
    assert sum(bool(delta.get("content")) for delta in deltas) == 3
    assert events[-1]["usage"]["completion_tokens"] == 5
    assert metric in engine.ask("/metrics")[1]


def test_limits_stops_and_tools_are_obeyed(start: Start) -> None:
    engine = start(*VLLM)
    engine.until_ready()
    tool = {"type": "function", "function": {"name": "weather"}}

    def finish(events: list[dict[str, Any]]) -> str:
        return str(events[-2]["choices"][0]["finish_reason"])

    assert finish(engine.chat("[[tokens 9]]", max_tokens=4)) == "length"
    assert finish(engine.chat("hello STOP now", stop="STOP")) == "stop"
    called = engine.chat("[[tool]]", tools=[tool])
    assert finish(called) == "tool_calls"
    calls = [event["choices"][0]["delta"].get("tool_calls") for event in called[1:-2]]
    assert calls[0][0]["function"]["name"] == "weather"
    assert json.loads("".join(call[0]["function"]["arguments"] for call in calls)) == {
        "city": "Brno"
    }


def test_a_question_can_ask_for_trouble(start: Start) -> None:
    engine = start(*VLLM)
    engine.until_ready()

    assert engine.chat("[[error]]", stream_options={})[-1]["error"]["code"] == 500
    with pytest.raises(http.client.IncompleteRead):
        engine.chat("[[drop]]")
    body = {"model": "tiny", "messages": [{"role": "user", "content": "[[refuse 400]]"}]}
    assert engine.ask("/v1/chat/completions", body)[0] == 400
    assert engine.ask("/v1/chat/completions", {**body, "model": "other"})[0] == 404


def test_a_client_that_leaves_is_counted(start: Start) -> None:
    engine = start(*VLLM)
    engine.until_ready()
    messages = [{"role": "user", "content": "[[hang]]"}]
    body = {"model": "tiny", "stream": True, "messages": messages}
    with closing(engine.connection()) as connection:
        connection.request("POST", "/v1/chat/completions", json.dumps(body))
        answer = connection.getresponse()
        answer.readline()
        assert engine.stats()["running"] == 1
        answer.close()

    engine.until(lambda: not engine.stats()["running"])
    assert engine.stats()["cancelled"] == 1


def test_sixteen_are_answered_at_once(start: Start) -> None:
    engine = start(*VLLM)
    engine.until_ready()
    answers: list[int] = []
    threads = [
        threading.Thread(target=lambda: answers.append(len(engine.chat("[[tokens 200]]"))))
        for _ in range(16)
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert answers == [200 + 3] * 16
    assert engine.stats()["complete"] == 16


def test_when_ready_it_ends_after_its_running_requests(start: Start) -> None:
    engine = start(*VLLM)
    engine.until_ready()
    answers: list[int] = []
    thread = threading.Thread(
        target=lambda: answers.append(len(engine.chat("[[tokens 20]] [[pace 40]]")))
    )
    thread.start()
    engine.until(lambda: bool(engine.stats()["running"]))

    engine.process.send_signal(signal.SIGTERM)
    thread.join()

    assert engine.process.wait(PATIENCE) == 0
    assert answers == [20 + 3]


def test_it_can_be_deaf_while_it_loads(start: Start) -> None:
    deaf = start(*VLLM, ENGINE_IGNORES_SIGTERM="loading", ENGINE_SECONDS="1")
    assert deaf.process.stdout is not None
    deaf.process.stdout.readline()

    deaf.process.send_signal(signal.SIGTERM)
    deaf.until_ready()
    deaf.process.send_signal(signal.SIGTERM)

    assert deaf.process.wait(PATIENCE) == 0


@pytest.mark.parametrize(
    ("script", "code", "says"),
    [
        ("crash", 1, "CUDA out of memory"),
        ("exit-zero", 0, "Received sigquit"),
        ("silent", -9, "Starting to load"),
    ],
)
def test_starts_end_as_their_files_say(start: Start, script: str, code: int, says: str) -> None:
    engine = start(*VLLM, ENGINE_SCRIPT=script)

    said, _none = engine.process.communicate(timeout=PATIENCE)

    assert engine.process.returncode == code
    assert says in said.decode()


@pytest.mark.parametrize(
    ("variables", "ending"),
    [({}, "\r"), ({"TQDM_BAR_FORMAT": "{l_bar}{bar}{r_bar}\n"}, "\n")],
)
def test_bars_are_redrawn_or_written_line_by_line(
    start: Start, variables: dict[str, str], ending: str
) -> None:
    engine = start(*VLLM, ENGINE_SCRIPT="bars", **variables)
    engine.until_ready()

    said = engine.close()

    assert f"{ending}Loading checkpoint: 100%|████████████████████| 100/100" in said
    # This one is written line by line by vLLM itself.
    assert "\nLoading safetensors checkpoint shards: 100% Completed | 20/20" in said


def test_colours_reach_the_log(start: Start) -> None:
    engine = start(*VLLM, ENGINE_SCRIPT="colours")
    engine.until_ready()

    said = engine.close()

    assert "\x1b[31mcolour 31\x1b[0m" in said
    assert "\\e" not in said
