"""Circumstances of a failure that its log tells: the version, the card, its memory, and which part
of a start ran out of it. A cure goes by them where the profile and the box do not say more.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal, get_args

from servers.judge.logs.evidence import READY, EvidenceLine, EvidenceLog

# What wanted the memory that was not there.
type MemoryPart = Literal["weights", "activations", "kv_cache", "graphs", "compute", "serving"]
PARTS: tuple[MemoryPart, ...] = get_args(MemoryPart.__value__)
# Of a remedy that is told only where the log does not tell what ran out.
UNKNOWN = "unknown"

# Groups that this module adds to those of a failure's pattern.
PART, VERSION, CAPABILITY = "part", "engine_version", "card_sm"
CARD_GIB, WEIGHTS_GIB, OTHERS_GIB = "card_gib", "weights_gib", "others_gib"
GIVEN = frozenset({PART, VERSION, CAPABILITY, CARD_GIB, WEIGHTS_GIB, OTHERS_GIB})

# Lines of a traceback that are looked at, and lines after it in which llama.cpp goes on to say what
# the memory was for.
FRAMES_BACK, LINES_ON = 120, 12
# Lines at a log's front in which an engine says its version.
HEAD = 3000

_FRAME = re.compile(r'File "[^"]{1,300}", line \d+, in (\w{1,80})')
# Functions of the engines; the innermost of them counts: all are called by what starts the engine.
_OF_FRAMES: tuple[tuple[MemoryPart, re.Pattern[str]], ...] = (
    (
        "kv_cache",
        re.compile(
            r"initialize_kv_cache|initialize_kv_cache_tensors|_allocate_kv_cache\w*|init_memory_pool|"
            r"_create_buffers|alloc_memory_pool|_init_pools"
        ),
    ),
    ("graphs", re.compile(r"\w*capture\w*|init_\w*graphs?|compile_or_warm_up_model")),
    ("activations", re.compile(r"profile_run|determine_available_memory|init_attention_backend")),
    ("weights", re.compile(r"load_model|load_weights|create_weights|process_weights\w*")),
    ("serving", re.compile(r"execute_model|event_loop\w*|run_batch|process_batch\w*")),
)
# llama.cpp's words of the same failure, from the first that counts.
_OF_LLAMACPP: tuple[tuple[MemoryPart, re.Pattern[str]], ...] = (
    ("kv_cache", re.compile(r"buffer for kv cache|llama_kv_cache|cache_(?:k|v)_l\d")),
    (
        "compute",
        re.compile(r"allocate compute|graph_reserve|compute (?:pp |tg )?buffers?|sched_reserve"),
    ),
    (
        "weights",
        re.compile(r"error loading model|alloc_tensor_range|unable to allocate \S+ buffer"),
    ),
)

_VERSION = re.compile(
    r"vLLM (?:API server )?version v?(\d+\.\d+\.\d+\S{0,30})|LLM engine \(v(\d+\.\d+\.\d+[^)]{0,30})\)"
    r"|[Ss][Gg][Ll]ang (?:version|v)[ =:]*v?(\d+\.\d+\.\d+\S{0,30})"
)
_CAPABILITIES = (
    re.compile(r"with CUDA capability sm_(\d{2,3})"),
    re.compile(r"is of cuda capability (\d{1,2}\.\d)"),
    re.compile(r"Current capability: (\d{2,3})\b"),
    re.compile(r"(?:GPU has|Device \d{1,2}: .{1,80},) compute capability (\d{1,2}\.\d)"),
    re.compile(r"(?:gpu-name'|\.target|gpu architecture).{0,40}?'?(?:sm|compute)_(\d{2,3})"),
    re.compile(r"Value 'sm_(\d{2,3})\w?' is not defined"),
)
_CARD = re.compile(r"GPU \d{1,2} has a total capacity of (\d{1,6}(?:\.\d{1,4})?) GiB")
_WEIGHTS = re.compile(
    r"Model loading took (\d{1,6}(?:\.\d{1,6})?) Gi?B|Load weight end.{0,200}mem usage=(\d{1,6}(?:\.\d{1,4})?) GB"
)
# PyTorch writes "this process" only where NVML's number of it is its own: in a container, it is not.
_IN_USE = re.compile(r"Process \d{1,9} has (\d{1,6}(?:\.\d{1,4})?) ([MG])iB memory in use")
_OWN_IN_USE = re.compile(r"this process has \d")
_ALLOCATED = re.compile(
    r"Of the allocated memory (\d{1,6}(?:\.\d{1,4})?) ([MG])iB is allocated by PyTorch"
)


def read(log: EvidenceLog, line: EvidenceLine) -> dict[str, str]:
    """What the log tells of the failure in this line: some of GIVEN. Never fails."""
    found = {
        PART: _find_part(log, line),
        VERSION: "",
        CAPABILITY: "",
        CARD_GIB: "",
        WEIGHTS_GIB: "",
    }
    capabilities: set[str] = set()
    for at, text in enumerate(log.texts):
        if at < HEAD and not found[VERSION] and (told := _VERSION.search(text)):
            found[VERSION] = next(filter(None, told.groups()))
        if "capability" in text or "sm_" in text or "compute_" in text:
            capabilities.update(_read_capabilities(text))
        if "load" in text.lower() and (told := _WEIGHTS.search(text)):
            found[WEIGHTS_GIB] = told[1] or told[2]
    if len(capabilities) == 1:
        found[CAPABILITY] = capabilities.pop()
    if told := _CARD.search(line.text):
        found[CARD_GIB] = told[1]
    others = _add_up_others(line.text)
    found[OTHERS_GIB] = f"{others:.1f}" if others >= 1 else ""
    return {name: value for name, value in found.items() if value}


def compute_weights_share(groups: Mapping[str, str]) -> float | None:
    """The part of a card that its weights took, as the log tells; None where it does not."""
    try:
        return float(groups[WEIGHTS_GIB]) / float(groups[CARD_GIB])
    except (KeyError, ValueError, ZeroDivisionError):
        return None


def _add_up_others(text: str) -> float:
    """GiB that other processes hold of a card; 0 where the line does not tell which one is its own."""
    sizes = [_compute_gib(*said) for said in _IN_USE.findall(text)]
    if not _OWN_IN_USE.search(text):
        allocated = _ALLOCATED.search(text)
        if allocated is None:
            return 0
        least = _compute_gib(allocated[1], allocated[2])
        own = min((size for size in sizes if size >= least), default=None)
        if own is None:
            return 0
        sizes.remove(own)
    return sum(sizes)


def _compute_gib(number: str, unit: str) -> float:
    return float(number) / (1024 if unit == "M" else 1)


def _read_capabilities(text: str) -> Iterator[str]:
    for pattern in _CAPABILITIES:
        for said in pattern.findall(text):
            yield said if "." in said else f"{said[:-1]}.{said[-1]}"


def _find_part(log: EvidenceLog, line: EvidenceLine) -> str:
    """What the memory was for; "" where the log does not tell."""
    if log.ready_at is not None and line.position > log.ready_at:
        return "serving"
    on = log.texts[line.position : line.position + LINES_ON]
    if told := _first(_OF_LLAMACPP, on):
        return told
    functions = [found[1] for text in _traceback(log, line) for found in _FRAME.finditer(text)]
    for function in reversed(functions):
        for part, pattern in _OF_FRAMES:
            if pattern.fullmatch(function):
                return part
    return _of_step(line.step)


def _traceback(log: EvidenceLog, line: EvidenceLine) -> Sequence[str]:
    """The lines above this one that belong to its traceback."""
    back = log.texts[max(0, line.position - FRAMES_BACK) : line.position]
    begins = [at for at, text in enumerate(back) if "Traceback (most recent call last)" in text]
    return back[begins[-1] :] if begins else ()


def _first(
    parts: Iterable[tuple[MemoryPart, re.Pattern[str]]], texts: Sequence[str]
) -> MemoryPart | Literal[""]:
    found = (part for part, pattern in parts if any(map(pattern.search, texts)))
    return next(islice(found, 1), "")


def _of_step(step: int) -> MemoryPart | Literal[""]:
    """By how far the start had come, see evidence: the weights, the profile, the graphs."""
    if step == 1:
        return "weights"
    if step in (2, 3):
        return "activations"
    if step == 4:
        return "graphs"
    return "serving" if step >= READY else ""
