"""Which phases a start has reached, by what its engine logs."""

import json
from pathlib import Path

import pytest

from servers.judge.logs import parsing
from servers.judge.logs.phases import reader as phases
from servers.judge.logs.phases.progress import PhaseProgress, PhaseRank, ProgressBar
from servers.judge.logs.phases.reader import PhaseRule, Reader, by_engine
from tests.cases import table

LOGS = Path(__file__).parents[1] / "phases"
STARTS = Path(__file__).parents[1] / "engine" / "starts"
RULES = [
    pytest.param(engine, rule, id=f"{engine}-{rule.id}")
    for engine, rules in by_engine().items()
    for rule in rules.rules
]


@table(("engine", "rule"), RULES)
def test_every_rule_knows_its_examples(engine: str, rule: PhaseRule) -> None:
    assert rule.examples
    for example in rule.examples:
        assert any(near in example for near in rule.near), example
        assert rule.regex.search(parsing.read(example).text), example
        assert rule.phase in phases.read([example], engine).seen, example


@table(("engine", "rule"), RULES)
def test_no_rule_of_a_phase_takes_the_lines_of_another(engine: str, rule: PhaseRule) -> None:
    for example in rule.examples:
        assert set(phases.read([example], engine).seen) <= {rule.phase}, example


def started(name: str) -> list[str]:
    """A start of the tests' engine as lines, its bars drawn as the engine draws them."""
    lines = []
    for line in (STARTS / f"{name}.txt").read_text().splitlines():
        words = line.split(maxsplit=3)
        if line.startswith("@shards"):
            total = int(words[1])
            lines += [
                f"{words[3]}: {100 * n // total:3}% Completed | {n}/{total} [00:00<00:01,  1.65it/s]"
                for n in range(total + 1)
            ]
        elif line.startswith("@bar"):
            total = int(words[1])
            bars = [
                f"{words[3]}: {100 * n // total:3}%|##  | {n}/{total} [00:00<00:01,  4.31it/s]"
                for n in range(total + 1)
            ]
            lines.append("\r".join(["", *bars]))
        elif not line.startswith("@"):
            lines.append(line.replace("\\e", "\x1b"))
    return lines


@pytest.mark.parametrize(
    ("name", "coarse"),
    [
        ("vllm", ["load_weights", "compile", "kv_cache", "cuda_graphs", "ready"]),
        ("sglang", ["load_weights", "kv_cache", "cuda_graphs", "ready"]),
        ("llamacpp", ["load_weights", "kv_cache", "ready"]),
    ],
)
def test_a_whole_start_is_followed_and_its_engine_known(name: str, coarse: list[str]) -> None:
    progress = phases.read(started(name))
    assert progress.engine == name
    assert progress.coarse == coarse
    assert progress.is_ready
    assert progress.phase == "ready"
    order = by_engine()[name].order
    places = [order[moment.phase] for moment in progress.moments]
    assert places == sorted(set(places))
    assert [m.line for m in progress.moments] == sorted(m.line for m in progress.moments)


@pytest.mark.parametrize(
    ("name", "engine", "moments", "facts"),
    [
        (
            "vllm-0.32-cpu",
            "vllm",
            ["starting", "connecting", "loading", "kv_cache", "warming_up", "ready"],
            {"version": "0.32.0", "kv_tokens": 1_048_576, "weights_seconds": 0.02},
        ),
        (
            "vllm-tp2",
            "vllm",
            [
                "starting",
                "connecting",
                "loading",
                "profiling",
                "compiling",
                "kv_cache",
                "capturing",
                "warming_up",
                "ready",
            ],
            {"version": "0.11.0", "weights_gib": 14.2711, "max_concurrency": 10.17},
        ),
        (
            "sglang-tp2",
            "sglang",
            [
                "starting",
                "connecting",
                "loading",
                "kv_cache",
                "capturing",
                "warming_up",
                "ready",
            ],
            {"kv_tokens": 181_721, "weights_seconds": 45.91, "graphs_seconds": 39.6},
        ),
        (
            "llamacpp-older",
            "llamacpp",
            ["starting", "loading", "kv_cache", "warming_up", "ready"],
            {"kv_tokens": 4096, "layers_on_gpu": 35, "weights_mib": 2893.18},
        ),
        (
            "llamacpp-0.7",
            "llamacpp",
            ["starting", "loading", "warming_up", "ready"],
            {"slots": 4, "context": 32768},
        ),
        (
            "llamacpp-0.7-verbose",
            "llamacpp",
            ["starting", "loading", "kv_cache", "warming_up", "ready"],
            {"kv_tokens": 32768, "weights_mib": 1.49, "slots": 2},
        ),
    ],
)
def test_logs_of_real_starts_are_read(
    name: str, engine: str, moments: list[str], facts: dict[str, float | str]
) -> None:
    progress = phases.read((LOGS / f"{name}.txt").read_text().splitlines())
    assert progress.engine == engine
    assert [moment.phase for moment in progress.moments] == moments
    assert facts.items() <= progress.facts.items()
    assert progress.is_ready


