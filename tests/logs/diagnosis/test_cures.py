"""A cure fits its case: the version, the card, what ran out of memory, and what the weights need."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from servers.judge.logs import failure_catalog
from servers.judge.logs.diagnosis import Diagnosis, Ending, diagnose, head_and_tail, report
from servers.judge.logs.failure_catalog import FailureError
from servers.judge.logs.remedies import Remedy, list_texts
from servers.judge.profiles.facts import LaunchFacts
from tests.cases import table
from tests.profiles.lint.subjects import GIB, subject

HERE = Path(__file__).parent
PLACEHOLDER = re.compile(r"\{\w+\}|<[a-z][\w -]*>|\bNone\b|\$\{?[A-Z]+\b(?<!\$USER)|  ")

NO_KERNEL = "RuntimeError: CUDA error: no kernel image is available for execution on the device"
PASCAL = (
    "UserWarning: Tesla P40 with CUDA capability sm_61 is not compatible with the current PyTorch "
    "installation. The current PyTorch install supports CUDA capabilities sm_75 sm_80 sm_90 sm_120."
)
BLACKWELL = (
    "Found GPU0 NVIDIA RTX PRO 6000 which is of cuda capability 12.0. Minimum and Maximum cuda "
    "capability supported by this version of PyTorch is (7.0) - (9.0)"
)
VLLM = "INFO 11-21 10:00:00 [core.py:93] Initializing a V1 LLM engine (v0.33.0) with config: x"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
FULL = f"{OOM} GPU 0 has a total capacity of 94.97 GiB of which 1.12 GiB is free."
DTYPE = (
    "ValueError: torch.float32 is not supported for quantization method awq. Supported dtypes: {}"
)
ALLOCATED = "Of the allocated memory 56.64 GiB is allocated by PyTorch, and 1.20 GiB is reserved."
KV = "INFO 11-21 10:00:00 [kv_cache_utils.py:1087] GPU KV cache size: 60,224 tokens"
TIGHT = (
    "ValueError: Free memory on device cuda:0 ({free}/94.97 GiB) on startup is less than desired "
    "GPU memory utilization (0.93, 88.32 GiB)."
)
SGLANG = "[2026-03-30 14:21:40] server_args=ServerArgs(model_path='a/b', tp_size=2)"
FRAME = '  File "/x/vllm/v1/worker/gpu_model_runner.py", line 12, in {}'
CUDA_MALLOC = "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 1.00 MiB on device 0: cudaMalloc failed: out of memory"


def trace(*functions: str, error: str = OOM, before: str = VLLM) -> str:
    """A traceback through these functions, the innermost last."""
    frames = [FRAME.format(name) for name in functions]
    return "\n".join([before, "Traceback (most recent call last):", *frames, error])


def cures(log: str) -> str:
    return "\n".join(report(log.split("\n"), exit_code=1)["fix"])


@table(
    ("log", "said", "unsaid"),
    [
        # An old card needs an older build, a new one a newer.
        (f"{PASCAL}\n{NO_KERNEL}", ["Use an older image"], ["newer image", "SM 7.0 or before:"]),
        (f"{BLACKWELL}\n{NO_KERNEL}", ["Use a newer image", "CUDA 12.8"], ["older image"]),
        (NO_KERNEL, ["On a GPU of SM 7.0 or before: use an older image",
                     "On a GPU of SM 10.3 or 12.1: use a newer image"], []),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_61'", ["an older CUDA"], ["newer"]),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_103a'", ["13.0"], ["older CUDA"]),
        # What ran out says what helps.
        (trace("load_model", "create_weights"), ["The weights alone do not fit"],
         ["Lower --gpu-memory-utilization", "--enforce-eager"]),
        (trace("_initialize_kv_caches", "determine_available_memory", "profile_run"),
         ["Halve --max-num-batched-tokens"], ["--gpu-memory-utilization", "--enforce-eager"]),
        (trace("_initialize_kv_caches", "initialize_kv_cache", "_allocate_kv_cache_tensors"),
         ["Lower --gpu-memory-utilization"], ["--enforce-eager", "--max-num-batched-tokens"]),
        (trace("compile_or_warm_up_model", "capture_model", "_dummy_run"),
         ["Lower --gpu-memory-utilization", "Set --enforce-eager"], ["weights alone"]),
        (f"{VLLM}\n{KV}\n{OOM}", ["Set --enforce-eager"], ["weights alone"]),
        (f"{SGLANG}\n[2026-03-30 14:21:46] Load weight begin. avail mem=94.15 GB\n{OOM}",
         ["The weights alone do not fit"], ["--mem-fraction-static by"]),
        (f"{CUDA_MALLOC}\nalloc_tensor_range: failed to allocate CUDA0 buffer of size 1\n"
         "llama_model_load: error loading model: unable to allocate CUDA0 buffer",
         ["Offload fewer layers", "smaller quantization"], ["--ctx-size", "--ubatch-size"]),
        (f"{CUDA_MALLOC}\nllama_init_from_model: failed to initialize the context: failed to "
         "allocate buffer for kv cache", ["Halve --ctx-size", "--cache-type-k q8_0"], ["--ubatch"]),
        (f"{CUDA_MALLOC}\nggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 1\n"
         "graph_reserve: failed to allocate compute buffers",
         ["Halve --ubatch-size"], ["--cache-type-k"]),
        (f"{VLLM}\n{FULL} Process 12 has 60.00 GiB memory in use. Including non-PyTorch memory, "
         "this process has 30.00 GiB memory in use.", ["Other processes hold 60.0 GiB"], []),
        # In a container PyTorch does not know which of the processes is its own.
        (f"{VLLM}\n{FULL} Process 12 has 61.41 GiB memory in use. {ALLOCATED}",
         [], ["Other processes"]),
        (f"{VLLM}\n{FULL} Process 12 has 61.41 GiB memory in use. Process 13 has 20.00 GiB memory "
         f"in use. Process 14 has 512.00 MiB memory in use. {ALLOCATED}",
         ["Other processes hold 20.5 GiB"], []),
        (f"{VLLM}\n{FULL} Process 12 has 61.41 GiB memory in use.", [], ["Other processes"]),
        (f"{VLLM}\n{FULL} Process 12 has 30.00 GiB memory in use. {ALLOCATED}",
         [], ["Other processes"]),
        # Only a type that the engine names.
        (DTYPE.format("[torch.float16]"), ["Set --dtype half."], ["bfloat16"]),
        (DTYPE.format("[torch.bfloat16, torch.float16]"), ["Set --dtype half."], ["bfloat16"]),
        (DTYPE.format("[torch.bfloat16]"), ["Set --dtype bfloat16."], ["half"]),
        ("OSError: [Errno 13] Permission denied: bind on address ('0.0.0.0', 80): permission denied",
         ["Give --port a number above 1023"], ["Let inferdash choose the port"]),
        # Where the log does not tell what ran out, no part is said to have.
        (f"{VLLM}\n{OOM}", ["Give the engine less of the card", "Halve --max-num-seqs"],
         ["The weights alone", "Or spread"]),
        (CUDA_MALLOC, ["Offload fewer layers"], ["Use a smaller"]),
        # The words say what the button does.
        ("ValueError: max_tokens_per_mm_item (16384) is larger than the batch",
         ["Double --max-num-batched-tokens"], ["Lower"]),
        # Less than the weights take is no cure.
        (TIGHT.format(free="60.10"), ["Set --gpu-memory-utilization 0.62", "in 60.10 GiB"], []),
        (TIGHT.format(free="2.21"), [], ["Set --gpu-memory-utilization"]),
        (f"{VLLM}\nINFO 11-21 10:00:00 [x.py:1] Model loading took 83.20 GiB and 3 seconds\n{KV}\n{FULL}",
         ["Set --enforce-eager"], ["Lower --gpu-memory-utilization"]),
        # The version that the log names decides.
        (f"{VLLM}\nValueError: LoRA rank 200 is greater than max_lora_rank 16",
         ["Set --max-lora-rank 256."], ["--max-lora-rank 200"]),
        # A number of the engine's that says that nothing is there.
        ("ValueError: World size (2) is larger than the number of available GPUs (0)",
         ["Give the container GPUs"], ["--tensor-parallel-size 0"]),
        # The flag that the line is about, and no other.
        ("x: error: ambiguous option: --cuda-graph could match --cuda-graph-bs, --cuda-graph-x",
         ["Write out the one that is meant: --cuda-graph-bs"], ["--pp"]),
        ("error: invalid argument: --no-mmap", ["--load-mode none"], []),
        ('error while handling argument "-fa": expected value for argument', ["Set -fa on."], []),
        ("[2026-01-01 10:00:00] Exception: Capture cuda graph failed: unsupported op",
         ["--cuda-graph-backend-decode disabled"], ["--mem-fraction-static"]),
        # A prompt without marks is written by who asks.
        ("RuntimeError: Expected there to be 2 prompt updates corresponding to 2 image items, but "
         "instead found 0 prompt updates!", ["let the model's chat template write it"], []),
        ("RuntimeError: Expected there to be 2 prompt updates corresponding to 2 image items, but "
         "instead found 1 prompt updates!", ["Fetch the processor's files"], ["chat template"]),
        # Where the guide reboots, the word stands there.
        ("RuntimeError: The memory capacity is unbalanced. Some GPUs may be occupied by other "
         "processes. pre_model_load_memory=33.77, local_gpu_memory=101.33", ["Reboot the box"], []),
        ("Failed to initialize NVML: Driver/library version mismatch", ["Reboot the box"], []),
    ],
)  # fmt: skip
def test_what_is_offered_fits_the_case(log: str, said: list[str], unsaid: list[str]) -> None:
    told = cures(log)

    assert [each for each in said if each not in told] == [], told
    assert [each for each in unsaid if each in told] == [], told


def of_run(log: str, **said: Any) -> tuple[Diagnosis, list[str]]:
    """What is told where the launch and its box are known."""
    around = dict(said)
    kind = around.pop("kind", "")
    made = replace(subject(around), box_kind=kind)
    found = diagnose(Ending(lines=head_and_tail(log.split("\n")), exit_code=1, subject=made))
    assert found.cause
    known = failure_catalog.by_id()[found.cause].remedies
    facts = LaunchFacts(made)
    return found, list(list_texts(known, facts.engine, found.groups, facts))


def test_of_a_launch_that_is_known_only_what_helps_it_is_told() -> None:
    timeout = "torch.distributed.DistStoreError: Timed out after 600 seconds waiting for clients"
    _, shared = of_run(timeout, box="1x12.1", kind="unified", flags="--mem-fraction-static 0.85")
    _, own = of_run(timeout, box="1x12.0", kind="discrete", flags="--mem-fraction-static 0.85")

    assert "Set --mem-fraction-static 0.75." in shared
    assert not any("mem-fraction" in each or "page cache" in each for each in own)
    graphs = "[2026-01-01 10:00:00] Exception: Capture cuda graph failed: CUDA out of memory"
    _, new = of_run(graphs, version="0.5.23", box="1x9.0")
    assert "Set --cuda-graph-max-bs-decode 16." in new
    assert not any("--disable-cuda-graph" in each or "ersion" in each for each in new)
    _, silent = of_run(f"{VLLM}\n{KV}\n{OOM}", engine="vllm", flags="--enforce-eager")
    assert not any("--enforce-eager" in each for each in silent)


def test_a_share_below_what_the_weights_take_is_not_offered() -> None:
    around = {"engine": "vllm", "box": "1x12.0", "flags": "--gpu-memory-utilization 0.93"}

    _, fits = of_run(TIGHT.format(free="60.10"), **around, weights=40 * GIB)
    _, does_not = of_run(TIGHT.format(free="60.10"), **around, weights=70 * GIB)

    assert any("--gpu-memory-utilization 0.62" in each for each in fits)
    assert not any("--gpu-memory-utilization" in each for each in does_not)


def list_captures() -> list[tuple[str, str]]:
    """Every text that an entry is recognised by, and every whole log."""
    cases: dict[str, dict[str, Any]] = yaml.safe_load((HERE / "cases.yaml").read_text())
    whole = [(path.stem, path.read_text()) for path in sorted((HERE / "logs").glob("*.log"))]
    return [(name, text) for name, case in cases.items() for text in case["is"]] + whole


def test_a_flag_is_left_out_by_its_name_alone() -> None:
    log = 'vllm: error: unrecognized arguments: --plum-config {"end": " -- over"} --pear=3 --'

    assert cures(log).split("\n")[0] == "Remove --plum-config and --pear."


def test_no_cure_prints_a_placeholder() -> None:
    """Over all cures with all captures, for every engine that may have written them."""
    wrong = []
    for name, text in list_captures():
        found = diagnose(Ending(lines=head_and_tail(text.split("\n")), exit_code=1))
        told = [found.summary]
        if found.cause:
            for engine in ("vllm", "sglang", "llamacpp", ""):
                facts = LaunchFacts(subject({"engine": engine or "other"})) if engine else None
                remedies = failure_catalog.by_id()[found.cause].remedies
                told += list_texts(remedies, engine, found.groups, facts)
        wrong += [(name, each) for each in told if not each.strip() or PLACEHOLDER.search(each)]
    assert wrong == []


def test_every_cause_has_a_cure() -> None:
    """Also where its message names nothing to put into one."""
    engines = ("vllm", "sglang", "llamacpp")
    without = [
        each.id
        for each in failure_catalog.load_shipped()
        if not any(
            list_texts(each.remedies, e, {}) for e in (each.engine and [each.engine]) or engines
        )
    ]
    assert without == []


def test_every_reboot_is_called_one() -> None:
    """The page has a button's place and a command for it, the terminal its words alone."""
    for failure in failure_catalog.by_id().values():
        for remedy in failure.remedies:
            if remedy.box == "reboot":
                assert "reboot" in remedy.text({"unheld": "1", "why": "x"}).casefold(), failure.id


