"""What the whole of inferdash takes while nobody looks and no engine runs."""

import time
from collections.abc import Iterator

from tests import docker_engine
from tests.bench.processes import cpu_percent, pss, tree
from tests.bench.result import BenchResult, progress
from tests.installation import installation
from tests.nvml import profiles

SETTLE = 20.0  # seconds after the start
SECONDS = 60.0
CPU_LIMIT = 2.0
MEMORY_LIMIT = 450.0


def bench() -> Iterator[BenchResult]:
    with (
        docker_engine.lease() as host,
        installation(host, profiles.rtx_pro_6000()) as place,
    ):
        time.sleep(SETTLE)
        processes = tree(place.up.process.pid)
        used = cpu_percent(processes, lambda: time.sleep(SECONDS))
        memory = {each: pss(each) for each in processes}
        names = {each: " ".join(each.cmdline()[1:5]) for each in processes}
        assert set(tree(place.up.process.pid)) == set(processes), "a process came or went"
    for each, percent in used.items():
        progress(f"{percent:5.2f} %  {memory[each]:6.1f} MB  {names[each]}")
    yield BenchResult(
        name="idle: web, worker, watcher, collector, supervisor and Redis, CPU",
        value=sum(used.values()),
        unit="% of one core",
        limit=CPU_LIMIT,
    )
    yield BenchResult(
        name="idle: the same together, memory (PSS)",
        value=sum(memory.values()),
        unit="MB",
        limit=MEMORY_LIMIT,
    )
