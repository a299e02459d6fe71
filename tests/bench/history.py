"""What a month of eight cards takes in the database, and how long the page waits for it."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests import migrated
from tests.bench.result import BenchResult, progress
from tests.terminal import ROOT

CARDS = 8
MOST_MIB = 500
MINUTES = 30
# Seconds of CPU that a minute may take to be written, and a range to be put together.
WRITE = 0.5
ANSWER = 2.0

PREPARE = """
import time
import django
django.setup()
from servers.judge.memory import history
from servers.models import Box, HistoryChunk
from tests import factories, past, samples
NOW = 1_795_262_400
"""
FILL = f"""
past.fill(factories.box("rtx8"), NOW, gpus={CARDS})
"""
WRITE_ON = f"""
from servers.watcher.memory.monitor import HistoryRecorder
box = Box.objects.get()
keeper = HistoryRecorder(box)
cards = [samples.card(index, [(index, 60.0 + index), (100 + index, 2.0)]) for index in range({CARDS})]
known = [samples.process(pid) for index in range({CARDS}) for pid in (index, 100 + index)]
told = samples.sample(cards, known)
took = []
for minute in range({MINUTES}):
    for second in range(60):
        for card in cards:
            card["util"] = (card["util"] + second * 7) % 100
            card["power_w"] = 300.0 + second * 1.7
        keeper.see({{**told, "t": NOW + minute * 60 + second}}) if second else None
    begun = time.process_time()
    keeper.write()
    took.append(time.process_time() - begun)
print(sum(took) / len(took))
"""
READ = """
from servers.contexts.memory import read_gpu_points
from servers.views.memory.history import _plan
box = Box.objects.get()
for seconds in (3600, 86400, 7 * 86400, 30 * 86400):
    begun = time.process_time()
    step, width = _plan(box, NOW - seconds, NOW, 1000)
    points = read_gpu_points(box, step, width, NOW - seconds, NOW)
    history.columns(points, NOW - seconds, NOW, width)
    print(seconds, len(points), time.process_time() - begun)
"""


def bench() -> Iterator[BenchResult]:
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | {
            "INFERDASH_DATA": folder,
            "DJANGO_SETTINGS_MODULE": "inferdash.settings",
            "DATABASE_URL": "",
            "REDIS_URL": f"unix://{folder}/none.sock",
        }
        migrated.put_into(Path(folder))
        empty = _size(folder)
        begun = time.monotonic()
        _run(FILL, env)
        progress(f"a month of {CARDS} cards was made in {time.monotonic() - begun:.0f} s")
        yield BenchResult(
            name=f"history: database for 30 days of {CARDS} cards",
            value=(_size(folder) - empty) / 2**20,
            unit="MiB",
            limit=MOST_MIB,
        )
        for line in _run(READ, env).splitlines():
            seconds, points, took = line.split()
            yield BenchResult(
                name=f"history: {int(seconds) // 3600} h of {CARDS} cards as {points} points",
                value=float(took),
                unit="s",
                limit=ANSWER,
            )
        yield BenchResult(
            name=f"history: a minute of {CARDS} cards written, CPU",
            value=float(_run(WRITE_ON, env).splitlines()[-1]),
            unit="s",
            limit=WRITE,
        )


def _run(code: str, env: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PREPARE + code],
        cwd=ROOT,
        env=env,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout


def _size(folder: str) -> int:
    return sum(path.stat().st_size for path in Path(folder).glob("inferdash.sqlite3*"))
