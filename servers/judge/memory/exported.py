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
from servers.launch.tables import read_table

type Labels = dict[str, object]

VERDICTS: tuple[verdicts.Name, ...] = get_args(verdicts.Name.__value__)
THROTTLES = (
    *("gpu_idle", "applications_clocks", "sw_power_cap", "hw_slowdown", "sync_boost"),
    *("sw_thermal", "hw_thermal", "hw_power_brake", "display_clocks", "board_limit"),
    "reliability",
)
_TABLE = read_table(__file__)
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
    _add_rows(
        into, "box_memory", "inferdash_box_memory_{}_bytes", sample.get("meminfo") or {}, labels
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
        values = {**card, **vars(gpu), "has_fault": float(bool(gpu.fault))}
        _add_rows(into, "gpu_memory", "inferdash_gpu_memory_{}_bytes", values, labels)
        _add_rows(into, "gpu", "inferdash_gpu_{}", values, labels)
        _throttle(into, gpu, labels)
        _ledger(into, gpu, labels)
        if gpu.key in verdicts:
            _verdict(into, verdicts[gpu.key], labels)


def _add_rows(
    into: Families, rows: str, name: str, values: Mapping[str, Any], labels: Mapping[str, object]
) -> None:
    """A gauge for each of these rows of exported.yaml; `name` has a place for the row's own."""
    for row in _TABLE[rows]:
        value = values.get(row["of"])
        if row.get("unit") == "share":
            value = _share(value)
        elif row.get("unit") == "hertz" and value is not None:
            value = value * _MHZ
        into.gauge(name.format(row["name"]), say(row["code"]).text).add(value, **labels)


def _throttle(into: Families, gpu: GpuMemory, labels: Labels) -> None:
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


def engine(into: Families, figures: Figures, labels: Mapping[str, object]) -> None:
    """What an engine tells of its work, under the same names for all engines."""
    _add_rows(into, "engine", "inferdash_server_{}", vars(figures), labels)
    for row in _TABLE["latencies"]:
        family = into.gauge(f"inferdash_server_{row['name']}_seconds", say(row["code"]).text)
        family.add(getattr(figures, f"{row['of']}_p50"), **labels, quantile="0.5")
        family.add(getattr(figures, f"{row['of']}_p95"), **labels, quantile="0.95")
