"""Our load generator beside the engines' own programs, on the same server, taking turns (A B A B).

Real vLLM and real llama.cpp on the CPU, with tiny models. `llama-bench` speaks to no server: it loads
the model itself, and leaves out HTTP, sampling and the chat around them. So llama.cpp stands beside
us twice: by its server's own timings of the very requests that we measure, which is the same thing
seen from its inside, and by llama-bench, which tells how much the rest of the server takes.

Our program runs in the engine's own group of the scheduler, as theirs do (`docker exec`). From
another group, Linux lets it wait a quarter of a second while the engine keeps both cores busy.
"""

import random
import statistics
import subprocess
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from servers.host.benchmarks.generator import PointPlan
from servers.host.benchmarks.orders import LoadLimits
from servers.host.benchmarks.process import LoadGenerator
from servers.host.benchmarks.requests import BenchmarkTarget
from servers.host.benchmarks.timings import RequestTiming
from servers.host.docker.containers import DockerContainers, Mount, Spec
from servers.host.runs import probes
from servers.host.runs.probes import Endpoint
from servers.judge.benchmarks.imports import read_upload
from servers.judge.benchmarks.points import PointFigures, summarise
from servers.judge.benchmarks.presets import PresetPoint, write_prompts
from tests import docker_engine, llamacpp
from tests.bench.result import BenchResult, progress
from tests.llamacpp import make_model
from tests.ports import free_port
from tests.vllm import build, image
from tests.waiting import wait_until

TURNS = 9  # of each
PEOPLE, REQUESTS, PROMPT, OUTPUT = 4, 32, 128, 64
LAYERS = 96
LIMIT = 5.0  # %
SERVER_LIMIT = 15.0  # %, of sampling, text and events, which llama-bench has not
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_NO_USAGE_STATS": "1",
    "TORCH_COMPILE_DISABLE": "1",
}
_THEIR_JSON = "/tmp/crowd.json"  # noqa: S108 - in the container

type Measure = Callable[[int], PointFigures]


def bench() -> Iterator[BenchResult]:
    with docker_engine.lease() as host:
        docker = DockerContainers(str(uuid.uuid4()), host)
        try:
            yield from _measure_vllm(docker)
            yield from _measure_llamacpp(docker)
        finally:
            for container in docker.list_ours():
                docker.remove(container.id)
            docker.close()


def _measure_vllm(docker: DockerContainers) -> Iterator[BenchResult]:
    image.provide(docker.host)
    words = (
        *(str(build.MODEL), "--served-model-name", "tiny", "--max-model-len", "1024"),
        *("--enforce-eager", "--max-num-seqs", str(PEOPLE)),
    )
    with _serve(docker, build.TAG, words, build.MODEL) as (container, endpoint):

        def measure_theirs(seed: int) -> PointFigures:
            said = _execute(
                docker, container,
                *("vllm", "bench", "serve", "--backend", "openai-chat"),
                *("--endpoint", "/v1/chat/completions", "--base-url", f"http://127.0.0.1:{endpoint.port}"),
                *("--model", str(build.MODEL), "--served-model-name", "tiny"),
                *("--dataset-name", "random", "--random-input-len", str(PROMPT)),
                *("--random-output-len", str(OUTPUT), "--num-prompts", str(REQUESTS)),
                *("--max-concurrency", str(PEOPLE), "--ignore-eos", "--seed", str(seed)),
                *("--temperature", "0"),  # as ours
                *("--percentile-metrics", "ttft,tpot,itl,e2el", "--disable-tqdm"),
                *("--save-result", "--result-dir", "/tmp"),  # noqa: S108 - in the container
                *("--result-filename", "crowd.json"),
                shows=_THEIR_JSON,
            )  # fmt: skip
            return read_upload(said).points[0].rounds[0]

        def measure_ours(seed: int) -> PointFigures:
            return _measure_ours(docker, container, endpoint, PEOPLE, REQUESTS, seed)

        yield from _compare("our crowd beside vllm bench serve", measure_ours, measure_theirs)


