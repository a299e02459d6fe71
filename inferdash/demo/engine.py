"""A simulated engine in a simulated container, and the web server that it and Docker's API answer by."""

import asyncio
import contextlib
import json
import random
import re
import shlex
import socket
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote

import uvicorn

from inferdash.demo import script
from inferdash.demo.load import InFlight, Traffic
from inferdash.demo.script import Settings

type Scope = dict[str, Any]
type Receive = Callable[[], Awaitable[dict[str, Any]]]
type Send = Callable[[dict[str, Any]], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class SimulatedRequest:
    method: str
    path: str
    query: dict[str, str]
    body: bytes = b""

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body or b"{}")
        return found


@dataclass(kw_only=True)
class Reply:
    status: int = 200
    body: Any = b""  # bytes, or what is written as JSON
    kind: str = "application/json"
    stream: AsyncIterator[bytes] | None = None
    headers: dict[str, str] = field(default_factory=dict)


type Handle = Callable[[SimulatedRequest], Awaitable[Reply]]


def make_app(handle: Handle) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        query = {
            name: found[-1] for name, found in parse_qs(scope["query_string"].decode()).items()
        }
        asked = SimulatedRequest(
            method=scope["method"], path=unquote(scope["path"]), query=query, body=body
        )
        reply = await handle(asked)
        headers = {"content-type": reply.kind, **reply.headers}
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        if reply.stream is None:
            content = (
                reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            )
            raw.append((b"content-length", str(len(content)).encode()))
            await send({"type": "http.response.start", "status": reply.status, "headers": raw})
            await send({"type": "http.response.body", "body": content})
            return
        await send({"type": "http.response.start", "status": reply.status, "headers": raw})
        await _stream(reply.stream, receive, send)

    return app


async def _stream(stream: AsyncIterator[bytes], receive: Receive, send: Send) -> None:
    """Until it ends, or nobody listens any more."""

    async def write() -> None:
        async for piece in stream:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def listen() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    tasks = [asyncio.create_task(write()), asyncio.create_task(listen())]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError, OSError):
        await asyncio.gather(*tasks)
    if isinstance(stream, AsyncGenerator):
        await stream.aclose()


class Listening(uvicorn.Server):
    """One of several in a process, whose signals are its main program's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def serve(handle: Handle, listening: socket.socket) -> Listening:
    """Begin to answer at a socket that is bound; ends with `should_exit`."""
    config = uvicorn.Config(
        make_app(handle),
        # What Docker's streams are read by speaks HTTP/1.0, which the faster parser answers in chunks.
        http="h11",
        lifespan="off",
        log_level="critical",
        access_log=False,
        timeout_graceful_shutdown=1,
    )
    server = Listening(config)
    task = asyncio.create_task(server.serve(sockets=[listening]))
    _running.add(task)
    task.add_done_callback(_running.discard)
    return server


_running: set[asyncio.Task[None]] = set()


def find_answer(question: str) -> tuple[str, str]:
    """What it thinks, and what it says."""
    for each in script.SAMPLE["answers"]:
        if re.search(each["asked"], question, re.IGNORECASE):
            break  # the last fits every question
    return each["thinks"], each["says"]


def split_tokens(text: str) -> Iterator[str]:
    """Pieces as a tokenizer makes them: a word with the space before it, or a part of a long one."""
    for word in re.findall(r"\s*\S+|\s+$", text):
        cut = 7 if len(word) > 11 else len(word)
        yield word[:cut]
        if word[cut:]:
            yield word[cut:]


def pauses(speed: float, seed: str) -> Iterator[float]:
    """Seconds before each token, for ever: never quite the same."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    while True:
        yield chance.gauss(1, 0.16) / speed if chance.random() > 0.02 else 3 / speed


_BUCKETS = (0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0)
_PORTS = {"vllm": 8000, "sglang": 30000, "llamacpp": 8080}
_VALUED = re.compile(r"^--?[\w-]+$")


