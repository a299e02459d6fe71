"""An engine's HTTP side, played from a script that the question itself carries.

Tests run it in a thread and look at what it saw; the bench runs it as a process of its own.
"""

import argparse
import asyncio
import json
import queue
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

MODEL = "tiny-qwen"
METRICS = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny-qwen"} 2.0
vllm:num_requests_running{engine="1",model_name="tiny-qwen"} 1.0
vllm:generation_tokens_total{engine="0",model_name="a \\"quoted\\" } name"} 1.5e+03
sglang:num_running_reqs{tp_rank="0",model_name="m"} 4.0
sglang:num_running_reqs{tp_rank="1",model_name="m"} 4.0
llamacpp:requests_processing 5
vllm:nan NaN
"""


@dataclass
class EngineScript:
    """How to answer one question. A question that is not JSON is answered word by word."""

    deltas: list[dict[str, Any]]  # "logprobs" of one go beside it, not into it
    delay: float = 0.0  # seconds before each delta
    first_delay: float = 0.0
    hold: int = 0  # behind so many deltas it waits for ScriptedEngine.go_on()
    finish: str = "stop"
    usage: bool = True
    status: int = 200
    error: Any = None  # with a status: its body; else an error event after the deltas
    then: str = "done"  # done, drop, hang, end (without [DONE])
    content_type: str = "text/event-stream"
    used: dict[str, Any] = field(default_factory=dict)  # in the usage besides
    timings: dict[str, Any] | None = None  # as llama.cpp sends them with the last chunk
    # What every chunk carries besides, as vLLM's do.
    common: dict[str, Any] = field(
        default_factory=lambda: {
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL
        }
    )  # fmt: skip

    @classmethod
    def of(cls, question: str) -> "EngineScript":
        try:
            return cls(**json.loads(question))
        except (ValueError, TypeError):
            words = f"You said: {question}".split(" ")
            return cls(deltas=[{"content": word + " "} for word in words])


def words(content: str | list[dict[str, Any]] | None) -> str:
    """The texts of a message; its pictures are acknowledged in words."""
    if not isinstance(content, list):
        return content or ""
    pictures = sum(part["type"] == "image_url" for part in content)
    texts = [part["text"] for part in content if part["type"] == "text"]
    text = " ".join(texts)
    return text if text.startswith("{") else f"{text} ({pictures} pictures)".strip()


@dataclass
class Sleeper:
    """What vLLM has with --enable-sleep-mode and VLLM_SERVER_DEV_MODE=1."""

    is_asleep: bool = False
    asked: list[str] = field(default_factory=list)  # paths that it was sent by POST, in order
    # What it answers to a path instead of doing it.
    fails: dict[str, tuple[int, str]] = field(default_factory=dict)

    def answer(self, method: str, target: str) -> tuple[int, str] | None:
        """None for what has nothing to do with sleep."""
        path = target.partition("?")[0]
        if (method, path) == ("GET", "/is_sleeping"):
            return 200, json.dumps({"is_sleeping": self.is_asleep})
        if method != "POST" or path not in ("/sleep", "/wake_up", "/collective_rpc"):
            return None
        self.asked.append(target)
        if path in self.fails:
            return self.fails[path]
        # Woken piece by piece it sleeps until the last one is there.
        if path == "/sleep" or "tags=weights" not in target:
            self.is_asleep = path == "/sleep" or (self.is_asleep and path != "/wake_up")
        return 200, ""


@dataclass
class ScriptedEngine:
    """Use as a context manager. `answers` maps a path to status and body."""

    port: int = 0
    host: str = "127.0.0.1"
    running: int = 0  # chats being answered now
    sent: int = 0  # deltas, of all chats
    # From the body of a chat to how it is answered.
    plan: "Callable[[dict[str, Any]], EngineScript]" = field(
        default=lambda body: EngineScript.of(words(body["messages"][-1]["content"]))
    )
    # Called when their path is asked for.
    hooks: "dict[str, Callable[[], None]]" = field(default_factory=dict)
    answers: dict[str, tuple[int, str]] = field(
        default_factory=lambda: {
            "/health": (200, ""),
            "/v1/models": (200, json.dumps({"data": [{"id": MODEL}, {"id": "alias"}]})),
            "/version": (200, json.dumps({"version": "0.33.0"})),
            "/metrics": (200, METRICS),
            "/slots": (200, json.dumps([{"is_processing": True}, {"is_processing": False}])),
        }
    )
    sleeper: Sleeper | None = None  # None: it cannot sleep
    requests: list[dict[str, Any]] = field(default_factory=list)  # bodies of chats
    headers: list[dict[str, str]] = field(default_factory=list)  # of all requests
    # One entry per chat, when it has arrived.
    arrived: "queue.Queue[dict[str, Any]]" = field(default_factory=queue.Queue)
    # One entry per chat, when it is over: "complete", or "cancelled" by the client.
    outcomes: "queue.Queue[str]" = field(default_factory=queue.Queue)
    _may_go_on: threading.Event = field(default_factory=threading.Event)
    _writers: "weakref.WeakSet[asyncio.StreamWriter]" = field(default_factory=weakref.WeakSet)

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=[ready], daemon=True)
        self._thread.start()
        ready.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._may_go_on.set()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def go_on(self) -> None:
        """Let answers go on that are held, and those that are asked for later."""
        self._may_go_on.set()

    def _run(self, ready: threading.Event) -> None:
        server = self._loop.run_until_complete(self.listen())
        ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._end(server))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def _end(self, server: asyncio.Server) -> None:
        for listening in server.sockets:
            self._loop.remove_reader(listening)
        # Whoever was accepted a moment ago is given a transport: a closed server gives none, and
        # asyncio then loses the socket.
        await asyncio.sleep(0)
        server.close()
        while left := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in left:
                task.cancel()
            await asyncio.wait(left)
        for writer in self._writers:
            writer.transport.abort()  # also those whose client does not read what is left
        await asyncio.sleep(0)  # the sockets are closed in the loop's next turn

    async def listen(self) -> asyncio.Server:
        server = await asyncio.start_server(self._connection, self.host, self.port)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while await self._request(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; False when the connection is to be closed."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin1").split("\r\n")
        method, path = head[0].split(" ")[:2]
        headers = {
            name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])
        }
        self.headers.append({"path": path, **headers})
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if path == "/v1/chat/completions":
            return await self._chat(json.loads(body), reader, writer)
        if self.sleeper is not None and (said := self.sleeper.answer(method, path)):
            await _respond(writer, said[0], said[1].encode(), "application/json")
            return True
        if path in self.hooks:
            self.hooks[path]()
        status, text = self.answers.get(path, (404, '{"detail":"Not Found"}'))
        kind = "text/event-stream" if text.startswith("event: ") else "application/json"
        await _respond(writer, status, text.encode(), kind)
        return True

    async def _chat(
        self, body: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        self.requests.append(body)
        self.arrived.put(body)
        script = self.plan(body)
        if self.sleeper is not None and self.sleeper.is_asleep:
            script = EngineScript(deltas=[], status=500, error={"error": "It is asleep."})
        if script.status != 200 or script.content_type != "text/event-stream":
            text = script.error if isinstance(script.error, str) else json.dumps(script.error)
            await _respond(writer, script.status, text.encode(), script.content_type)
            return True
        gone = asyncio.ensure_future(reader.read(1))
        playing = asyncio.ensure_future(self._play(script, body, writer))
        self.running += 1
        try:
            await asyncio.wait({gone, playing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.running -= 1
        is_over = playing.done() and playing.exception() is None
        if not is_over:  # whoever asked is gone, which writing may have found first
            if gone.done():
                gone.exception()  # who resets the connection has gone, too
            playing.cancel()
            self.outcomes.put("cancelled")
            return False
        gone.cancel()
        await asyncio.wait({gone})  # else it still waits when the next request is read
        self.outcomes.put("complete")
        return playing.result()

    async def _play(
        self, script: EngineScript, body: dict[str, Any], writer: asyncio.StreamWriter
    ) -> bool:
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )
        await asyncio.sleep(script.first_delay)
        first = {"choices": [_choice({"role": "assistant", "content": ""})]}
        _event(writer, script, {**first, "prompt_token_ids": None, "prompt_text": None})
        for number, delta in enumerate(script.deltas):
            await asyncio.sleep(script.delay)
            if script.hold and number == script.hold:
                await asyncio.to_thread(self._may_go_on.wait)
            said = {name: value for name, value in delta.items() if name != "logprobs"}
            choice = _choice(said, logprobs=delta.get("logprobs"), token_ids=None)
            _event(writer, script, {"choices": [choice]})
            self.sent += 1
            await writer.drain()
        if script.then == "hang":
            await asyncio.sleep(3600)
        if script.then == "drop":
            writer.write(b'40\r\ndata: {"choices": [{"del')
            await writer.drain()
            writer.transport.abort()
            return False
        if script.error is not None:
            _chunk(writer, b"data: " + json.dumps({"error": script.error}).encode() + b"\n\n")
        elif script.then == "done":
            last = _choice({}, finish_reason=script.finish, stop_reason=None, token_ids=None)
            _event(writer, script, {"choices": [last]})
        wants_usage = (body.get("stream_options") or {}).get("include_usage")
        if script.usage and wants_usage and script.error is None:
            tokens = len(script.deltas)
            used: dict[str, Any] = {"prompt_tokens": 7, "completion_tokens": tokens}
            used |= {
                "total_tokens": 7 + tokens,
                "completion_tokens_details": {"reasoning_tokens": 0},
            }
            said = {"choices": [], "usage": used | script.used, "system_fingerprint": "vllm-0.32.0"}
            _event(writer, script, said)
        if script.timings is not None:
            _event(writer, script, {"choices": [], "timings": script.timings})
        if script.then == "done":
            _chunk(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


def _choice(delta: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None} | more


def _event(writer: asyncio.StreamWriter, script: EngineScript, data: dict[str, Any]) -> None:
    _chunk(writer, b"data: " + json.dumps({**script.common, **data}).encode() + b"\n\n")


def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


async def _respond(
    writer: asyncio.StreamWriter, status: int, body: bytes, content_type: str
) -> None:
    head = f"HTTP/1.1 {status} X\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n"
    writer.write(head.encode() + b"\r\n" + body)
    await writer.drain()


async def _serve(port: int) -> None:
    engine = ScriptedEngine(port=port)
    server = await engine.listen()
    print(engine.port, flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    asyncio.run(_serve(parser.parse_args().port))
