"""What besides the log decides: exit codes, OOMKilled, Docker's words, the profile, the box."""

from dataclasses import replace

import pytest

from servers.judge.logs.diagnosis import Diagnosis, Ending, diagnose, head_and_tail
from servers.judge.logs.failure_catalog import by_id
from servers.judge.profiles.facts import LaunchFacts
from tests.profiles.lint.subjects import subject

READY = "(APIServer pid=1) INFO:     Application startup complete."
LOADING = "INFO 11-21 10:00:23 [gpu_model_runner.py:3157] Starting to load model a/b..."
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def of(text: str, **values: object) -> Diagnosis:
    return diagnose(Ending(lines=head_and_tail(text.split("\n")), **values))  # type: ignore[arg-type]


@pytest.mark.parametrize("code", [0, 1, 139, 137])
def test_an_end_before_ready_is_a_failure_whatever_the_exit_code(code: int) -> None:
    found = of(LOADING, exit_code=code)

    assert (found.outcome, found.cause) == ("failed", None)


@pytest.mark.parametrize("code", [130, 143])
def test_a_stop_before_ready_is_no_failure(code: int) -> None:
    assert of(LOADING, exit_code=code).outcome == "unknown"


@pytest.mark.parametrize("code", [0, 130, 137, 143, None])
def test_a_stop_of_a_server_that_was_ready_is_no_failure(code: int | None) -> None:
    assert of(f"{LOADING}\n{READY}", exit_code=code).outcome == "ready"


def test_exit_code_137_alone_is_not_taken_for_memory() -> None:
    assert of(LOADING, exit_code=137).cause is None


def test_docker_s_oomkilled_is_enough_where_the_log_says_nothing() -> None:
    said = f"{LOADING}\n[2026-01-01 10:00:00] Received sigquit from a child process. It usually"

    assert of(LOADING, exit_code=137, oom_killed=True).cause == "docker-oomkilled"
    assert of(said, exit_code=137, oom_killed=True).cause == "docker-oomkilled"
    assert of(f"{LOADING}\n{OOM}", exit_code=1, oom_killed=True).cause == "cuda-oom"


def test_docker_s_words_are_evidence_without_a_line() -> None:
    found = diagnose(Ending(lines=[], docker_error="No such image: img:2"))

    assert found.cause == "docker-image-not-found"
    assert found.evidence[0].line == 0


def test_what_another_engine_would_say_is_not_looked_for() -> None:
    text = "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."

    assert of(text, engine="vllm").cause == "says-what-to-change"
    assert of(text, engine="sglang").cause == "sglang-no-kv-memory"


def test_a_warning_explains_an_end_that_something_else_tells_of() -> None:
    warns = "NCCL WARN Call to ibv_create_cq failed, trying TCP"
    fitting = (
        "E llama_init_from_model: failed to allocate compute pp buffers (during memory fitting)"
    )

    assert (of(warns).outcome, of(warns).cause) == ("unknown", None)
    assert of(warns, exit_code=1).cause == "nccl-infiniband"
    assert of(f"{warns}\nRuntimeError: NCCL error: unhandled system error").outcome == "failed"
    assert of(fitting).outcome == "unknown"


def test_words_of_before_ready_do_not_explain_an_end_of_later() -> None:
    text = f"{OOM}\n{LOADING}\n{READY}\nterminate called after throwing an instance of 'x'"

    assert (of(text, exit_code=134).outcome, of(text, exit_code=134).cause) == ("failed", None)


def test_a_request_that_fails_is_no_end_of_the_server() -> None:
    assert of(f"{LOADING}\n{READY}\nValueError: bad request\n{OOM}").outcome == "ready"


@pytest.mark.parametrize(
    ("last", "outcome"),
    [
        ('(APIServer pid=1) INFO:     10.0.0.4:5104 - "GET /health HTTP/1.1" 200 OK', "hung"),
        ("2026-11-21T10:00:00.000000000Z ", "hung"),
        (
            "(APIServer pid=1) INFO 11-21 10:00:00 [loggers.py:259] Engine 000: Avg prompt throughput: "
            "0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs",
            "hung",
        ),
        (
            "(APIServer pid=1) INFO 11-21 10:00:00 [loggers.py:259] Engine 000: Avg prompt throughput: "
            "0.0 tokens/s, Avg generation throughput: 31.5 tokens/s, Running: 1 reqs, Waiting: 0 reqs",
            "ready",
        ),
        (
            '(APIServer pid=1) INFO:     10.0.0.4:5104 - "POST /v1/completions HTTP/1.1" 200 OK',
            "ready",
        ),
    ],
)
def test_a_standstill_is_seen_beside_lines_that_move_nothing(last: str, outcome: str) -> None:
    waits = "No available shared memory broadcast block found in 60 seconds."
    assert of("\n".join([LOADING, READY, waits, waits, waits, last])).outcome == outcome


