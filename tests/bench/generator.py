"""What a check-up costs the machine that sends it, and the pages beside it.

64 answers at once with 40 events a second each, from a scripted engine. Pages are asked for in turns
beside such streams that nobody looks at, and beside a check-up: what the engine takes is in both.
"""

import json
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from servers.host.benchmarks.generator import PointPlan
from servers.host.benchmarks.orders import LoadLimits
from servers.host.benchmarks.process import GeneratorError, LoadGenerator
from servers.host.benchmarks.requests import BenchmarkTarget, Message, build_body
from servers.host.benchmarks.streams import EngineStreams
from tests.bench import pages, processes
from tests.bench.result import BenchResult, percentile, progress
from tests.scripted_engine import MODEL
from tests.web_stack import web_stack

STREAMS, EVENTS, A_SECOND = 64, 400, 40
LIMIT = 25.0  # % of a core
TURNS = 5
SLOWER = 10.0  # % of a page's median, in which two turns differ by chance
_PATH = "/profiles/"


def bench() -> Iterator[BenchResult]:
    with _engine() as target:
        yield _measure_cpu(target)
        yield _measure_pages(target)


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


def _measure_pages(target: BenchmarkTarget) -> BenchResult:
    ratios = []
    with web_stack() as web:
        web.run(f"from tests.bench import rows\nrows.fill(**{pages.LITTLE!r})\nrows.tell_sample()")
        cookie = web.cookie("ada")

        def ask() -> float:
            return percentile(pages.times(web, _PATH, f"{cookie['name']}={cookie['value']}"), 50)

        for _turn in range(TURNS):
            with _drain(target):
                without = ask()
            with _load(target):
                beside = ask()
            progress(f"a page: {without:.1f} ms without a check-up, {beside:.1f} ms beside one")
            ratios.append(beside / without)
    return BenchResult(
        name="check-up: a page takes longer beside it, p50",
        value=100 * (statistics.median(ratios) - 1), unit="%", limit=SLOWER,
    )  # fmt: skip


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
