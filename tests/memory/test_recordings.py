"""Recordings of other boxes: several GPUs, GPUs that vanish, fields that are missing."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from servers.judge.memory.verdicts import Judge
from tests.cases import table
from tests.memory.scenes import BEGAN, GIB, MemoryScene, served

type Snapshot = dict[str, Any]


def card(uuid: str, used: float, holder: int | None = None, **of: Any) -> Snapshot:
    """A card of 96 GiB of which so much is used, by a process of that number."""
    free = int((96 - 0.6 - 0.4 - used) * GIB)
    processes = [] if holder is None else [{"pid": holder, "used": int(used * GIB)}]
    return {
        "uuid": uuid, "name": "NVIDIA RTX PRO 6000", "compute_capability": "12.0",
        "kind": "discrete", "total": 96 * GIB, "free": free, "reserved": int(0.6 * GIB),
        "util": 0, "mem_util": 0, "power_w": 30.0, "sm_mhz": 300, "processes": processes,
    } | of  # fmt: skip


def snapshot(t: float, gpus: list[Snapshot], **of: Any) -> Snapshot:
    main = {"MemTotal": 503 * GIB, "MemFree": 400 * GIB, "MemAvailable": 480 * GIB}
    return {
        "t": BEGAN + t, "boot_id": "one", "uptime_s": 50_000 + t, "driver": "580.126.09",
        "driver_params": {}, "sees_host_pids": True, "collector_ok": True, "meminfo": main,
        "gpus": gpus, "processes": [], "containers": [], "shm": [], "events": [], "pending": None,
    } | of  # fmt: skip


def process(pid: int, container: str | None, **of: Any) -> Snapshot:
    plain = {"pid": pid, "start": BEGAN - 100, "ppid": 9, "name": "VLLM::EngineCore", "state": "S"}
    return plain | {"container": container} | of


def told(make: Callable[[float], Snapshot], seconds: int = 600) -> dict[str, list[str]]:
    """The verdicts of each GPU in their order, each once."""
    judge = Judge()
    found: dict[str, list[str]] = {}
    for t in range(0, seconds, 5):
        for each in judge.step(make(float(t))):
            so_far = found.setdefault(each.gpu, [])
            if so_far[-1:] != [each.verdict]:
                so_far.append(each.verdict)
    return found


def test_one_card_loses_memory_while_another_serves() -> None:
    def box(t: float) -> Snapshot:
        has_ended = t >= 300
        stopped = {"state": "exited", "stopped_at": BEGAN + 300}
        running = {"state": "running", "stopped_at": None}
        lost = card("GPU-2", 20) if has_ended else card("GPU-2", 60, 11)
        return snapshot(
            t,
            [card("GPU-1", 80, 10), lost],
            processes=[process(10, "c1")] + [process(11, "c2")] * (not has_ended),
            containers=[
                {"id": "c1", "run": 1, "ours": True} | running,
                {"id": "c2", "run": 2, "ours": True} | (stopped if has_ended else running),
            ],
        )

    found = told(box)

    assert found["GPU-1"] == ["ok"]
    assert found["GPU-2"][:2] == ["ok", "settling"]
    assert found["GPU-2"][-1] == "leaked"


def test_a_gpu_that_vanishes_is_told_until_it_is_back() -> None:
    def box(t: float) -> Snapshot:
        there = [card("GPU-1", 0)]
        return snapshot(t, there if 100 <= t < 200 else [*there, card("GPU-2", 0)])

    assert told(box) == {"GPU-1": ["ok"], "GPU-2": ["ok", "unknown", "ok"]}


def test_a_gpu_of_an_earlier_boot_is_not_missed() -> None:
    def box(t: float) -> Snapshot:
        if t < 100:
            return snapshot(t, [card("GPU-1", 0), card("GPU-2", 0)])
        return snapshot(t, [card("GPU-1", 0)], boot_id="two", uptime_s=t - 90)

    assert told(box) == {"GPU-1": ["ok"], "GPU-2": ["ok"]}


def test_a_collector_that_lists_nothing_leaves_every_gpu_unknown() -> None:
    def box(t: float) -> Snapshot:
        silent = {"collector_ok": False, "gpus": [], "processes": None, "meminfo": {}}
        return snapshot(t, [card("GPU-1", 60, 10)], processes=[process(10, None)]) | (
            silent if 100 <= t < 120 else {}
        )

    assert told(box) == {"GPU-1": ["ok", "unknown", "ok"]}


def test_processes_that_are_not_told_accuse_nobody() -> None:
    assert told(lambda t: snapshot(t, [card("GPU-1", 60, 10)], processes=None)) == {
        "GPU-1": ["unknown"]
    }


SERVES = served(MemoryScene(kind="unified")).made[-1]
FIELDS = [name for name in SERVES if name != "t"]
FIELDS += [f"gpu {name}" for name in SERVES["gpus"][0]]


@table(("where", "is_null"), product(FIELDS, [True, False]))
def test_a_field_that_is_missing_neither_breaks_nor_alarms(where: str, is_null: bool) -> None:
    def box(t: float) -> Snapshot:
        made = SERVES | {"t": BEGAN + t, "gpus": [dict(SERVES["gpus"][0])]}
        of = made["gpus"][0] if where.startswith("gpu ") else made
        name = where.removeprefix("gpu ")
        if is_null:
            of[name] = None
        else:
            del of[name]
        return made

    found = told(box)
    assert not {"leaked", "residual"} & {verdict for each in found.values() for verdict in each}


@pytest.mark.parametrize("name", ["MemTotal", "MemFree"])
def test_main_memory_without_its_size_is_not_judged(name: str) -> None:
    made = SERVES | {"meminfo": SERVES["meminfo"] | {name: None}}
    (found,) = Judge().step(made)
    assert found.verdict == "unknown"


@pytest.mark.parametrize(
    ("of", "verdict"),
    [
        ({"name": "NVIDIA GB10", "compute_capability": "12.1", "total": None, "free": None}, "ok"),
        ({"name": "NVIDIA Thor", "compute_capability": "11.0", "total": 503 * GIB}, "ok"),
        ({"name": "NVIDIA RTX PRO 6000"}, "leaked"),
        ({"name": "NVIDIA RTX 5090", "total": None, "free": None}, "unknown"),
    ],
    ids=["no size of its own", "the machine's size", "a card", "a card that was lost"],
)
def test_a_kind_that_is_not_told_is_found_out(of: Snapshot, verdict: str) -> None:
    main = {
        "MemTotal": 503 * GIB, "MemFree": 400 * GIB, "MemAvailable": 480 * GIB, "Buffers": 0,
        "Cached": 90 * GIB, "AnonPages": 10 * GIB, "Slab": 2 * GIB,
    }  # fmt: skip
    gpu = card("GPU-1", 30) | {"kind": "of another time"} | of
    assert told(lambda t: snapshot(t, [gpu], meminfo=main))["GPU-1"][-1] == verdict


def test_a_container_s_id_may_be_shortened() -> None:
    def box(t: float) -> Snapshot:
        has_ended = t >= 100
        state = {"state": "exited" if has_ended else "running", "stopped_at": None}
        return snapshot(
            t,
            [card("GPU-1", 60, 10)],
            processes=[process(10, "0123456789ab" + "c" * 52)],
            containers=[{"id": "0123456789ab", "run": 1, "ours": True} | state],
        )

    assert told(box)["GPU-1"] == ["ok", "settling", "residual"]


def test_a_container_that_has_not_run_yet_has_not_ended() -> None:
    def box(t: float) -> Snapshot:
        made = {"id": "c1", "run": 1, "ours": True, "state": "created", "stopped_at": None}
        return snapshot(t, [card("GPU-1", 30)], containers=[made] * (t >= 200))

    assert told(box)["GPU-1"] == ["ok", "leaked"]


def test_shared_memory_that_nobody_uses_is_named_on_any_box() -> None:
    left = [{"path": "/dev/shm/psm_1", "bytes": 20 * GIB, "mapped": False}]
    assert told(lambda t: snapshot(t, [card("GPU-1", 0)], shm=left))["GPU-1"] == ["residual"]