def test_the_first_start_of_a_log_is_forgotten_when_a_later_one_becomes_ready() -> None:
    assert of(f"{LOADING}\n{OOM}\n{LOADING}\n{READY}").outcome == "ready"


def test_the_start_of_another_build_of_llama_cpp_makes_the_first_one_the_past() -> None:
    unknown = "llama_model_load: error loading model: unknown model architecture: 'plum'"
    memory = "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9.00 MiB on device 0: cudaMalloc failed: out of memory"
    ends = "main: exiting due to model loading error"
    log = f"build: 5002 (2c3f8b85) with cc\n{unknown}\n{ends}\n{{}}\n{memory}\n{ends}\n"

    assert of(log.format("build: 5002 (2c3f8b85) with cc")).cause == "llama-unknown-arch"
    assert of(log.format("build: 7010 (1a2b3c4d) with cc")).cause == "cuda-oom"

    old = "ggml_cuda_init: failed: CUDA driver version is insufficient for CUDA runtime version"
    first = log.partition("{}")[0]
    later = of(f"{first}{old}\nbuild: 7010 (1a2b3c4d) with cc\n{ends}")
    assert later.cause == "driver-too-old", "it is said before the build"


def test_a_failure_that_the_start_survived_is_no_cause() -> None:
    later = "INFO 11-21 10:01:00 [default_loader.py:291] Loading weights took 17.31 seconds"
    text = f"{LOADING}\nOSError: [Errno 28] No space left on device\n{later}\nIndexError: odd"

    assert of(text, exit_code=1).cause is None
    assert of(text, exit_code=1).evidence[0].text == "IndexError: odd"


def test_numbers_are_moved_from_what_the_profile_says() -> None:
    remedies = by_id()["cuda-oom"].remedies
    vllm = LaunchFacts(subject({"engine": "vllm", "flags": "--gpu-memory-utilization 0.95"}))
    lowest = LaunchFacts(subject({"engine": "vllm", "flags": "--gpu-memory-utilization 0.3"}))
    usual = LaunchFacts(subject({"engine": "vllm"}))
    lower = next(each for each in remedies if each.engine == "vllm" and each.adjust)

    made = [each and each.set_flags for each in (lower.apply(f, {}) for f in (vllm, usual))]

    assert made == [{"--gpu-memory-utilization": "0.9"}, {"--gpu-memory-utilization": "0.87"}]
    assert lower.apply(lowest, {}) is None


def test_an_abbreviated_flag_is_changed_in_its_own_spelling() -> None:
    facts = LaunchFacts(subject({"engine": "sglang", "flags": "--bogus 1 --tp 2"}))
    drop = by_id()["argparse-unrecognized"].remedies[1]

    made = drop.apply(facts, {"args": "--bogus 1"})

    assert made is not None
    assert made.apply(facts.launch).flags == ("--tp", "2")


def test_a_box_with_memory_that_nobody_holds_is_told_apart() -> None:
    around = replace(subject({"box": "1x12.1"}), box_kind="unified")
    text = "RuntimeError: The memory capacity is unbalanced. Some GPUs may be occupied by other"

    found = of(text, subject=around, unheld=int(33.1 * 2**30), exit_code=0)

    assert found.cause == "gb10-leaked-cuda-memory"
    assert found.summary.startswith("33.1 GiB of this box's unified memory")
    assert of(text, subject=around, unheld=2**30, exit_code=0).cause == "memory-capacity-unbalanced"


def test_of_a_million_lines_both_ends_are_read_with_their_numbers() -> None:
    lines = (f"line {n}" for n in range(1, 1_000_001))

    kept = head_and_tail(lines, head=10, tail=20)

    assert (len(kept), kept[0], kept[9][0], kept[10][0], kept[-1][0]) == (
        30,
        (1, "line 1"),
        10,
        999_981,
        1_000_000,
    )
