"""What a check-up costs the machine that sends it, and the pages beside it.

64 answers at once with 40 events a second each, from a scripted engine. Pages, and requests through
the gateway to another engine, are sent in turns beside such streams that nobody looks at, and beside
a check-up (A B A B): what the measured engine takes is in both.
"""

import json
import statistics
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import psutil

from servers.host.benchmarks.generator import PointPlan
from servers.host.benchmarks.orders import LoadLimits
from servers.host.benchmarks.process import GeneratorError, LoadGenerator
from servers.host.benchmarks.requests import BenchmarkTarget, Message, build_body
from servers.host.benchmarks.streams import EngineStreams
from tests.bench import gateway, pages, processes, streams
from tests.bench.result import BenchResult, percentile, progress
from tests.chat_stack import chat_stack
from tests.scripted_engine import MODEL

STREAMS, EVENTS, A_SECOND = 64, 400, 40
LIMIT = 25.0  # % of a core
TURNS = 5
SLOWER = 10.0  # % of a median, in which two turns differ by chance
SLOWER_TAIL = 25.0  # the same of a 95th percentile
_PATH = "/profiles/"
_WARM = 10  # requests


def bench() -> Iterator[BenchResult]:
    with _engine() as target:
        yield _measure_cpu(target)
        yield from _measure_web(target)


def _measure_cpu(target: BenchmarkTarget) -> BenchResult:
    with LoadGenerator(target, _LIMITS) as generator:
        generator.measure(_plan(events=1), lambda _timing: None)  # it has begun
        shares: list[float] = []

        def measure() -> object:
            return generator.measure(_plan(), lambda _timing: None)

        for _turn in range(3):
            [share] = processes.cpu_percent([psutil.Process(generator.pid)], measure).values()
            shares.append(share)
    return BenchResult(
        name=f"check-up: CPU of {STREAMS} streams of {A_SECOND} events a second",
        value=statistics.median(shares), unit="% of a core", limit=LIMIT,
    )  # fmt: skip


def _measure_web(target: BenchmarkTarget) -> Iterator[BenchResult]:
    """A page, and a request through the gateway to another server than the one that is measured."""
    ratios: dict[tuple[str, int], list[float]] = defaultdict(list)
    with streams.engine() as port, chat_stack(port) as stack:
        token = stack.shell(gateway.KEY).strip()
        asking = gateway.asked_by_key(stack, token)
        cookie = stack.web.cookie("ada")

        def ask_page() -> list[float]:
            return pages.times(stack.web, _PATH, f"{cookie['name']}={cookie['value']}")

        def ask_gateway() -> list[float]:
            return _time_requests(asking)

        asked = {"a page": ask_page, "a gateway request": ask_gateway}
        for _turn in range(TURNS):
            taken = []
            for load in (_drain, _load):
                with load(target):
                    taken.append({name: ask() for name, ask in asked.items()})
            for name in asked:
                for percent in (50, 95):
                    without, beside = (percentile(each[name], percent) for each in taken)
                    ratios[name, percent].append(beside / without)
                    progress(
                        f"{name}, p{percent}: {without:.1f} ms without a check-up, "
                        f"{beside:.1f} ms beside one"
                    )
    for (name, percent), found in ratios.items():
        yield BenchResult(
            name=f"check-up of another server: {name} takes longer beside it, p{percent}",
            value=100 * (statistics.median(found) - 1), unit="%",
            limit=SLOWER if percent == 50 else SLOWER_TAIL,
        )  # fmt: skip


def _time_requests(way: streams.BenchWay) -> list[float]:
    """Milliseconds from each request to the end of its short answer."""
    body = way.body([{"role": "user", "content": '{"deltas": [{"content": "word "}]}'}])
    took = []
    with httpx.Client(timeout=120) as client:
        for _request in range(_WARM + pages.REQUESTS):
            began = time.perf_counter()
            client.post(way.url, json=body, headers=way.headers).raise_for_status()
            took.append(1000 * (time.perf_counter() - began))
    return took[_WARM:]


@contextmanager
def _drain(target: BenchmarkTarget) -> Iterator[None]:
    """The same streams, read by a process that throws them away."""
    streams = EngineStreams(target.url, {}, None)
    prompt: list[Message] = [{"role": "user", "content": _plan().prompts[0]}]
    request = streams.write(build_body(target, prompt, EVENTS))
    words = [sys.executable, "-m", "tests.bench.drain", target.url, str(STREAMS)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as draining:
        assert draining.stdin is not None
        assert draining.stdout is not None
        draining.stdin.write(request)
        draining.stdin.close()
        draining.stdout.readline()  # it reads
        try:
            yield
        finally:
            draining.kill()


@contextmanager
def _load(target: BenchmarkTarget) -> Iterator[None]:
    """Streams until it is left."""
    has_begun = threading.Event()
    with LoadGenerator(target, _LIMITS) as generator:

        def send() -> None:
            plan = _plan(requests=100 * STREAMS)
            try:
                generator.measure(_plan(events=1), lambda _timing: None)
                has_begun.set()
                generator.measure(plan, lambda _timing: None)
            except GeneratorError:  # it was stopped
                pass

        sending = threading.Thread(target=send)
        sending.start()
        has_begun.wait()
        try:
            yield
        finally:
            generator.stop()
            sending.join()


def _plan(events: int = EVENTS, requests: int = STREAMS) -> PointPlan:
    script = {"deltas": [{"content": "word "}] * events, "delay": 1 / A_SECOND}
    return PointPlan(
        concurrency=STREAMS, requests=requests, seconds=600, output_tokens=events,
        prompts=(json.dumps(script),),
    )  # fmt: skip


_LIMITS = LoadLimits(seconds=900, requests=1_000_000)


@contextmanager
def _engine() -> Iterator[BenchmarkTarget]:
    words = [sys.executable, "-m", "tests.scripted_engine"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as engine:
        assert engine.stdout is not None
        port = int(engine.stdout.readline())
        try:
            url = f"http://127.0.0.1:{port}/v1/chat/completions"
            yield BenchmarkTarget(url=url, model=MODEL, headers={})
        finally:
            engine.terminate()
