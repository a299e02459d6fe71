"""What the watcher takes to follow the logs of eight busy runs: its processor time over the clock's."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from servers.host.docker.containers import DockerContainers, Spec
from tests import docker_engine
from tests.base_images import BASE
from tests.bench.log import log_lines
from tests.bench.processes import cpu_percent
from tests.bench.result import BenchResult, progress
from tests.web_stack import ROOT, WebStack, web_stack

RUNS, RATE = 8, 2000  # lines a second, each
SETTLE, SECONDS = 5.0, 20.0
LIMIT = 60.0
LINE = (
    "(EngineCore_DP0 pid=227) INFO 11-21 08:00:00 [loggers.py:248] Engine 000: Avg prompt "
    "throughput: {}.5 tokens/s, Avg generation throughput: 812.3 tokens/s, Running: 9 reqs"
)
PROGRAM = f"""
import sys, time
start, n = time.monotonic(), 0
while True:
    due = int((time.monotonic() - start) * {RATE})
    for n in range(n, due):
        print({LINE!r}.format(n))
    n = max(n, due)
    sys.stdout.flush()
    time.sleep(0.01)
"""
ROWS = """
box = factories.box("rtx8")
for number, container in enumerate({containers!r}):
    on = factories.server(box, f"talks-{{number}}", model="qwen3-8b", engine="vllm")
    factories.run(on, RunState.READY, container_id=container, address=None, port=None)
print(" ".join(str(run.pk) for run in Run.objects.order_by("pk")))
"""


def bench() -> Iterator[BenchResult]:
    with docker_engine.lease() as host, web_stack() as web:
        install = (Path(web.env["INFERDASH_DATA"]) / "install.id").read_text().strip()
        docker = DockerContainers(install, host)
        try:
            containers = [_talks(docker, number) for number in range(RUNS)]
            runs = [int(each) for each in web.run(ROWS.format(containers=containers)).split()]
            yield from _followed(web, host, runs)
        finally:
            for container in docker.list_ours():
                docker.remove(container.id)


def _followed(web: WebStack, host: str, runs: list[int]) -> Iterator[BenchResult]:
    with _watching(web, host) as watcher:
        time.sleep(SETTLE)
        before = [log_lines(web, run) for run in runs]
        began = time.monotonic()
        used = cpu_percent([psutil.Process(watcher.pid)], lambda: time.sleep(SECONDS))
        took = time.monotonic() - began
        read = [
            now - then for now, then in zip((log_lines(web, r) for r in runs), before, strict=True)
        ]
    rates = [count / took for count in read]
    progress(f"stored {min(rates):.0f} to {max(rates):.0f} lines/s of each run")
    progress(f"{sum(used.values()) * 1e4 / sum(rates):.1f} µs of processor time a line")
    what = f"log: following {RUNS} runs at {RATE:,} lines/s each"
    yield BenchResult(
        name=f"{what}, watcher's CPU",
        value=sum(used.values()),
        unit="% of one core",
        limit=LIMIT,
    )
    yield BenchResult(
        name=f"{what}, stored of the slowest",
        value=min(rates),
        unit="lines/s",
        limit=0.95 * RATE,
        is_floor=True,
    )


def _talks(docker: DockerContainers, number: int) -> str:
    spec = Spec(
        image=BASE,
        name=f"inferdash-{docker.install[:8]}-talks-{number}",
        labels={"inferdash.install": docker.install},
        entrypoint=("python3", "-c"),
        command=(PROGRAM,),
        network="none",
    )
    return docker.run(spec).id


@contextmanager
def _watching(web: WebStack, host: str) -> "Iterator[subprocess.Popen[bytes]]":
    words = [sys.executable, "manage.py", "watch"]
    process = subprocess.Popen(words, cwd=ROOT, env=web.env | {"DOCKER_HOST": host})
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=30)
