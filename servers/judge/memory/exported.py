"""A sample of a box as metrics. Base units; None is left out.

Labels are bounded: boxes, cards, servers and fixed words. Process ids and runs are none.
"""

from collections.abc import Mapping
from typing import Any, get_args

from servers.host.http.prometheus import Families
from servers.judge.memory import verdicts
from servers.judge.memory.holders import GpuMemory, gpus
from servers.judge.messages import say
from servers.judge.runs.metrics import Figures

type Labels = dict[str, object]

VERDICTS: tuple[verdicts.Name, ...] = get_args(verdicts.Name.__value__)
THROTTLES = (
    *("gpu_idle", "applications_clocks", "sw_power_cap", "hw_slowdown", "sync_boost"),
    *("sw_thermal", "hw_thermal", "hw_power_brake", "display_clocks", "board_limit"),
    "reliability",
)
_MEMORY = {
    "MemTotal": ("total", "memory.metric-memory-total"),
    "MemAvailable": ("available", "memory.metric-memory-available"),
    "MemFree": ("free", "memory.metric-memory-free"),
    "Cached": ("cached", "memory.metric-memory-cached"),
    "SwapTotal": ("swap_total", "memory.metric-swap-total"),
    "SwapFree": ("swap_free", "memory.metric-swap-free"),
}
_MHZ = 1e6


def box(into: Families, name: str, sample: Mapping[str, Any], *, now: float) -> None:
    """Of the box itself. `now` is in unix seconds."""
    labels: Labels = {"box": name}
    said = sample.get("t")
    into.gauge("inferdash_box_sample_age_seconds", say("memory.metric-sample-age").text).add(
        None if said is None else max(0.0, now - said), **labels
    )
    into.gauge("inferdash_box_collector_ok", say("memory.metric-collector-ok").text).add(
        float(bool(sample.get("collector_ok"))), **labels
    )
    into.gauge("inferdash_box_uptime_seconds", say("memory.metric-uptime").text).add(
        sample.get("uptime_s"), **labels
    )
    for line, (part, code) in _MEMORY.items():
        into.gauge(f"inferdash_box_memory_{part}_bytes", say(code).text).add(
            (sample.get("meminfo") or {}).get(line), **labels
        )
    for share, percent in (sample.get("pressure") or {}).items():
        into.gauge(
            "inferdash_box_memory_pressure_ratio",
            say("memory.metric-pressure").text,
        ).add(_share(percent), **labels, tasks=share)
    found = {
        (each["rule"], each["subject"], each["severity"]) for each in sample.get("findings") or []
    }
    for rule, subject, severity in sorted(found):
        into.gauge("inferdash_box_finding", say("memory.metric-finding").text).add(
            1, **labels, rule=rule, subject=subject, severity=severity
        )


