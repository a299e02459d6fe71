"""What it costs to ask eight busy engines for their figures, all day."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from tests import migrated
from tests.bench.result import BenchResult, progress
from tests.redis_server import serving
from tests.scripted_engine import ScriptedEngine
from tests.terminal import ROOT

ENGINES = 8
ROUNDS = 40
LINES = 600  # as many as vLLM writes
LIMIT = 5.0
SAMPLE = Path(ROOT) / "tests/runs/metrics/vllm-0.32-after.txt"

ASK = """
import sys
import time
import django
django.setup()
from servers.models import Run
from servers.watcher.runs.runs import ASK_EVERY, Runs
from tests import factories
box = factories.box("rtx8")
for number, port in enumerate(sys.argv[2:]):
    run = factories.run(factories.server(box, f"vllm-{number}"))
    Run.objects.filter(pk=run.pk).write(address="127.0.0.1", port=int(port), log__is_complete=True)
runs = Runs(box)
def round():
    runs._asked.clear()
    begun = time.process_time()
    runs.tick()
    return time.process_time() - begun
for _warm in range(3):
    round()
took = [round() for _ in range(int(sys.argv[1]))]
print(sum(took) / len(took) / ASK_EVERY * 100)
"""


def bench() -> Iterator[BenchResult]:
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        env = os.environ | {
            "INFERDASH_DATA": folder,
            "DJANGO_SETTINGS_MODULE": "inferdash.settings",
            "DATABASE_URL": "",
            "REDIS_URL": stack.enter_context(serving()),
        }
        migrated.put_into(Path(folder))
        ports = [str(_engine(stack).port) for _ in range(ENGINES)]
        done = subprocess.run(
            [sys.executable, "-c", ASK, str(ROUNDS), *ports],
            cwd=ROOT,
            env=env,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
    progress(f"{LINES} lines of metrics each, every two seconds")
    yield BenchResult(
        name=f"figures: {ENGINES} busy engines asked and told of, the watcher's CPU",
        value=float(done.stdout.splitlines()[-1]),
        unit="% of one core",
        limit=LIMIT,
    )


def _engine(stack: ExitStack) -> ScriptedEngine:
    engine = stack.enter_context(ScriptedEngine())
    engine.hooks["/metrics"] = _busy(engine)
    return engine


def _busy(engine: ScriptedEngine) -> Callable[[], None]:
    """With every look it has generated more."""
    own = SAMPLE.read_text().splitlines()
    more = [
        f'vllm:other_bucket{{engine="0",le="{n}.0",model_name="tiny"}} {n}' for n in range(LINES)
    ]
    text = "\n".join([*own, *more[len(own) :]])
    tokens = [685]

    def tell() -> None:
        tokens[0] += 97
        said = text.replace("} 685.0", f"}} {tokens[0]}.0").replace("} 676.0", f"}} {tokens[0]}.0")
        engine.answers["/metrics"] = (200, said)

    return tell
