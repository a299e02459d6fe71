"""Reports of memory verdicts: a recording of a box, without whose programs they are, and its replay.

The keys of a recording's lines are those of docs/gpu-memory.md. Nearly all may be null or left out:
what was not seen is not known. What else is there is not looked at.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from servers.judge.memory.pools import BUCKETS
from servers.judge.memory.stops import MemoryThresholds
from servers.judge.memory.verdicts import Judge, MemoryVerdict
from servers.judge.reports.document import Report, ReportError, ReportLine
from servers.judge.reports.redaction import Redactor
from servers.launch.tables import read_table

# What the words of memory.yaml mean, for people and for Python.
_IS: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "number": ("a number", (int, float)),
    "text": ("a text", (str,)),
    "flag": ("true or false", (bool,)),
    "moment": ("a number or a text", (int, float, str)),
}
# Stands for every key of an object.
_EACH = "*"
_RECORDING_LINE = read_table(__file__)


def find_recording_fault(said: object) -> str:
    """The first thing that makes a line none of a recording, in words; "" = nothing."""
    if not isinstance(said, Mapping):
        return "is not a JSON object"
    found = next(_faults(said, _RECORDING_LINE, ""), "")
    return found or ("" if "gpus" in said else "has no “gpus”")


def _faults(said: Any, form: Any, where: str) -> Iterator[str]:
    if isinstance(form, str):
        # True is a number to Python, and to nobody else.
        is_flag = isinstance(said, bool)
        words, types = _IS[form]
        if not isinstance(said, types) or is_flag != (form == "flag"):
            yield f"has {_format_value(said)} as “{where}”, where {words} belongs"
    elif isinstance(form, list):
        if not isinstance(said, list):
            yield f"has {_format_value(said)} as “{where}”, where a list belongs"
            return
        for at, each in enumerate(said):
            yield from _faults(each, form[0], f"{where}[{at}]")
    elif not isinstance(said, Mapping):
        yield f"has {_format_value(said)} as “{where}”, where an object belongs"
    else:
        yield from _members(said, form, f"{where}." if where else "")


def _members(said: Mapping[str, Any], form: Mapping[str, Any], before: str) -> Iterator[str]:
    if _EACH in form:
        form = dict.fromkeys(said, form[_EACH])
    for key, of in form.items():
        name = key.removesuffix("!")
        value = said.get(name)
        if value is not None:
            yield from _faults(value, of, before + name)
        elif name != key:
            yield f"has no “{before}{name}”"


def _format_value(said: object) -> str:
    text = "null" if said is None else repr(said)
    return text if len(text) <= 40 else f"{text[:40]}…"


# What the judge of memory looks at; of the rest of a sample a report says nothing.
_KEYS = (
    *("t", "boot_id", "uptime_s", "stale_s", "driver", "sees_host_pids", "collector_ok"),
    *("containers", "shm", "events", "pending"),
)
_CARD = (
    *("uuid", "name", "compute_capability", "kind", "total", "free", "reserved", "processes"),
    "node_meminfo",
)
_PROCESS = ("pid", "start", "ppid", "state", "container")
_CONTAINER = ("id", "ours", "state", "stopped_at")
_LINES = (
    *BUCKETS,
    *("MemTotal", "MemAvailable", "Buffers", "Cached", "SwapCached", "FilePages", "Shmem"),
    *("Hugepagesize", "HugePages_Total"),
)
_SHORT_ID = 12
_SHM = "/dev/shm/"  # noqa: S108
_SEGMENT = re.compile(_SHM + r"(?!segment\d+(?![^\s,])|…)[^\s,]+")
_POOLS = "EnableSystemMemoryPools"


def reduce_snapshot(
    snapshot: Mapping[str, Any], verdicts: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """Of a snapshot what the judge of memory looks at, with its verdicts: so the watcher keeps it."""
    held = {
        each.get("pid")
        for card in snapshot.get("gpus") or []
        for each in card.get("processes") or []
    }
    found = {key: snapshot[key] for key in _KEYS if snapshot.get(key) is not None}
    found["gpus"] = [_pick(card, _CARD) for card in snapshot.get("gpus") or []]
    for card in found["gpus"]:
        if card.get("node_meminfo"):
            card["node_meminfo"] = _pick(card["node_meminfo"], _LINES)
    if found.get("shm"):
        found["shm"] = [each for each in found["shm"] if each.get("mapped") is False]
    found["meminfo"] = _pick(snapshot.get("meminfo") or {}, _LINES)
    pools = (snapshot.get("driver_params") or {}).get(_POOLS)
    found["driver_params"] = {} if pools is None else {_POOLS: pools}
    if snapshot.get("processes") is None:
        found["processes"] = None
    else:
        known = [each for each in snapshot["processes"] if each.get("pid") in held]
        found["processes"] = [_reduce_process(each) for each in known]
    if found.get("containers"):
        found["containers"] = [_reduce_container(each) for each in found["containers"]]
    found["verdicts"] = [_pick(each, ("gpu", "verdict", "reason")) for each in verdicts]
    return found


def _pick(said: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    # A GPU whose processes are null is one whose list could not be made.
    return {key: said[key] for key in keys if key in said}


def _reduce_process(process: Mapping[str, Any]) -> dict[str, Any]:
    """Named by its program alone: the rest of its command line is somebody's."""
    name = str(process.get("title") or process.get("name") or "").split(" ", 1)[0]
    found = _pick(process, _PROCESS)
    if found.get("container"):
        found["container"] = str(found["container"])[:_SHORT_ID]
    return {**found, "name": name.rpartition("/")[2] if name.startswith("/") else name}


