"""How fast the log is.

Throughput is judged against `docker logs -f` reading the same container in the same run.
Latency is from the container's write (its own clock, in the line) to the browser's DOM,
seen by a MutationObserver.
"""

import asyncio
import contextlib
import json
import sqlite3
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from websockets.asyncio.client import connect
from websockets.typing import Origin

from servers.host.docker.containers import DockerContainers, Spec
from tests import docker_engine
from tests.base_images import BASE
from tests.bench.result import BenchResult, percentile, progress
from tests.browser.chromium import chromium
from tests.chat_stack import ROOT, Stack, chat_stack
from tests.web_stack import WebStack

LINES = 200_000
WHOLE, ROTATED = "100m", "10m"  # the lines take about 30 MB as json-file writes them
THROUGHPUT_LIMIT = 2.0  # our time over docker's
P50_LIMIT, P99_LIMIT, VIEWERS_LIMIT = 100.0, 300.0, 1000.0  # ms
VIEWERS = 50
SECONDS = 10
PATIENCE = 120  # seconds for lines to be stored

FAST = f"""
for n in range({LINES}):
    print('a line of an engine log that is about as long as such lines are, number', n)
"""
PACED = f"""
import time
time.sleep(6)
start = time.time()
for n in range(1000 * {SECONDS}):
    wait = start + n / 1000 - time.time()
    if wait > 0: time.sleep(wait)
    print(f'at {{time.time():.6f}} a line of an engine log, number {{n}}', flush=True)
"""
WATCH = """
() => {
  window.late = [];
  const seen = new Set();
  new MutationObserver((changes) => {
    const now = Date.now() / 1000;
    for (const change of changes) for (const node of change.addedNodes) {
      const found = /at (\\d+\\.\\d+) a line .* number (\\d+)/.exec(node.textContent);
      if (!found || seen.has(found[2])) continue;
      seen.add(found[2]);
      window.late.push((now - Number(found[1])) * 1000);
    }
  }).observe(document.querySelector('.log-rows'), { childList: true });
}
"""


def bench() -> Iterator[BenchResult]:
    with docker_engine.lease() as host, chat_stack(9) as stack:
        docker = DockerContainers(str(uuid.uuid4()), host)
        try:
            yield throughput(docker, stack)
            yield throughput(docker, stack, rotated=True)
            yield from latency(docker, stack)
            yield viewers(docker, stack)
        finally:
            for container in docker.list_ours():
                docker.remove(container.id)


def throughput(docker: DockerContainers, stack: Stack, *, rotated: bool = False) -> BenchResult:
    """Both read the log of a container that has just ended, taking turns, three times."""
    ratios = []
    for _turn in range(3):
        with running(docker, FAST, log_max_size=ROTATED if rotated else WHOLE) as made:
            for _line in docker.logs(made, follow=True):
                pass
            theirs = docker_reads(docker, made)
            empty(stack)
            with following(docker, stack, made):
                ours = first_to_last_stored(stack)
        ratios.append(ours / theirs)
        progress(f"docker logs {theirs:.2f} s, stored in {ours:.2f} s")
    ratio = statistics.median(ratios)
    files = " in several rotated files" if rotated else ""
    return BenchResult(
        name=f"log: storing {LINES:,} lines{files} over docker logs -f reading them",
        value=ratio,
        unit="ratio",
        limit=THROUGHPUT_LIMIT,
    )


def docker_reads(docker: DockerContainers, made: str) -> float:
    started = time.monotonic()
    words = ["docker", "-H", docker.host, "logs", "-f", "--timestamps", made]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - started


def first_to_last_stored(stack: Stack) -> float:
    wait_for(stack, 1)
    first = time.monotonic()
    wait_for(stack, LINES)
    assert log_lines(stack, stack.run) == LINES, f"more than {LINES} lines stored"
    return time.monotonic() - first