def _measure_llamacpp(docker: DockerContainers) -> Iterator[BenchResult]:
    llamacpp.provide(docker.host)
    model = llamacpp.MODEL.with_name(f"{LAYERS}-layers.gguf")
    if not model.exists():
        make_model.write(model, LAYERS)
    words = ("-m", str(model), "-c", "8192", "-t", "1", "--metrics")
    with _serve(docker, llamacpp.TAG, words, model) as (container, endpoint):

        def measure_bench() -> float:
            said = _execute(
                docker, container, "llama-bench", "-m", str(model), "-p", "0", "-t", "1",
                "-n", str(OUTPUT), "-d", str(PROMPT), "-r", "4", "-o", "json",
            )  # fmt: skip
            [point] = read_upload(said).points
            return statistics.median(each.user_rate or 0.0 for each in point.rounds)

        def measure_server(seed: int) -> tuple[float, float]:
            """Tokens a second after the first, as we see them, and as the server counts them."""
            counted: list[tuple[float, float]] = []
            found = _send_ours(
                docker, container, endpoint, 1, 8, seed,
                look=lambda: counted.append(_read_counters(endpoint)),
            )  # fmt: skip
            (tokens, seconds), (more_tokens, more_seconds) = counted
            spent = sum(each.stamps[-1] - each.stamps[0] for each in found)
            ours = sum((each.output_tokens or 0) - 1 for each in found) / spent
            # It counts the first token, and begins its time with it.
            return ours, (more_tokens - tokens - len(found)) / (more_seconds - seconds)

        measure_bench()  # warm
        ours, by_server, by_bench = [], [], []
        for turn in range(TURNS):
            seen, counted = measure_server(turn)
            ours.append(seen)
            by_server.append(counted)
            by_bench.append(measure_bench())
            progress(
                f"ours {seen:.1f}, llama.cpp’s own timings {counted:.1f}, "
                f"llama-bench {by_bench[-1]:.1f} tok/s"
            )
    # Both of the same requests: whatever slows one slows the other.
    ratios = [one / other for one, other in zip(ours, by_server, strict=True)]
    yield BenchResult(
        name="our one person beside llama.cpp’s own timings of the same requests",
        value=100 * abs(statistics.median(ratios) - 1), unit="%", limit=LIMIT,
    )  # fmt: skip
    shares = [one / other for one, other in zip(by_server, by_bench, strict=True)]
    yield BenchResult(
        name="llama.cpp’s server is slower by its own timings than llama-bench",
        value=100 * (1 - statistics.median(shares)), unit="%", limit=SERVER_LIMIT,
    )  # fmt: skip


def _read_counters(endpoint: Endpoint) -> tuple[float, float]:
    """Of llama.cpp: the tokens that it has written, and the seconds that it took for them."""
    with urllib.request.urlopen(str(endpoint.url("/metrics")), timeout=60) as answer:  # noqa: S310
        lines = dict(
            line.split()[:2]
            for line in answer.read().decode().splitlines()
            if line and not line.startswith("#")
        )
    return (
        float(lines["llamacpp:tokens_predicted_total"]),
        float(lines["llamacpp:tokens_predicted_seconds_total"]),
    )


@contextmanager
def _serve(
    docker: DockerContainers, tag: str, words: tuple[str, ...], model: object
) -> Iterator[tuple[str, Endpoint]]:
    """On the network of both: Docker's proxy would hold up one of them alone."""
    place, port = str(model), free_port()
    made = docker.run(
        Spec(
            image=tag, command=(*words, "--port", str(port)), network="host", labels={"inferdash.install": docker.install},
            mounts=(Mount(source=place, target=place, read_only=True),),
            env=ENVIRONMENT, shm_size=1 << 30,
        )
    )  # fmt: skip
    endpoint = Endpoint(address="127.0.0.1", port=port)
    try:
        progress(f"{tag} loads")
        wait_until(lambda: _serves(docker, made.id, endpoint), "it serves", patience=900, every=1)
        yield made.id, endpoint
    finally:
        docker.remove(made.id)


def _serves(docker: DockerContainers, container: str, endpoint: Endpoint) -> bool:
    found = docker.inspect(container)
    if found is None or found.has_ended:
        said = b"\n".join(text for _at, _stream, text in list(docker.logs(container))[-20:])
        raise RuntimeError(f"The engine has ended: {said.decode(errors='replace')}")
    return bool(probes.models(endpoint))


