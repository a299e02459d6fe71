"""A sample of a box as metrics. Base units; None is left out.

Labels are bounded: boxes, cards, servers and fixed words. Process ids and runs are none.
"""

from collections.abc import Mapping
from typing import Any, get_args

from servers.host.gateway.exposition import Families
from servers.judge.memory import verdicts
from servers.judge.memory.holders import GpuMemory, gpus
from servers.judge.runs.metrics import Figures

type Labels = dict[str, object]

VERDICTS: tuple[verdicts.Name, ...] = get_args(verdicts.Name.__value__)
THROTTLES = (
    *("gpu_idle", "applications_clocks", "sw_power_cap", "hw_slowdown", "sync_boost"),
    *("sw_thermal", "hw_thermal", "hw_power_brake", "display_clocks", "board_limit"),
    "reliability",
)
_MEMORY = {
    "MemTotal": ("total", "All of the machine's main memory."),
    "MemAvailable": ("available", "Main memory that programs may still have."),
    "MemFree": ("free", "Main memory in use by nothing at all."),
    "Cached": ("cached", "Main memory that is page cache."),
    "SwapTotal": ("swap_total", "Swap."),
    "SwapFree": ("swap_free", "Swap that is not in use."),
}
_MHZ = 1e6


def box(into: Families, name: str, sample: Mapping[str, Any], *, now: float) -> None:
    """Of the box itself. `now` is in unix seconds."""
    labels: Labels = {"box": name}
    said = sample.get("t")
    into.gauge(
        "inferdash_box_sample_age_seconds", "Age of the newest sample of GPUs and memory."
    ).add(None if said is None else max(0.0, now - said), **labels)
    into.gauge("inferdash_box_collector_ok", "Whether the GPUs' driver answers.").add(
        float(bool(sample.get("collector_ok"))), **labels
    )
    into.gauge("inferdash_box_uptime_seconds", "Time since the boot.").add(
        sample.get("uptime_s"), **labels
    )
    for line, (part, words) in _MEMORY.items():
        into.gauge(f"inferdash_box_memory_{part}_bytes", words).add(
            (sample.get("meminfo") or {}).get(line), **labels
        )
    for share, percent in (sample.get("pressure") or {}).items():
        into.gauge(
            "inferdash_box_memory_pressure_ratio",
            "Share of the last 10 s in which some, or all, tasks waited for memory.",
        ).add(_share(percent), **labels, tasks=share)
    found = {
        (each["rule"], each["subject"], each["severity"]) for each in sample.get("findings") or []
    }
    for rule, subject, severity in sorted(found):
        into.gauge("inferdash_box_finding", "What is wrong with the hardware.").add(
            1, **labels, rule=rule, subject=subject, severity=severity
        )


def cards(into: Families, name: str, sample: Mapping[str, Any], servers: Mapping[str, str]) -> None:
    """Of its GPUs. `servers` maps container ids to slugs."""
    verdicts = {each["gpu"]: each for each in sample.get("verdicts") or []}
    raw = {card["index"]: card for card in sample.get("gpus") or []}
    for gpu in gpus(sample, servers):
        labels: Labels = {"box": name, "gpu": gpu.index, "uuid": gpu.key}
        card = raw[gpu.index]
        into.gauge("inferdash_gpu_info", "A GPU by what it is; always 1.").add(
            1,
            **labels,
            name=gpu.name,
            kind=gpu.kind,
            compute_capability=gpu.capability,
            driver=sample.get("driver") or "",
        )
        _memory(into, gpu, card, labels)
        _figures(into, gpu, card, labels)
        _ledger(into, gpu, labels)
        if gpu.key in verdicts:
            _verdict(into, verdicts[gpu.key], labels)


def _memory(into: Families, gpu: GpuMemory, card: Mapping[str, Any], labels: Labels) -> None:
    for part, size, words in (
        ("total", gpu.total, "Memory of the GPU."),
        ("used", gpu.used, "Memory of the GPU that is in use."),
        ("free", gpu.free, "Memory of the GPU that is free."),
        ("reserved", card.get("reserved"), "Memory of the GPU that the driver keeps to itself."),
    ):
        into.gauge(f"inferdash_gpu_memory_{part}_bytes", words).add(size, **labels)