def latency(docker: DockerContainers, stack: Stack) -> list[BenchResult]:
    with chromium() as browser, running(docker, PACED) as made:
        empty(stack)
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        context.add_cookies([{"name": stack.cookie, "value": stack.session, "url": stack.url}])
        page = context.new_page()
        page.goto(f"{stack.url}/servers/tiny/log/")
        page.evaluate(WATCH)
        with following(docker, stack, made):
            wait_for(stack, 1000 * SECONDS)
            page.wait_for_timeout(1000)
        late = page.evaluate("window.late")
    assert len(late) > 500 * SECONDS, f"only {len(late)} lines were seen in the page"
    return [
        _late("from the write to the DOM", late, 50, P50_LIMIT),
        _late("from the write to the DOM", late, 99, P99_LIMIT),
    ]


def viewers(docker: DockerContainers, stack: Stack) -> BenchResult:
    with running(docker, PACED) as made:
        empty(stack)
        with following(docker, stack, made):
            late = asyncio.run(watched_by_many(stack))
    return _late(f"from the write to {VIEWERS} viewers", late, 99, VIEWERS_LIMIT)


async def watched_by_many(stack: Stack) -> list[float]:
    several = await asyncio.gather(*(one_viewer(stack) for _ in range(VIEWERS)))
    return [late for one in several for late in one]


async def one_viewer(stack: Stack) -> list[float]:
    late: list[float] = []
    async with connect(
        f"{stack.url.replace('http', 'ws')}/ws/runs/{stack.run}/log/",
        origin=Origin(stack.url),
        additional_headers={"Cookie": f"{stack.cookie}={stack.session}"},
        max_size=None,
    ) as socket:
        await socket.recv()
        await socket.send('{"after": 0}')
        received = 0
        while received < 1000 * SECONDS:
            message = json.loads(await asyncio.wait_for(socket.recv(), 60))
            now = time.time()
            if not isinstance(message, list):
                continue
            assert message[0] == received + 1
            received += len(message[1])
            late += [(now - float(text.split(" ", 2)[1])) * 1000 for _at, _s, text in message[1]]
    return late


@contextlib.contextmanager
def running(docker: DockerContainers, program: str, *, log_max_size: str = WHOLE) -> Iterator[str]:
    spec = Spec(
        image=BASE,
        name=f"inferdash-{docker.install[:8]}-bench",
        labels={"inferdash.install": docker.install, "inferdash.run": "1"},
        entrypoint=("python3", "-c"),
        command=(program,),
        network="none",
        log_max_size=log_max_size,
        log_max_files=5,
    )
    made = docker.run(spec).id
    yield made
    docker.remove(made)


@contextlib.contextmanager
def following(docker: DockerContainers, stack: Stack, made: str) -> Iterator[None]:
    words = ["-m", "tests.log_follower", str(stack.run), made, docker.install, docker.host]
    process = subprocess.Popen([sys.executable, *words], cwd=ROOT, env=stack.env)
    try:
        yield
        process.wait(timeout=120)
    finally:
        process.kill()
        process.wait()


def empty(stack: Stack) -> None:
    stack.shell(
        f"LogChunk.objects.filter(run={stack.run}).delete()\n"
        f"RunLog.objects.filter(run={stack.run}).update(lines=0, is_complete=False)"
    )


def log_lines(stack: Stack | WebStack, run: int) -> int:
    path = Path(stack.env["INFERDASH_DATA"]) / "inferdash.sqlite3"
    with closing(sqlite3.connect(path, timeout=20)) as database:
        query = "select lines from servers_runlog where run_id = ?"
        return int(database.execute(query, [run]).fetchone()[0])


def wait_for(stack: Stack, lines: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while (stored := log_lines(stack, stack.run)) < lines:
        assert time.monotonic() < deadline, f"{stored} lines stored of {lines} in {PATIENCE} s"
        time.sleep(0.005)


def _late(way: str, late: list[float], percent: int, limit: float) -> BenchResult:
    return BenchResult(
        name=f"log: at 1,000 lines/s {way}, p{percent}",
        value=percentile(late, percent),
        unit="ms",
        limit=limit,
    )
