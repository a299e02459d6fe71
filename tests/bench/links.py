"""What the way to a far engine costs: OpenSSH's forward and the relay of its box, against its port.

Direct and far take turns, in one run and on one machine, so that what it does besides hits both. A
chunk carries when it was sent.
"""

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import aclosing, contextmanager

import psutil

from servers.host.http import connections
from servers.host.runs.probes import Endpoint
from tests.bench.result import BenchResult, progress
from tests.links.wires import SECRET, SshWire, ssh_wire

NAME = "links"
# Streams at once, and the limit of what is added to a chunk at p50, in milliseconds.
STREAMS = ((1, 1.0), (20, 1.0), (100, 2.0))
THROUGHPUT_LIMIT = 0.97
CPU_LIMIT = 400.0  # µs; one alone wakes the relay up for each
ROUNDS = 4
PAUSE = 0.02  # seconds between two chunks of a stream: 50 a second
SECONDS = 3
APART = 0.01  # seconds between the beginnings of two streams


def bench() -> Iterator[BenchResult]:
    with (
        ssh_wire() as wire,
        _run("relay", str(wire.files.relay_socket), SECRET) as relay,
        _run("engine") as engine,
    ):
        assert engine.stdout is not None
        yield from _measure(wire, int(engine.stdout.readline()), psutil.Process(relay.pid))


@contextmanager
def _run(*words: str) -> Iterator["subprocess.Popen[str]"]:
    program = [sys.executable, "-m", "tests.bench.stamping", *words]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as running:
        try:
            if words[0] == "relay":
                assert running.stdout is not None
                running.stdout.readline()
            yield running
        finally:
            running.terminate()


def _measure(wire: SshWire, port: int, relay: psutil.Process) -> Iterator[BenchResult]:
    ways = (
        Endpoint(address="127.0.0.1", port=port),
        Endpoint(address="127.0.0.1", port=port, via=wire.way),
    )
    for count, limit in STREAMS:
        delays: list[list[float]] = [[], []]
        rates: list[list[float]] = [[], []]
        used = 0.0
        for _round in range(ROUNDS):
            for number, way in enumerate(ways):
                before = sum(relay.cpu_times()[:2])
                found, rate = connections.waited_for(_ask(way, count))
                delays[number] += found
                rates[number].append(rate)
                used += number * (sum(relay.cpu_times()[:2]) - before)
        direct, far = (statistics.median(each) * 1000 for each in delays)
        progress(f"{count}: a chunk takes {direct:.2f} ms direct, {far:.2f} ms by the wire")
        at = f"{NAME}, {count} at once"
        yield BenchResult(name=f"{at}: a chunk far minus direct, p50", value=far - direct, unit="ms", limit=limit)  # fmt: skip
        yield BenchResult(
            name=f"{at}: chunks a second far over direct",
            value=statistics.median(rates[1]) / statistics.median(rates[0]),
            unit="ratio", limit=THROUGHPUT_LIMIT, is_floor=True,
        )  # fmt: skip
        yield BenchResult(
            name=f"{at}: the relay's processor time for a chunk",
            value=1e6 * used / len(delays[1]),
            unit="µs",
            limit=CPU_LIMIT,
        )


async def _ask(way: Endpoint, count: int) -> tuple[list[float], float]:
    """Seconds of each chunk on its way, and chunks a second of all streams."""
    chunks = round(SECONDS / PAUSE)
    began = time.monotonic()
    found = await asyncio.gather(*(_follow(way, number, chunks) for number in range(count)))
    took = time.monotonic() - began
    delays = [delay for each in found for delay in each]
    if len(delays) != count * chunks:
        raise RuntimeError(f"{len(delays)} of {count * chunks} chunks came.")
    return delays, len(delays) / took


async def _follow(way: Endpoint, number: int, chunks: int) -> list[float]:
    await asyncio.sleep(number * APART)
    request = way.build_request("GET", f"/{chunks}/{PAUSE}")
    response = await connections.send(request)
    delays: list[float] = []
    try:
        rest = b""
        async with aclosing(connections.pieces(response)) as pieces:
            async for piece in pieces:
                now = time.monotonic_ns()
                *lines, rest = (rest + piece).split(b"\n")
                delays += [(now - int(line)) / 1e9 for line in lines]
    finally:
        await connections.let_go(response)
    return delays