def _figures(into: Families, gpu: GpuMemory, card: Mapping[str, Any], labels: Labels) -> None:
    for name, value, words in (
        ("utilization_ratio", _share(gpu.util), "Share of time in which a kernel was running."),
        (
            "memory_utilization_ratio",
            _share(card.get("mem_util")),
            "Share of time in which memory was read or written.",
        ),
        ("power_watts", gpu.power, "Power that the GPU draws."),
        ("power_limit_watts", gpu.power_limit, "Power that the GPU may draw."),
        ("temperature_celsius", gpu.temperature, "Temperature of the GPU."),
        ("fan_ratio", _share(gpu.fan), "Speed of the fan, of its highest."),
        ("sm_clock_hertz", _hertz(gpu.sm_mhz), "Clock of the processors."),
        ("sm_clock_limit_hertz", _hertz(gpu.sm_max_mhz), "Highest clock of the processors."),
        ("memory_clock_hertz", _hertz(gpu.mem_mhz), "Clock of the memory."),
        ("fault", float(bool(gpu.fault)), "Whether the GPU no longer answers as it should."),
    ):
        into.gauge(f"inferdash_gpu_{name}", words).add(value, **labels)
    if gpu.throttle is not None:
        family = into.gauge(
            "inferdash_gpu_throttle", "Why the GPU does not run at its highest clock."
        )
        for reason in THROTTLES:
            family.add(float(reason in gpu.throttle), **labels, reason=reason)


def _ledger(into: Families, gpu: GpuMemory, labels: Labels) -> None:
    """Servers by name; whoever else holds memory by kind alone, because processes come and go."""
    sizes: dict[tuple[str, str], int] = {}
    for part in gpu.ledger.parts if gpu.ledger else ():
        key = (part.kind, part.name if part.kind == "server" else "")
        sizes[key] = sizes.get(key, 0) + part.size
    family = into.gauge(
        "inferdash_gpu_memory_part_bytes", "Who and what has the memory; the parts are the total."
    )
    for (kind, holder), size in sizes.items():
        family.add(size, **labels, part=kind, server=holder)


def _verdict(into: Families, verdict: Mapping[str, Any], labels: Labels) -> None:
    family = into.gauge("inferdash_gpu_memory_verdict", "What is judged of the memory; one is 1.")
    for name in VERDICTS:
        family.add(float(verdict["verdict"] == name), **labels, verdict=name)
    if verdict["verdict"] != "unknown":
        into.gauge(
            "inferdash_gpu_memory_unattributed_bytes", "Memory in use that nobody holds."
        ).add(verdict.get("unattributed"), **labels)


def _share(percent: float | None) -> float | None:
    return None if percent is None else round(percent / 100, 6)


def _hertz(mhz: int | None) -> float | None:
    return None if mhz is None else mhz * _MHZ


def engine(into: Families, figures: Figures, labels: Mapping[str, object]) -> None:
    """What an engine tells of its work, under the same names for all engines."""
    for name, value, words in (
        ("requests_running", figures.running, "Requests that its engine works on."),
        ("requests_queued", figures.queued, "Requests that wait in its engine."),
        ("prompt_tokens_per_second", figures.prompt, "Tokens of prompts that it reads."),
        ("kv_cache_ratio", figures.kv, "Share of its KV cache that is in use."),
        ("prefix_cache_hit_ratio", figures.prefix, "Prompt tokens found in its cache, lately."),
        ("drafts_accepted_ratio", figures.accepted, "Drafted tokens that were accepted, lately."),
        ("preemptions_per_minute", figures.preemptions, "Requests that had to make room."),
    ):
        into.gauge(f"inferdash_server_{name}", words).add(value, **labels)
    for name, half, most, words in (
        ("first_token", figures.first_p50, figures.first_p95, "Time to the first token, lately."),
        ("inter_token", figures.token_p50, figures.token_p95, "Time between tokens, lately."),
        ("whole_answer", figures.whole_p50, figures.whole_p95, "Time to the last token, lately."),
    ):
        family = into.gauge(f"inferdash_server_{name}_seconds", words)
        family.add(half, **labels, quantile="0.5")
        family.add(most, **labels, quantile="0.95")
