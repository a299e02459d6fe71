"""What a watched process and its workers hold is accounted to its server, as of a container."""

import os
import subprocess
import sys

import pytest

from servers.contexts import pages
from servers.host.kernel.proc import Kernel
from servers.host.kernel.processes import ProcessId
from servers.models import Box
from servers.watcher.external.processes import ProcessTree
from tests import factories, samples
from tests.external.monitoring import rows

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]
# A parent with a worker, which it outlives by nothing.
PROGRAM = """
import os, time
if os.fork() == 0:
    print(os.getpid(), flush=True)
    time.sleep(600)
time.sleep(600)
"""


def of(pid: int) -> ProcessId:
    said = Kernel().life(pid)
    assert said is not None
    return ProcessId.from_process(pid, said.start, Kernel())


def test_a_worker_counts_as_its_engine_also_when_that_has_ended() -> None:
    box: Box = factories.box("rtx8")
    engine = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE)
    assert engine.stdout is not None
    worker = of(int(engine.stdout.readline()))
    key = str(of(engine.pid))
    run = rows.watched(box, container_id=key, origin={"is_process": True, "name": "process 1"})
    belonging = ProcessTree(lambda: None)
    belonging.follow(box)
    process = samples.process(worker.pid, None) | {"start": worker.start}
    stranger = samples.process(1, None) | {"start": 1}
    sample = samples.sample([samples.card(0, [(worker.pid, 33.5)])], [process, stranger])

    told = belonging.label_processes(sample)

    assert [each["container"] for each in told["processes"]] == [key, None]
    factories.tell(box, told)
    (gpu,) = pages.panel(box).gpus
    assert gpu.ledger is not None
    (part,) = (part for part in gpu.ledger.parts if part.kind == "server")
    assert part.name == run.server.slug
    engine.kill()
    engine.wait()
    # It is left to the box's first process, and still holds what its engine did.
    assert belonging.label_processes(sample)["processes"][0]["container"] == key
    os.kill(worker.pid, 9)
    engine.stdout.close()