def _reduce_container(container: Mapping[str, Any]) -> dict[str, Any]:
    found = _pick(container, _CONTAINER)
    return {**found, "id": str(found.get("id", ""))[:_SHORT_ID]}


def build_memory(
    snapshots: Sequence[Mapping[str, Any]],
    redactor: Redactor,
    *,
    gpu: str,
    truth: str = "",
    inferdash: str = "",
    docker: str = "",
    baselines: Mapping[str, int] | None = None,
    thresholds: MemoryThresholds | None = None,
) -> Report:
    """The report of a verdict on one GPU (its UUID), with reduced snapshots in their order.

    `baselines` are those of earlier boots (bytes), as the judge has them, and `thresholds` what is
    set on the box; None: the usual.
    """
    last = snapshots[-1] if snapshots else {}
    card: Mapping[str, Any] = next(
        (each for each in last.get("gpus") or [] if each.get("uuid") == gpu), {}
    )
    verdicts = last.get("verdicts") or []
    verdict: Mapping[str, Any] = next((each for each in verdicts if each.get("gpu") == gpu), {})
    said = f"{verdict['verdict']}: {verdict.get('reason', '')}" if verdict else ""
    names = _number_segments(snapshots)
    said, truth = (_rename_segments(text, names) for text in (said, truth))
    snapshots = [_reduce_segments(each, names) for each in snapshots]
    texts = [text for snapshot in snapshots for text in _walk(snapshot)]
    redactor.learn([*texts, said, truth])
    boots: dict[str, str] = {}
    lines = [
        json.dumps(_redact(_drop_reasons(each), redactor, boots), ensure_ascii=False)
        for each in snapshots
    ]
    kept = {redactor.redact(name): size for name, size in (baselines or {}).items()}
    return Report(
        kind="memory",
        facts={
            "truth": redactor.redact(truth),
            "said": redactor.redact(said),
            "inferdash": inferdash,
            "card": redactor.redact(f"{gpu} {card.get('name') or ''}".strip()),
            "driver": str(last.get("driver") or ""),
            "docker": docker,
            "baselines": json.dumps(kept) if kept else "",
            "thresholds": _write_thresholds(thresholds or MemoryThresholds()),
        },
        parts={
            "recording": tuple(
                ReportLine(number=n, text=text) for n, text in enumerate(lines, start=1)
            )
        },
    )


