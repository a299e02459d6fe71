"""How many ordinary lines of a log are read for phases in one second of a core."""

import time
from collections.abc import Iterator

from servers.judge.logs.phases.reader import Reader
from tests.bench.result import BenchResult

LIMIT = 100_000
ORDINARY = [
    "(APIServer pid=1) INFO 11-01 10:00:10 [launcher.py:46] Route: /v1/completions, Methods: POST",
    "/usr/lib/python3/dist-packages/torch/_dynamo/variables/functions.py:1575: UserWarning: a call",
    "(Worker_TP1 pid=23) DEBUG 11-01 10:00:10 [shm_broadcast.py:12] of nothing in particular",
    "[2026-03-30 14:21:45] INFO: 127.0.0.1:52234 - 'GET /model_info HTTP/1.1' 200 OK",
]
ROUNDS = 50_000


def bench() -> Iterator[BenchResult]:
    for engine in ("vllm", "sglang", "llamacpp", ""):
        reader = Reader(engine)
        began = time.process_time()
        for number in range(ROUNDS):
            for line in ORDINARY:
                reader.feed(number, line)
        took = time.process_time() - began
        yield BenchResult(
            name=f"phases: lines read, {engine or 'engine not known'}",
            value=ROUNDS * len(ORDINARY) / took,
            unit="lines/s of one core",
            limit=LIMIT,
            is_floor=True,
        )
