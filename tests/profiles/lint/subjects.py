"""Launches and what is known around them, from a few words."""

import re
import shlex
from typing import Any

from servers.judge.memory.pools import GpuRoom
from servers.judge.profiles.facts import Subject, TargetGpu
from servers.launch.engines.launch import Launch

GIB = 2**30
IMAGES = {
    "sglang": "lmsysorg/sglang:latest",
    "vllm": "vllm/vllm-openai:latest",
    "llamacpp": "ghcr.io/ggml-org/llama.cpp:server-cuda",
    "other": "team/parakeet-asr:1",
}
# Compute capability -> name and memory.
GPUS = {
    "9.0": ("NVIDIA H200", 140 * GIB),
    "10.3": ("NVIDIA GB300", 277 * GIB),
    "12.0": ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 95 * GIB),
    "12.1": ("NVIDIA GB10", 119 * GIB),
}
OF_SUBJECT = {
    "nodes": "nodes",
    "config": "checkpoint_config",
    "driver": "driver",
    "others": "others",
    "weights": "weights",
}


def subject(said: dict[str, Any]) -> Subject:
    """`box` is "4x12.0" or "1x10.3 1x12.0", `free` GiB of each of its GPUs; `version`, `config`,
    `others` ... of Subject; the rest are fields of Launch, flags and volumes as one text."""
    said = dict(said)
    version, box, free = said.pop("version", ""), said.pop("box", None), said.pop("free", None)
    around = {OF_SUBJECT[key]: said.pop(key) for key in list(said) if key in OF_SUBJECT}
    if around.get("others") is not None:
        around["others"] = tuple(around["others"])
    engine = said.get("engine", "sglang")
    spec = {
        "engine": engine,
        "image": IMAGES[engine],
        "checkpoint": "Qwen/Qwen3-8B",
        **said,
        "flags": shlex.split(str(said.get("flags", ""))),
    }
    return Subject(
        launch=Launch.from_json(spec),
        engine_version=str(version),
        gpus=None if box is None else gpus(str(box)),
        rooms=None if free is None else rooms(gpus(str(box)), free),
        **around,
    )


def rooms(there: tuple[TargetGpu, ...], free: list[float]) -> tuple[GpuRoom, ...]:
    return tuple(
        GpuRoom(index=gpu.index, total=gpu.memory or 0, free=int(size * GIB))
        for gpu, size in zip(there, free, strict=True)
    )


def gpus(box: str) -> tuple[TargetGpu, ...]:
    found: list[TargetGpu] = []
    for count, capability in re.findall(r"(\d+)x(\d+\.\d)", box):
        name, memory = GPUS[capability]
        for _ in range(int(count)):
            found.append(
                TargetGpu(index=len(found), name=name, compute_capability=capability, memory=memory)
            )
    return tuple(found)