def read_settings(image: str, words: list[str], env: dict[str, str]) -> Settings | None:
    """What a container's words ask for; None for what is no engine."""
    text = f"{image} {shlex.join(words)}"
    if "sglang" in text:
        engine: Any = "sglang"
    elif "llama" in image or "llama-server" in text:
        engine = "llamacpp"
    elif "vllm" in text:
        engine = "vllm"
    else:
        return None
    flags = _flags(words)

    def value(*names: str) -> str:
        return next((flags[name] for name in names if flags.get(name)), "")

    model = value("--model", "--model-path", "-m", "-hf", "--hf-repo")
    if not model and "serve" in words and words.index("serve") + 1 < len(words):
        model = words[words.index("serve") + 1]
    model = model or env.get("LLAMA_ARG_HF_REPO") or "model"
    context = value("--max-model-len", "--context-length", "-c", "--ctx-size")
    share = value("--gpu-memory-utilization", "--mem-fraction-static") or "0.92"
    return Settings(
        engine=engine,
        model=model,
        served=value("--served-model-name", "--alias", "-a") or model,
        port=int(value("--port") or env.get("LLAMA_ARG_PORT") or _PORTS[engine]),
        ranks=int(value("--tensor-parallel-size", "-tp", "--tp", "--tp-size") or 1),
        context=int(context) if context.isdigit() else None,
        share=min(0.97, float(share)),
        kv_factor=0.5 if value("--kv-cache-dtype").startswith("fp8") else 1.0,
    )


