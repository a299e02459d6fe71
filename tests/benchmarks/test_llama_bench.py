"""llama-bench itself, in a container beside llama.cpp, as a check-up runs it."""

import pytest

from servers.host.docker.containers import DockerContainers
from servers.judge.benchmarks import engine_bench
from tests import llamacpp
from tests.benchmarks.real_engine import measure

pytestmark = [
    pytest.mark.docker,
    pytest.mark.llamacpp,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("own_redis"),
]


@pytest.mark.takes(60)
def test_llama_bench_is_run_and_read(worker: DockerContainers) -> None:
    llamacpp.provide(worker.host)

    [point] = measure(
        worker, llamacpp.MODEL.parent, command="llama-bench -m /models/", engine="llamacpp",
        image=llamacpp.TAG, checkpoint=f"/models/{llamacpp.MODEL.name}",
        flags=("--ctx-size", "4096", "--metrics"),
    )  # fmt: skip

    assert point.label == "One person"
    assert len(point.rounds) == engine_bench.ROUNDS
    for figures in point.rounds:
        assert None not in (figures.user_rate, figures.prefill_rate)
