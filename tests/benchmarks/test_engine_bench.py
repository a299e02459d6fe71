"""The engines' own benchmark programs, in a container beside the engine."""

import shlex
from dataclasses import dataclass, replace

import pytest
from django.utils import timezone

from servers.host.docker import throwaway
from servers.host.docker.containers import DockerContainers, Spec
from servers.host.runs import probes
from servers.host.runs.probes import Endpoint
from servers.judge.benchmarks import engine_bench
from servers.judge.benchmarks.engine_bench import SHAPES, find_bench
from servers.judge.runs import limits
from servers.launch.engines import ENGINES
from servers.launch.engines.launch import Launch
from servers.lifecycle.benchmarks import commands
from servers.lifecycle.benchmarks.results import read_points
from servers.models import Benchmark, Run
from servers.models.runs.run import ManagedServer, RunState
from tests import factories
from tests.base_images import BASE, ENGINE
from tests.cases import Cases
from tests.jobs import obey
from tests.lifecycle.starts import started
from tests.waiting import wait_until

FLAGS: dict[str, tuple[str, ...]] = {
    "vllm": ("--trust-remote-code", "--port", "9000"),
    "sglang": ("--tokenizer-path", "/models/words"),
    "llamacpp": ("-ngl", "99", "-ts", "1,1", "--flash-attn", "on", "--threads", "auto"),
}
WORDS = {
    "vllm": (
        "--base-url http://127.0.0.1:9000", "--model m/x", "--served-model-name it",
        "--max-concurrency 8", "--seed 7", "--trust-remote-code", "--ignore-eos",
        "--temperature 0",
    ),
    "sglang": (
        "-m sglang.bench_serving", "--base-url http://127.0.0.1:30000", "--model it",
        "--tokenizer /models/words", "--random-range-ratio 1", "--warmup-requests 8",
    ),
    "llamacpp": ("llama-bench", "-hf m/x", "-ngl 99", "-ts 1/1", "-fa 1", "-r 3 -o json"),
}  # fmt: skip


@dataclass(frozen=True)
class ShownBench:
    title: str
    command: str
    labels: tuple[str, ...] = ("One person", "People at once: 8")
    rounds: int = 1


SHOWN = {
    "vllm": ShownBench("vllm bench serve", "vllm bench serve --backend"),
    "sglang": ShownBench("SGLang bench_serving", "python3 -m sglang.bench_serving"),
    "llamacpp": ShownBench("llama-bench", "llama-bench -hf m/x -p 512", ("One person",), 3),
}


def test_each_engine_has_its_command() -> None:
    with Cases() as cases:
        for key, wanted in WORDS.items():
            launch = Launch(
                engine=key, image="i", checkpoint="m/x", flags=FLAGS[key], served_name="it"
            )
            bench = find_bench(ENGINES[key])
            assert bench is not None
            said = shlex.join(bench.list_words(launch, ENGINES[key], SHAPES[1], 7))
            for words in wanted:
                with cases.named(f"{key}: {words}"):
                    assert words in said
        with cases.named("what is the server’s alone"):
            assert "-t auto" not in said
        with cases.named("what serves no models"):
            assert find_bench(ENGINES["other"]) is None


def test_only_the_network_of_its_own_engine_is_shared() -> None:
    beside = Spec(image="i", network="container:abc")
    with Cases() as cases:
        with cases.named("its own"):
            assert not limits.refusals(beside, limits.Limits(), beside="abc")
        with cases.named("somebody’s"):
            assert limits.refusals(beside, limits.Limits(), beside="abcd")
        with cases.named("nobody’s"):
            assert limits.refusals(replace(beside, network="container:"), limits.Limits())
        with cases.named("processes"):
            spied = replace(beside, network="none", pid="container:abc")
            assert limits.refusals(spied, limits.Limits(), beside="abc")


@pytest.mark.docker
@pytest.mark.takes(40)
@pytest.mark.usefixtures("worker", "own_redis")
@pytest.mark.django_db(transaction=True)
def test_its_figures_become_a_result(
    worker: DockerContainers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a server that other machines do not reach."""
    with Cases() as cases:
        for engine, shown in SHOWN.items():
            monkeypatch.setattr(engine_bench, "ROUNDS", shown.rounds)
            server = serve(engine)
            made = commands.ask(server, "engine", by=factories.person())
            obey(server.box)
            found = Benchmark.objects.with_details().get(pk=made.pk)
            run = server.run
            assert run is not None
            worker.remove(run.container_id)
            with cases.named(engine):
                assert (found.state, found.why, found.is_clean) == ("done", "", True)
                points = read_points(found)
                assert [each.label for each in points] == list(shown.labels)
                assert {len(each.rounds) for each in points} == {shown.rounds}
                assert all(each.user_rate for point in points for each in point.rounds)
                assert found.title == shown.title
                assert found.measured_on["command"].startswith(shown.command)
            with cases.named(f"{engine} leaves nothing"):
                assert throwaway.drop_leftovers(worker, "bench") == 0
        with cases.named("an image without it"):
            server = serve("vllm", box="bare")
            run = server.run
            assert run is not None
            found = commands.ask(server, "engine", by=factories.person())
            Run.objects.filter(pk=run.pk).update(image_id=BASE)
            obey(server.box)
            found = Benchmark.objects.with_details().get(pk=found.pk)
            assert (found.state, found.why) == (
                "failed", f"The image {ENGINE} has no vllm bench serve.",
            )  # fmt: skip


def serve(engine: str, box: str = "") -> ManagedServer:
    box = box or engine
    made = factories.server(
        factories.box(box), box, engine=engine, image=ENGINE, checkpoint="m/x",
        env={"ENGINE_SECONDS": "0", "ENGINE_FLAVOR": engine}, gpus="none", mount_hf_cache=False,
        flags=("--enable-metrics",) if engine == "sglang" else ("--metrics",),
    )  # fmt: skip
    run = started(made)
    assert run.address
    assert run.port
    endpoint = Endpoint(address=run.address, port=run.port)
    wait_until(lambda: probes.models(endpoint), "the engine serves")
    Run.objects.filter(pk=run.pk).move(
        old=list(RunState), new=RunState.READY, ready_at=timezone.now()
    )
    made.refresh_from_db()
    return made