def test_the_slower_of_two_real_ranks_holds_the_start_in_its_phase() -> None:
    lines = (LOGS / "sglang-tp2.txt").read_text().splitlines()
    cut = next(place for place, line in enumerate(lines) if "TP0] Load weight end" in line)
    progress = phases.read(lines[: cut + 1])
    assert progress.phase == "loading"
    assert (progress.over, progress.behind) == (("TP0",), ("TP1",))
    assert progress.percent is None, "TP1 draws no bar"


def test_what_a_start_tells_of_itself_is_learned() -> None:
    facts = phases.read(started("vllm")).facts
    assert facts["version"] == "0.33.0"
    assert facts["kv_tokens"] == 162_704
    assert facts["max_concurrency"] == 10.17
    assert facts["weights_gib"] == 1.2
    assert facts["compile_seconds"] == 1.21
    assert phases.read(started("sglang")).facts["kv_tokens"] == 104_273


def test_a_reader_that_was_kept_goes_on_as_if_it_never_ended() -> None:
    for name in ("vllm", "sglang", "llamacpp"):
        lines = started(name)
        for cut in range(len(lines)):
            reader = Reader()
            reader.feed_all((n, line, "") for n, line in enumerate(lines[:cut], 1))
            reader = Reader.from_json(json.loads(json.dumps(reader.to_json())))
            reader.feed_all((n, line, "") for n, line in enumerate(lines[cut:], cut + 1))
            assert reader.progress == phases.read(lines)


def test_progress_survives_being_kept() -> None:
    progress = phases.read(started("vllm")[:9])
    assert PhaseProgress.from_json(json.loads(json.dumps(progress.to_json()))) == progress


def test_the_slowest_rank_counts() -> None:
    reader = Reader("vllm")
    begin = "INFO 11-21 10:00:00 [gpu_model_runner.py:2338] Starting to load model a/b..."
    bar = "Loading safetensors checkpoint shards: 100% Completed | 4/4 [00:09<00:00,  1.65it/s]"
    slow = "Loading safetensors checkpoint shards:  25% Completed | 1/4 [00:09<00:30,  9.65s/it]"
    end = "INFO 11-21 10:00:00 [gpu_model_runner.py:4400] Model loading took 1.2 GiB and 4.3 s"
    for rank in ("(Worker_TP0 pid=2)", "(Worker_TP1 pid=3)"):
        reader.feed(1, f"{rank} {begin}")
    reader.feed(2, f"(Worker_TP0 pid=2) {bar}")
    reader.feed(3, f"(Worker_TP1 pid=3) {slow}")
    reader.feed(4, f"(Worker_TP0 pid=2) {end}")
    progress = reader.progress
    assert progress.phase == "loading"
    assert progress.percent == 25
    assert progress.ranks == (PhaseRank(name="TP0", percent=100), PhaseRank(name="TP1", percent=25))
    assert progress.bar == ProgressBar(
        rank="TP1", label="safetensors checkpoint shards", done=1, total=4
    )
    reader.feed(5, f"(Worker_TP1 pid=3) {end}")
    assert reader.progress.phase == "profiling"