def cards(into: Families, name: str, sample: Mapping[str, Any], servers: Mapping[str, str]) -> None:
    """Of its GPUs. `servers` maps container ids to slugs."""
    verdicts = {each["gpu"]: each for each in sample.get("verdicts") or []}
    raw = {card["index"]: card for card in sample.get("gpus") or []}
    for gpu in gpus(sample, servers):
        labels: Labels = {"box": name, "gpu": gpu.index, "uuid": gpu.key}
        card = raw[gpu.index]
        into.gauge("inferdash_gpu_info", say("memory.metric-gpu").text).add(
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
    for part, size, code in (
        ("total", gpu.total, "memory.metric-gpu-total"),
        ("used", gpu.used, "memory.metric-gpu-used"),
        ("free", gpu.free, "memory.metric-gpu-free"),
        ("reserved", card.get("reserved"), "memory.metric-gpu-reserved"),
    ):
        into.gauge(f"inferdash_gpu_memory_{part}_bytes", say(code).text).add(size, **labels)


def _figures(into: Families, gpu: GpuMemory, card: Mapping[str, Any], labels: Labels) -> None:
    for name, value, code in (
        ("utilization_ratio", _share(gpu.util), "memory.metric-utilization"),
        (
            "memory_utilization_ratio",
            _share(card.get("mem_util")),
            "memory.metric-memory-utilization",
        ),
        ("power_watts", gpu.power, "memory.metric-power"),
        ("power_limit_watts", gpu.power_limit, "memory.metric-power-limit"),
        ("temperature_celsius", gpu.temperature, "memory.metric-temperature"),
        ("fan_ratio", _share(gpu.fan), "memory.metric-fan"),
        ("sm_clock_hertz", _hertz(gpu.sm_mhz), "memory.metric-sm-clock"),
        ("sm_clock_limit_hertz", _hertz(gpu.sm_max_mhz), "memory.metric-sm-clock-limit"),
        ("memory_clock_hertz", _hertz(gpu.mem_mhz), "memory.metric-memory-clock"),
        ("fault", float(bool(gpu.fault)), "memory.metric-fault"),
    ):
        into.gauge(f"inferdash_gpu_{name}", say(code).text).add(value, **labels)
    if gpu.throttle is not None:
        family = into.gauge("inferdash_gpu_throttle", say("memory.metric-throttle").text)
        for reason in THROTTLES:
            family.add(float(reason in gpu.throttle), **labels, reason=reason)


def _ledger(into: Families, gpu: GpuMemory, labels: Labels) -> None:
    """Servers by name; whoever else holds memory by kind alone, because processes come and go."""
    sizes: dict[tuple[str, str], int] = {}
    for part in gpu.ledger.parts if gpu.ledger else ():
        key = (part.kind, part.name if part.kind == "server" else "")
        sizes[key] = sizes.get(key, 0) + part.size
    family = into.gauge("inferdash_gpu_memory_part_bytes", say("memory.metric-part").text)
    for (kind, holder), size in sizes.items():
        family.add(size, **labels, part=kind, server=holder)


def _verdict(into: Families, verdict: Mapping[str, Any], labels: Labels) -> None:
    family = into.gauge("inferdash_gpu_memory_verdict", say("memory.metric-verdict").text)
    for name in VERDICTS:
        family.add(float(verdict["verdict"] == name), **labels, verdict=name)
    if verdict["verdict"] != "unknown":
        into.gauge(
            "inferdash_gpu_memory_unattributed_bytes", say("memory.metric-unattributed").text
        ).add(verdict.get("unattributed"), **labels)


def _share(percent: float | None) -> float | None:
    return None if percent is None else round(percent / 100, 6)


def _hertz(mhz: int | None) -> float | None:
    return None if mhz is None else mhz * _MHZ


def engine(into: Families, figures: Figures, labels: Mapping[str, object]) -> None:
    """What an engine tells of its work, under the same names for all engines."""
    for name, value, code in (
        ("requests_running", figures.running, "memory.metric-running"),
        ("requests_queued", figures.queued, "memory.metric-queued"),
        ("prompt_tokens_per_second", figures.prompt, "memory.metric-prompt-rate"),
        ("kv_cache_ratio", figures.kv, "memory.metric-kv-cache"),
        ("prefix_cache_hit_ratio", figures.prefix, "memory.metric-prefix-cache"),
        ("drafts_accepted_ratio", figures.accepted, "memory.metric-drafts"),
        ("preemptions_per_minute", figures.preemptions, "memory.metric-preemptions"),
    ):
        into.gauge(f"inferdash_server_{name}", say(code).text).add(value, **labels)
    for name, half, most, code in (
        ("first_token", figures.first_p50, figures.first_p95, "memory.metric-first-token"),
        ("inter_token", figures.token_p50, figures.token_p95, "memory.metric-inter-token"),
        ("whole_answer", figures.whole_p50, figures.whole_p95, "memory.metric-whole-answer"),
    ):
        family = into.gauge(f"inferdash_server_{name}_seconds", say(code).text)
        family.add(half, **labels, quantile="0.5")
        family.add(most, **labels, quantile="0.95")