def _execute(docker: DockerContainers, container: str, *words: str, shows: str = "") -> bytes:
    """What the program prints, or the file that it writes."""
    script = f'"$@" >&2 && cat {shows}' if shows else 'exec "$@"'
    done = subprocess.run(
        ["docker", "-H", docker.host, "exec", container, "sh", "-c", script, "bench", *words],
        capture_output=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{words[0]} failed: {done.stderr.decode(errors='replace')[-1000:]}")
    return done.stdout


def _measure_ours(
    docker: DockerContainers,
    container: str,
    endpoint: Endpoint,
    people: int,
    requests: int,
    seed: int,
) -> PointFigures:
    found = _send_ours(docker, container, endpoint, people, requests, seed)
    figures = summarise(found, concurrency=people)
    # As theirs: of all the time, and not of its steady part; with answers that have no text, which
    # a model of random weights gives now and then.
    written = sum(each.output_tokens or 0 for each in found)
    return replace(figures, output_rate=written / figures.seconds)


def _send_ours(
    docker: DockerContainers,
    container: str,
    endpoint: Endpoint,
    people: int,
    requests: int,
    seed: int,
    look: Callable[[], object] = lambda: None,
) -> tuple[RequestTiming, ...]:
    """The requests that are measured; `look` is called right before and right after them."""
    [model] = probes.models(endpoint) or [""]
    target = BenchmarkTarget(url=str(endpoint.url(probes.CHAT_PATH)), model=model, headers={})
    chance = random.Random(seed)  # noqa: S311 - prompts, no secrets
    point = PresetPoint(
        name="", text="", prompt_tokens=PROMPT, output_tokens=OUTPUT, concurrency=people, rounds=1,
        requests=requests, seconds=600, saturates=False,
    )  # fmt: skip
    limits = LoadLimits(seconds=900, requests=requests + people + 1)
    with LoadGenerator(target, limits) as generator:
        _join_group(generator.pid, docker, container)

        def send(prompts: tuple[str, ...]) -> tuple[RequestTiming, ...]:
            plan = PointPlan(
                concurrency=people, requests=len(prompts), seconds=600, output_tokens=OUTPUT,
                prompts=prompts,
            )  # fmt: skip
            timings = generator.measure(plan, lambda _timing: None)
            progress(f"our loop was {1000 * timings.lag:.1f} ms late (99th percentile)")
            return timings.requests

        # The tokenizer of a tiny model takes more tokens for a text than a real one.
        [sample] = write_prompts(point, 1, letters=2.0, chance=chance)
        [counted] = send((sample,))
        letters = len(sample) / (counted.prompt_tokens or 1)
        send(write_prompts(point, people, letters=letters, chance=chance))  # warm
        prompts = write_prompts(point, requests, letters=letters, chance=chance)
        look()
        found = send(prompts)
        look()
    return found


def _join_group(pid: int, docker: DockerContainers, container: str) -> None:
    """Move a process into the group in which the scheduler has a container."""
    found = docker.inspect(container)
    assert found is not None
    assert found.pid
    groups = [line.split(":", 2) for line in Path(f"/proc/{found.pid}/cgroup").read_text().split()]
    for _number, controllers, path in groups:
        if controllers in ("", "cpu", "cpu,cpuacct"):
            folder = Path("/sys/fs/cgroup", controllers, path.lstrip("/"))
            if folder.is_dir():
                (folder / "cgroup.procs").write_text(str(pid))


def _compare(
    name: str,
    ours: Measure,
    theirs: Measure,
    keys: Sequence[str] = ("output_rate", "user_rate"),
) -> Iterator[BenchResult]:
    """How far the fastest turn of ours lies from the fastest of theirs, in %: what else a machine
    does can only slow one. The figures of each turn are said aside."""
    taken: list[tuple[PointFigures, PointFigures]] = []
    theirs(0)  # warm
    for turn in range(TURNS):
        taken.append((ours(2 * turn + 1), theirs(2 * turn + 2)))
        for who, figures in zip(("ours", "theirs"), taken[-1], strict=True):
            told = ", ".join(f"{key} {getattr(figures, key) or 0:.1f}" for key in keys)
            first = 1000 * figures.ttft.median if figures.ttft else 0.0
            progress(
                f"{who}: {told}, first token {first:.0f} ms, {figures.seconds:.2f} s, "
                f"{figures.prompt_tokens} tokens read, {figures.output_tokens} written"
            )
    for key in keys:
        one, other = (max(getattr(pair[side], key) or 0.0 for pair in taken) for side in (0, 1))
        yield BenchResult(
            name=f"{name}: {key}, {one:.1f} against {other:.1f} tok/s",
            value=100 * abs(one / other - 1),
            unit="%",
            limit=LIMIT,
        )