def test_a_reboot_that_is_not_called_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(
        "- {id: x, stage: load, match: abcd, says: A., source: measured,"
        " fixes: [{box: reboot, says: As a last resort.}]}"
    )

    with pytest.raises(FailureError, match="box: reboot"):
        failure_catalog.load(tmp_path)


@table(
    ("data", "words"),
    [
        ({"says": "Do it.", "when": {"version": ">=0.5.14"}}, "With version 0.5.14 or later: do it."),
        ({"says": "Do it.", "when": {"version": ">=0.5.12 <0.5.14"}},
         "With version 0.5.12 or later, and a version before 0.5.14: do it."),
        ({"says": "Do it.", "when": {"flag": "--x > 0.75"}}, "Where --x is above 0.75: do it."),
        ({"says": "Do it.", "when": {"flag": "--x in a, b"}}, "Where --x is a or b: do it."),
        ({"says": "Do it.", "when": {"box": "unified"}},
         "Where GPU and machine share one memory: do it."),
        ({"says": "Do it.", "when": {"sm": "5.0, 5.2, 6.0, 6.1, 7.0"}},
         "On a GPU of SM 7.0 or before: do it."),
        ({"says": "Do it.", "when": [{"flag": "--tp"}, {"flag": "--x absent"}]},
         "Where --tp is set, and where --x is not set: do it."),
        ({"says": "NCCL waits.", "when": {"model": "glm-?5"}},
         "Where the model is glm-5: NCCL waits."),
        ({"says": "FlashAttention waits.", "when": {"model": "glm-?5"}},
         "Where the model is glm-5: FlashAttention waits."),
        ({"set_flags": {"--x": "1"}, "when": {"pp": "< 2"}},
         "Where the pipeline-parallel size is below 2: set --x 1."),
    ],
)  # fmt: skip
def test_a_condition_that_is_not_known_is_said(data: dict[str, Any], words: str) -> None:
    remedy = Remedy.from_data(data)

    assert remedy.judge("", {}) is None
    assert remedy.text({}) == words
