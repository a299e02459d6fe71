"""An engine itself, on the CPU, that its own benchmark program measures as a check-up does."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils import timezone

from servers.host.docker import throwaway
from servers.host.docker.containers import DockerContainers
from servers.host.runs import probes
from servers.host.runs.probes import Endpoint
from servers.judge.benchmarks import engine_bench
from servers.judge.benchmarks.comparison import MeasuredPoint
from servers.lifecycle.benchmarks import commands
from servers.lifecycle.benchmarks.results import read_points
from servers.models import Benchmark, Run
from servers.models.runs.run import RunState
from tests import factories
from tests.jobs import obey
from tests.lifecycle.starts import started
from tests.waiting import wait_until


def measure(
    docker: DockerContainers, models: Path, *, command: str, **launch: Any
) -> list[MeasuredPoint]:
    """`models`: the folder that it sees as /models. `command`: how the kept one begins."""
    settings.BOX_FILE.write_text(f'mount_roots = ["{models}"]\n')
    server = factories.server(
        factories.box("rtx8"), "real", gpus="none", mount_hf_cache=False,
        volumes=(f"{models}:/models:ro",), **launch,
    )  # fmt: skip
    run = started(server)
    assert run.is_active, run.failure
    assert run.address
    assert run.port
    endpoint = Endpoint(address=run.address, port=run.port)
    wait_until(lambda: probes.models(endpoint), "it serves", patience=900, every=0.2)
    Run.objects.filter(pk=run.pk).move(
        old=list(RunState), new=RunState.READY, ready_at=timezone.now()
    )
    server.refresh_from_db()
    made = commands.ask(server, engine_bench.KEY, by=factories.person())
    obey(server.box)
    found = Benchmark.objects.with_details().get(pk=made.pk)
    assert (found.state, found.why) == ("done", "")
    assert found.measured_on["command"].startswith(command)
    assert throwaway.drop_leftovers(docker, "bench") == 0
    return read_points(found)