def _number_segments(snapshots: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Stand-ins for the names below /dev/shm, which are those of somebody's programs and data."""
    paths = [str(each["path"]) for one in snapshots for each in one.get("shm") or []]
    return {path: f"{_SHM}segment{n}" for n, path in enumerate(dict.fromkeys(paths), start=1)}


def _rename_segments(text: str, names: Mapping[str, str]) -> str:
    for path in sorted(names, key=len, reverse=True):
        text = text.replace(path, names[path])
    return _SEGMENT.sub(f"{_SHM}…", text)


def _reduce_segments(snapshot: Mapping[str, Any], names: Mapping[str, str]) -> Mapping[str, Any]:
    if not snapshot.get("shm"):
        return snapshot
    # Of those that a process maps nothing is judged.
    kept = [each for each in snapshot["shm"] if each.get("mapped") is False]
    return {**snapshot, "shm": [{**each, "path": names[str(each["path"])]} for each in kept]}


def _drop_reasons(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    told = [_pick(each, ("gpu", "verdict")) for each in snapshot.get("verdicts") or []]
    return {**snapshot, "verdicts": told}


def _walk(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _walk(each)
    elif isinstance(value, list):
        for each in value:
            yield from _walk(each)
    elif isinstance(value, str):
        yield value


def _redact(value: Any, redactor: Redactor, boots: dict[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {
            key: boots.setdefault(each, f"boot{len(boots) + 1}")
            if key == "boot_id" and isinstance(each, str)
            else _redact(each, redactor, boots)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_redact(each, redactor, boots) for each in value]
    return redactor.redact(value) if isinstance(value, str) else value


def _write_thresholds(thresholds: MemoryThresholds) -> str:
    """Those that are not the usual ones, as JSON; "": all are."""
    usual = MemoryThresholds()
    other = {
        each.name: getattr(thresholds, each.name)
        for each in fields(MemoryThresholds)
        if getattr(thresholds, each.name) != getattr(usual, each.name)
    }
    return json.dumps(other) if other else ""


def judge_memory(report: Report) -> list[MemoryVerdict]:
    """The verdicts of a replay, each GPU's when it changes. Raises ReportError."""
    judge = Judge(_read_thresholds(report), best=_read_baselines(report))
    found: list[MemoryVerdict] = []
    before: dict[str, str] = {}
    for number, snapshot in enumerate(read_recording(report), start=1):
        try:
            verdicts = judge.step(snapshot)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ReportError(
                f"{error!r}: delete the line.", line=number, part="recording"
            ) from error
        for each in verdicts:
            if before.get(each.gpu) != each.verdict:
                before[each.gpu] = each.verdict
                found.append(each)
    return found


def read_recording(report: Report) -> list[dict[str, Any]]:
    """Its snapshots. Raises ReportError."""
    found: list[dict[str, Any]] = []
    for line in report.parts["recording"]:
        try:
            said = json.loads(line.text)
        except (ValueError, RecursionError) as error:
            raise ReportError(
                f"it is not JSON ({error}). Delete the line.", line=line.number, part="recording"
            ) from error
        if fault := find_recording_fault(said):
            raise ReportError(f"it {fault}. Delete the line.", line=line.number, part="recording")
        found.append(said)
    return found


def _read_baselines(report: Report) -> dict[str, int]:
    return {str(name): int(size) for name, size in _read_json(report, "baselines").items()}


def _read_thresholds(report: Report) -> MemoryThresholds:
    said = _read_json(report, "thresholds")
    if odd := said.keys() - {each.name for each in fields(MemoryThresholds)}:
        raise ReportError(f"“thresholds” has {', '.join(sorted(odd))}: delete that.", line=1)
    values: dict[str, Any] = {
        name: tuple(each) if isinstance(each, list) else each for name, each in said.items()
    }
    return MemoryThresholds(**values)


def _read_json(report: Report, name: str) -> dict[str, Any]:
    text = report.facts.get(name)
    if not text:
        return {}
    try:
        said = json.loads(text)
        if isinstance(said, dict):
            return said
    except ValueError:
        pass
    raise ReportError(f"“{name}” is no JSON object. Save the report again.", line=1)