def test_a_second_bar_of_a_phase_is_added_to_the_first() -> None:
    reader = Reader("vllm")
    reader.feed(1, "Capturing CUDA graphs (PIECEWISE): 100%|###| 30/30 [00:09<00:00, 3.65it/s]")
    reader.feed(2, "Capturing CUDA graphs (decode, FULL):   0%|   | 0/20 [00:00<?, ?it/s]")
    reader.feed(3, "Capturing CUDA graphs (decode, FULL):  50%|## | 10/20 [00:09<00:03, 3.65it/s]")
    assert reader.progress.percent == 80
    assert reader.progress.bar == ProgressBar(rank="", label="decode, FULL", done=10, total=20)


def test_a_draft_model_does_not_move_a_start_back() -> None:
    lines = started("sglang")
    at = next(place for place, line in enumerate(lines) if "Capture cuda graph end" in line)
    reader = Reader()
    reader.feed_all((n, line, "") for n, line in enumerate(lines[: at + 1], 1))
    reader.feed(90, "[2026-11-21 08:00:11] Load weight begin. avail mem=9.31 GB")
    reader.feed(91, "Multi-thread loading shards:  50% Completed | 1/2 [00:01<00:01,  1.78it/s]")
    assert reader.progress.phase == "capturing"


@table(
    "line",
    [
        "Please wait until you see: Application startup complete.",
        "INFO 11-21 10:00:00 [x.py:1] KV cache size matters; see --kv-cache-dtype",
        "[2026-11-21 10:00:00] see 'The server is fired up and ready to roll!' in the log",
        "torch.compile takes long; set TORCHINDUCTOR_CACHE_DIR",
        "Capturing CUDA graphs failed: out of memory",
        "Loading weights from a cache",
        "WARNING: Load weight begin is slow",
        "INFO: HTTP server is listening, hostname: 127.0.0.1, port: 8080, http threads: 31",
        "Failed to load model: Starting to load model",
    ],
)
def test_a_line_that_only_mentions_a_phase_does_not_reach_it(line: str) -> None:
    for engine in ("", "vllm", "sglang", "llamacpp"):
        assert phases.read([line], engine).coarse == []


def test_a_web_servers_word_is_not_an_engines() -> None:
    uvicorn = ["INFO:     Started server process [1]", "INFO:     Application startup complete."]
    assert not phases.read(uvicorn).is_ready
    assert not phases.read(uvicorn, "sglang").is_ready
    assert phases.read(uvicorn, "vllm").is_ready


@pytest.mark.parametrize(
    ("line", "engine"),
    [
        ("INFO 11-03 15:47:45 [gpu_model_runner.py:2338] Starting to load model a/b...", "vllm"),
        (
            "INFO 03-21 20:15:46 [executor_base.py:111] # cuda blocks: 7191, # CPU blocks: 512",
            "vllm",
        ),
        ('  File "/opt/venv/lib/python3.12/site-packages/vllm/v1/engine/core.py", line 1', "vllm"),
        ("[2025-07-14 05:48:43] Memory pool end. avail mem=1.46 GB", "sglang"),
        ("load_tensors: offloaded 33/33 layers to GPU", "llamacpp"),
        ("Loading safetensors checkpoint shards: 100% Completed | 4/4 [00:01<00:00, 2it/s]", ""),
    ],
)
def test_one_line_of_its_own_words_names_an_engine(line: str, engine: str) -> None:
    assert phases.read([line]).engine == engine


def test_an_engine_that_is_not_known_has_no_phases() -> None:
    progress = phases.read(["hello", "world"], "")
    assert (progress.engine, progress.phase, progress.percent) == ("", "", None)
    assert phases.read(["Load weight begin. avail mem=1.0 GB"], "trtllm").engine in ("", "sglang")


def test_an_engine_without_rules_is_read_on_and_has_no_phases() -> None:
    reader = Reader("other")
    reader.feed(1, "INFO 11-22 00:00:00 [core.py:1] Initializing a V1 LLM engine")

    again = Reader.from_json(reader.to_json())
    again.feed(2, "ready")

    assert (again.progress.phase, again.to_json()["tracks"]) == ("", {})
