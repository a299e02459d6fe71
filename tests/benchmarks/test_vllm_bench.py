"""`vllm bench serve` itself, in a container beside vLLM on the CPU, as a check-up runs it."""

import pytest

from servers.host.docker.containers import DockerContainers
from servers.judge.benchmarks import engine_bench
from tests.benchmarks.real_engine import measure
from tests.vllm import build, image

pytestmark = [
    pytest.mark.docker,
    pytest.mark.vllm,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("own_redis"),
]


@pytest.mark.takes(240)
def test_vllm_bench_serve_is_run_and_read(
    worker: DockerContainers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_bench, "ROUNDS", 1)
    image.provide(worker.host)

    one, many = measure(
        worker, build.MODEL.parent, command="vllm bench serve --backend openai-chat",
        engine="vllm", image=build.TAG, checkpoint=f"/models/{build.MODEL.name}",
        served_name="tiny", shm_size=1 << 30,
        flags=("--max-model-len", "1024", "--enforce-eager", "--max-num-seqs", "8"),
        env={
            "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1",
            "TORCH_COMPILE_DISABLE": "1",
        },
    )  # fmt: skip

    assert [one.label, many.label] == ["One person", "People at once: 8"]
    for point in (one, many):
        [figures] = point.rounds
        assert figures.failed == 0
        assert figures.output_tokens == figures.requests * engine_bench.OUTPUT
        assert None not in (figures.ttft, figures.tpot, figures.e2el, figures.user_rate)
