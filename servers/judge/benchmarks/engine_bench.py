"""The engine's own benchmark program: its command for each round, and the shapes that it measures.

Sources: vllm/benchmarks/serve.py, python/sglang/bench_serving.py, tools/llama-bench of llama.cpp.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from servers.judge.benchmarks.presets import BenchmarkPreset
from servers.launch.engines.engine import Engine, flag_value
from servers.launch.engines.launch import Launch

KEY, VERSION = "engine", 2
PROMPT, OUTPUT = 512, 128  # tokens
ROUNDS = 3
RESULT = "/tmp/inferdash-bench.json"  # noqa: S108 - in a container of its own
# Its figures alone reach the standard output: what it prints besides is for people.
_PRINT = f'PATH="$PATH:/app"; "$@" >&2 && cat {RESULT}'
_AS_IT_IS = 'PATH="$PATH:/app"; exec "$@"'


@dataclass(frozen=True, kw_only=True)
class BenchShape:
    name: str
    people: int
    requests: int


SHAPES = (
    BenchShape(name="One person", people=1, requests=4),
    BenchShape(name="People at once", people=8, requests=32),
)


@dataclass(frozen=True, kw_only=True)
class EngineBench:
    """`loads_model`: it loads the model once more, and speaks to no server; all rounds are one run."""

    title: str
    loads_model: bool = False
    build: Callable[[Launch, Engine, BenchShape, int], Iterator[str]]

    @property
    def shapes(self) -> tuple[BenchShape, ...]:
        return SHAPES[:1] if self.loads_model else SHAPES

    @property
    def rounds(self) -> int:
        """Of a shape, each a run of the program."""
        return 1 if self.loads_model else ROUNDS

    def list_words(
        self, launch: Launch, engine: Engine, shape: BenchShape, seed: int
    ) -> tuple[str, ...]:
        """Program and arguments. Each round needs a seed of its own: the same prompts twice would
        come from the cache."""
        return tuple(self.build(launch, engine, shape, seed))

    def wrap(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """The same for a container whose standard output is to be the result alone."""
        return ("/bin/sh", "-c", _AS_IT_IS if self.loads_model else _PRINT, "bench", *words)


def find_bench(engine: Engine) -> EngineBench | None:
    """None for engines that bring none."""
    return _BENCHES.get(engine.key)


def build_preset(bench: EngineBench) -> BenchmarkPreset:
    rounds = bench.rounds * len(bench.shapes)
    return BenchmarkPreset(
        key=KEY, version=VERSION, title=bench.title, answers="", is_depth=False,
        limit_seconds=1800, limit_requests=rounds * max(each.requests for each in SHAPES),
        points=(),
    )  # fmt: skip


def _build_vllm(launch: Launch, engine: Engine, shape: BenchShape, seed: int) -> Iterator[str]:
    yield from ("vllm", "bench", "serve", "--backend", "openai-chat")
    yield from ("--endpoint", "/v1/chat/completions")
    yield from ("--base-url", f"http://127.0.0.1:{engine.port(launch)}")
    yield from ("--model", _find_tokenizer(launch, "--tokenizer"))
    yield from ("--served-model-name", engine.served_name(launch))
    yield from ("--dataset-name", "random")
    yield from ("--random-input-len", str(PROMPT), "--random-output-len", str(OUTPUT))
    yield from ("--num-prompts", str(shape.requests), "--max-concurrency", str(shape.people))
    yield from ("--ignore-eos", "--seed", str(seed))
    yield from ("--temperature", "0")  # as ours; without it, the model's own
    yield from ("--percentile-metrics", "ttft,tpot,itl,e2el")
    yield from ("--metric-percentiles", "90,99", "--disable-tqdm")
    if flag_value(launch.flags, "--trust-remote-code") is not None:
        yield "--trust-remote-code"
    folder, _slash, name = RESULT.rpartition("/")
    yield from ("--save-result", "--result-dir", folder, "--result-filename", name)


def _build_sglang(launch: Launch, engine: Engine, shape: BenchShape, seed: int) -> Iterator[str]:
    yield from ("python3", "-m", "sglang.bench_serving", "--backend", "sglang-oai-chat")
    yield from ("--base-url", f"http://127.0.0.1:{engine.port(launch)}")
    yield from ("--model", engine.served_name(launch))
    yield from ("--tokenizer", _find_tokenizer(launch, "--tokenizer-path"))
    # "random" takes its text from ShareGPT, which it would download. 1: all of the same length.
    yield from ("--dataset-name", "random-ids", "--random-range-ratio", "1")
    yield from ("--random-input-len", str(PROMPT), "--random-output-len", str(OUTPUT))
    yield from ("--num-prompts", str(shape.requests), "--max-concurrency", str(shape.people))
    yield from ("--warmup-requests", str(shape.people), "--seed", str(seed), "--disable-tqdm")
    yield from ("--output-file", RESULT)


def _find_tokenizer(launch: Launch, flag: str) -> str:
    """A folder, or a model of the mounted cache."""
    return flag_value(launch.flags, flag) or (
        flag_value(launch.flags, "--model", "--model-path") or launch.checkpoint
    )


# What llama-bench calls as it does, by the server's names.
_LLAMA_FLAGS = (
    (("-ngl", "--gpu-layers", "--n-gpu-layers"), "-ngl"),
    (("-ncmoe", "--n-cpu-moe"), "-ncmoe"),
    (("-ot", "--override-tensor"), "-ot"),
    (("-t", "--threads"), "-t"),
    (("-b", "--batch-size"), "-b"),
    (("-ub", "--ubatch-size"), "-ub"),
    (("-ctk", "--cache-type-k"), "-ctk"),
    (("-ctv", "--cache-type-v"), "-ctv"),
    (("-sm", "--split-mode"), "-sm"),
    (("-mg", "--main-gpu"), "-mg"),
    (("-ts", "--tensor-split"), "-ts"),
)
_FLASH = {"on": "1", "off": "0", "1": "1", "0": "0"}


def _build_llamacpp(
    launch: Launch, engine: Engine, _shape: BenchShape, _seed: int
) -> Iterator[str]:
    yield "llama-bench"
    own = engine.own_flags(launch, "", ())
    words = (*own, *launch.flags)
    if file := flag_value(words, "-m", "--model"):
        yield from ("-m", file)
    else:
        yield from ("-hf", flag_value(words, "-hf", "-hfr", "--hf-repo") or launch.checkpoint)
    for names, its_own in _LLAMA_FLAGS:
        value = flag_value(launch.flags, *names)
        # "auto" and "all" are the server's alone.
        if value and value not in ("auto", "all"):
            # A list with commas would be several runs.
            yield from (its_own, value.replace(",", "/") if its_own == "-ts" else value)
    flash = _FLASH.get(flag_value(launch.flags, "-fa", "--flash-attn") or "")
    if flash:
        yield from ("-fa", flash)
    yield from ("-p", str(PROMPT), "-n", str(OUTPUT), "-r", str(ROUNDS), "-o", "json")


_BENCHES = {
    "vllm": EngineBench(title="vllm bench serve", build=_build_vllm),
    "sglang": EngineBench(title="SGLang bench_serving", build=_build_sglang),
    "llamacpp": EngineBench(title="llama-bench", loads_model=True, build=_build_llamacpp),
}