def _flags(words: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if word.startswith("-"):
            name, equals, said = word.partition("=")
            found[name] = said if equals else "" if _VALUED.match(after) else after
    return found


class SimulatedEngine:
    """Ready after start(); until then it refuses, as its kind does."""

    def __init__(self, settings: Settings, *, rate: float, seed: int) -> None:
        self.settings = settings
        self.model = script.find_model(settings.model)
        self.is_ready = False
        tokens = int(30 / self.model.kv)
        self.traffic = Traffic(rate=rate, speed=self.model.speed, kv_tokens=tokens, seed=seed)
        self.chats: list[InFlight] = []

    def step(self, seconds: float) -> float:
        """Let time pass; how hard its GPUs work: 0 to 1."""
        if not self.is_ready:
            return 0.0
        self.traffic.step(seconds)
        return max(self.traffic.effort, 0.62 if self.chats else 0.0)

    async def answer(self, asked: SimulatedRequest) -> Reply:
        if not self.is_ready:
            return Reply(status=503, body={"error": {"message": "Loading model", "code": 503}})
        match asked.path:
            case "/health" | "/health_generate":
                return Reply(body=b"")
            case "/v1/models":
                model = {"id": self.settings.served, "object": "model", "created": int(time.time())}
                longest = self.settings.context or self.model.longest
                model |= {"owned_by": self.settings.engine, "root": self.settings.model}
                return Reply(body={"object": "list", "data": [model | {"max_model_len": longest}]})
            case "/version" | "/server_info" | "/get_server_info":
                return Reply(body={"version": "0.20.2"})
            case "/props":
                return Reply(body={"build_info": "b7120-0c1e570", "total_slots": 8})
            case "/metrics":
                return Reply(body=self._metrics().encode(), kind="text/plain; version=0.0.4")
            case "/tokenize":
                text = json.dumps(asked.json)
                return Reply(body={"count": len(text) // 4, "max_model_len": 131072, "tokens": []})
            case "/v1/chat/completions" | "/v1/completions" | "/v1/messages":
                return await self._chat(asked.json)
        return Reply(status=404, body={"detail": "Not Found"})

    async def _chat(self, body: dict[str, Any]) -> Reply:
        content = ((body.get("messages") or [{}])[-1]).get("content") or body.get("prompt") or ""
        if isinstance(content, list):
            content = " ".join(each.get("text", "") for each in content)
        thought, told = find_answer(str(content))
        words = [*(("reasoning", each) for each in split_tokens(thought))]
        words += [("content", each) for each in split_tokens(told)]
        limit = body.get("max_completion_tokens") or body.get("max_tokens") or len(words)
        words, finish = words[:limit], "length" if limit < len(words) else "stop"
        prompt = max(7, len(json.dumps(body.get("messages") or "")) // 4)
        usage = {"prompt_tokens": prompt, "completion_tokens": len(words)}
        usage["total_tokens"] = sum(usage.values())
        common = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time())}
        common |= {"model": self.settings.served}
        if not body.get("stream"):
            message = {"role": "assistant"}
            for part in ("reasoning", "content"):
                message[part] = "".join(word for kind, word in words if kind == part)
            choice = {"index": 0, "message": message, "finish_reason": finish}
            await asyncio.sleep(len(words) / self.model.speed)
            said = {"object": "chat.completion", "choices": [choice], "usage": usage}
            return Reply(body=common | said)
        stream = self._stream(words, common, usage, finish)
        return Reply(stream=stream, kind="text/event-stream")

    async def _stream(
        self, words: list[tuple[str, str]], common: Any, usage: Any, finish: str
    ) -> AsyncIterator[bytes]:
        job = InFlight(prompt=usage["prompt_tokens"], left=len(words))
        self.chats.append(job)
        self.traffic.prompt_tokens += job.prompt
        began = time.monotonic()

        def chunk(**said: Any) -> bytes:
            whole = {**common, "object": "chat.completion.chunk", **said}
            return b"data: " + json.dumps(whole).encode() + b"\n\n"

        def piece(delta: dict[str, str], finish: str | None = None) -> bytes:
            return chunk(choices=[{"index": 0, "delta": delta, "finish_reason": finish}])

        try:
            await asyncio.sleep(0.09 + 0.006 * len(self.traffic.jobs))
            self.traffic.first_tokens.append(time.monotonic() - began)
            yield piece({"role": "assistant", "content": ""})
            # Whoever else is at work slows each one down.
            speed = self.model.speed / (1 + len(self.traffic.jobs) / 14)
            due = time.monotonic()
            for (part, word), pause in zip(words, pauses(speed, common["id"]), strict=False):
                due += pause
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                self.traffic.generation_tokens += 1
                yield piece({part: word})
            yield piece({}, finish)
            yield chunk(choices=[], usage=usage)
            yield b"data: [DONE]\n\n"
            self.traffic.finished += 1
        finally:
            with contextlib.suppress(ValueError):
                self.chats.remove(job)

    def _metrics(self) -> str:
        traffic, sglang = self.traffic, self.settings.engine == "sglang"
        label = f'{{model_name="{self.settings.served}"}}'
        running = len(traffic.jobs) + len(self.chats)
        if self.settings.engine == "llamacpp":
            return (
                f"llamacpp:requests_processing {running}\nllamacpp:requests_deferred 0\n"
                f"llamacpp:tokens_predicted_total {traffic.generation_tokens:.0f}\n"
                f"llamacpp:prompt_tokens_total {traffic.prompt_tokens:.0f}\n"
            )
        names = (
            {"running": "sglang:num_running_reqs", "queued": "sglang:num_queue_reqs",
             "kv": "sglang:token_usage", "generation": "sglang:generation_tokens_total",
             "prompt": "sglang:prompt_tokens_total", "finished": "sglang:num_requests_total",
             "first": "sglang:time_to_first_token_seconds",
             "token": "sglang:inter_token_latency_seconds"}
            if sglang else
            {"running": "vllm:num_requests_running", "queued": "vllm:num_requests_waiting",
             "kv": "vllm:kv_cache_usage_perc", "generation": "vllm:generation_tokens_total",
             "prompt": "vllm:prompt_tokens_total", "finished": "vllm:request_success_total",
             "first": "vllm:time_to_first_token_seconds",
             "token": "vllm:inter_token_latency_seconds"}
        )  # fmt: skip
        gauges = {
            "running": running,
            "queued": len(traffic.queue),
            "kv": round(traffic.kv_share, 4),
        }
        counters = {
            "generation": traffic.generation_tokens,
            "prompt": traffic.prompt_tokens,
            "finished": traffic.finished,
        }
        lines = [f"# TYPE {names[n]} gauge\n{names[n]}{label} {v}" for n, v in gauges.items()]
        lines += [
            f"# TYPE {names[n]} counter\n{names[n]}{label} {v:.0f}" for n, v in counters.items()
        ]
        firsts = traffic.first_tokens
        pace = (1 + running / 14) / self.model.speed
        tokens = int(traffic.generation_tokens)
        lines += _histogram(names["first"], label, firsts)
        lines += _histogram(names["token"], label, [pace], count=tokens)
        return "\n".join(lines) + "\n"


def _histogram(
    name: str,
    label: str,
    seen: list[float],
    *,
    count: int | None = None,
) -> list[str]:
    """Of the values; with a `count`, as if each had been seen so often."""
    times = 1 if count is None or not seen else count / len(seen)
    lines = [f"# TYPE {name} histogram"]
    inside = label[1:-1]
    for bound in _BUCKETS:
        below = round(times * sum(each <= bound for each in seen))
        lines.append(f'{name}_bucket{{{inside},le="{bound}"}} {below}')
    whole = round(times * len(seen))
    lines.append(f'{name}_bucket{{{inside},le="+Inf"}} {whole}')
    lines.append(f"{name}_count{label} {whole}")
    lines.append(f"{name}_sum{label} {times * sum(seen):.3f}")
    return lines
