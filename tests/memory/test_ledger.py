"""Who has each byte of a pool: on every kind of card, and whatever the figures say."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servers.judge.memory import holders
from servers.judge.memory.ledger import Ledger
from servers.judge.memory.pools import BUCKETS
from servers.judge.memory.verdicts import Judge
from tests.memory.scenes import MemoryScene, crashed
from tests.memory.test_properties import lives
from tests.samples import GIB, card, process, sample, unified

KINDS = ["unified", "discrete", "numa"]


def judged(scene: MemoryScene) -> list[tuple[dict[str, Any], Ledger]]:
    judge, found = Judge(), []
    for each in scene:
        told = each | {"verdicts": [said.to_json() for said in judge.step(each)]}
        told["gpus"] = [{**gpu, "index": 0} for gpu in told["gpus"]]
        (gpu,) = holders.gpus(told, {"a" * 64: "glm-5"})
        assert gpu.ledger is not None
        found.append((told, gpu.ledger))
    return found


def only(found: dict[str, Any], names: dict[str, str] | None = None) -> Ledger:
    (gpu,) = holders.gpus(found, names or {})
    assert gpu.ledger is not None
    return gpu.ledger


def kinds(of: Ledger) -> list[tuple[str, str]]:
    return [(part.kind, part.name) for part in of.parts]


@given(lives())
@settings(max_examples=100)
def test_the_parts_add_up_nothing_is_negative_and_the_verdict_agrees(scene: MemoryScene) -> None:
    for snapshot, found in judged(scene):
        assert sum(part.size for part in found.parts) == found.total
        assert all(part.size >= 0 for part in found.parts)
        assert found.parts[-1].kind == "free"
        (verdict,) = snapshot["verdicts"]
        said = found.size("unattributed") + found.size("driver_pool") + found.size("unseen")
        if not found.excess:
            assert said == verdict["unattributed"]
        assert bool(found.excess) <= bool(found.notes)


FIGURE = st.integers(min_value=0, max_value=200) | st.integers(min_value=0, max_value=200 * GIB)
LINES = ("Cached", "Shmem", "Buffers", "SwapCached", "MemAvailable", "FilePages", *BUCKETS)


@given(st.data())
@settings(max_examples=300)
def test_figures_that_contradict_each_other_still_add_up_and_that_is_said(data: Any) -> None:
    total = data.draw(st.integers(min_value=1, max_value=200 * GIB))
    lines = data.draw(st.dictionaries(st.sampled_from(LINES), FIGURE))
    lines |= {"MemTotal": total, "MemFree": data.draw(FIGURE)}
    used = data.draw(st.lists(st.none() | FIGURE, max_size=4))
    gpu = card(0, []) | {
        "kind": data.draw(st.sampled_from(KINDS)),
        "total": total,
        "free": data.draw(st.none() | FIGURE),
        "reserved": data.draw(st.none() | FIGURE),
        "node_meminfo": data.draw(st.none() | st.just(lines)),
        "processes": [{"pid": pid, "used": size} for pid, size in enumerate(used)],
    }
    known = [process(pid, own=data.draw(st.none() | FIGURE)) for pid in range(len(used) - 1)]
    found = only(
        sample([card(1, [])], known, sees_host_pids=data.draw(st.booleans()))
        | {"gpus": [gpu], "meminfo": lines, "programs": [process(77, own=data.draw(FIGURE))]}
    )

    assert sum(part.size for part in found.parts) == found.total == total
    assert all(part.size >= 0 and part.width >= 0 for part in found.parts)
    assert bool(found.excess) <= bool(found.notes)
    assert len({part.key for part in found.parts}) == len(found.parts)


def test_a_card_has_servers_other_processes_what_is_reserved_and_what_is_free() -> None:
    held = [(1, 84.1), (2, 3.0), (3, 0.1)]
    processes = [process(1, "a" * 64), process(2, name="python3"), process(3, name="Xorg")]
    told = sample([card(0, held)], processes)
    told["verdicts"] = [each.to_json() for each in Judge().step(told)]

    found = only(told, {"a" * 64: "glm-5"})

    assert kinds(found) == [
        ("server", "glm-5"),
        ("process", "python3"),
        ("process", "Xorg"),
        ("reserved", "reserved by the driver"),
        ("usual", "always in use"),
        ("free", "free"),
    ]
    assert [each.name for each in found.named] == ["glm-5", "python3", "free"]
    assert found.excess == 0


def test_the_unified_pool_is_the_machines_with_what_programs_hold_beside_the_gpu() -> None:
    told = sample(
        [unified(51.2, [(1, 41.3)])],
        [process(1, "a" * 64, own=3 * GIB)],
        programs=[process(9, name="java", own=4 * GIB), process(8, "a" * 64, own=GIB)],
    )
    anonymous = told["meminfo"]["AnonPages"] - 2 * GIB
    told["meminfo"] |= {"Shmem": GIB, "Hugetlb": 2 * GIB, "AnonPages": anonymous}

    found = only(told, {"a" * 64: "glm-5"})

    sizes = {part.key: part.size for part in found.parts}
    assert sizes["server-glm-5"] == int(41.3 * GIB) + 4 * GIB
    assert sizes["process-9"] == 4 * GIB
    assert sizes["programs"] == anonymous - 8 * GIB
    assert sizes["shared"] == GIB
    assert sizes["cache"] == told["meminfo"]["Cached"] - GIB
    assert sizes["free"] == told["meminfo"]["MemFree"]
    assert found.available == told["meminfo"]["MemAvailable"]
    (server,) = (part for part in found.parts if part.kind == "server")
    assert dict(server.lines)["outside the GPU"] == 4 * GIB
    assert [each.pid for each in server.holders] == [1, 8]


def test_the_page_cache_of_a_gpu_that_is_a_numa_node_is_no_loss() -> None:
    scene = MemoryScene(kind="numa", total=280.0, cached=60.0).for_(200)

    found = judged(scene)[-1][1]

    assert found.size("cache") == 60 * GIB
    assert found.size("unattributed") == 0


def test_a_process_that_took_memory_after_it_was_counted_is_taken_from_what_is_free() -> None:
    found = only(sample([card(0, [(1, 60.0)], free=80 * GIB)], [process(1)]))

    assert found.size("process") == 60 * GIB
    assert sum(part.size for part in found.parts) == found.total
    assert 40 * GIB < found.excess < 46 * GIB
    assert "exceed the pool by 4" in found.notes[0]


def test_the_page_pool_of_the_driver_is_called_so_once_the_verdict_says_it() -> None:
    scene = crashed(MemoryScene(pools=529, driver="590.48.01"), lost=40.0)

    before, after = judged(scene.for_(60))[-1][1], judged(scene.for_(400))[-1][1]

    assert before.size("driver_pool") == 0
    assert before.size("unattributed") == after.size("driver_pool") > 36 * GIB
    (pool,) = (part for part in after.parts if part.kind == "driver_pool")
    assert "drop_caches" in pool.words.remedy
    assert pool.is_loud


def test_a_loss_says_the_advice_of_the_verdict() -> None:
    told, found = judged(crashed(MemoryScene(kind="discrete", total=96.0), lost=40.0).for_(200))[-1]

    (lost,) = (part for part in found.parts if part.kind == "unattributed")
    assert lost.words.remedy == told["verdicts"][0]["advice"]
    assert lost.is_loud


def test_without_the_boxs_pid_namespace_a_held_card_is_not_called_unattributed() -> None:
    told = sample([card(0, [])], [], sees_host_pids=False)
    told["gpus"][0]["free"] = 10 * GIB

    found = only(told)

    assert ("unseen", "holder not visible from here") in kinds(found)
    assert "unattributed" not in dict(kinds(found))


def test_a_process_whose_memory_is_not_told_is_listed_without_a_figure() -> None:
    told = sample([card(0, [(1, 4.0)])], [process(1)])
    told["gpus"][0]["processes"][0]["used"] = None

    found = only(told)

    (held,) = (part for part in found.parts if part.kind == "process")
    assert (held.told, held.size) == (False, 0)
    assert found.size("unattributed") >= 4 * GIB


def test_a_process_that_only_the_driver_still_knows_is_called_so() -> None:
    found = only(sample([card(0, [(41, 4.0)])], []))

    (held,) = (part for part in found.parts if part.kind == "process")
    assert held.name == "process 41, which has ended"
    assert "/proc has no such process" in held.words.source


def test_a_process_that_is_listed_twice_counts_once() -> None:
    told = sample([card(0, [(1, 4.0), (1, 4.0)])], [process(1)])
    told["gpus"][0]["free"] += 4 * GIB

    assert only(told).size("process") == 4 * GIB
    assert only(told).excess == 0


def test_one_server_has_one_shade_on_every_card() -> None:
    names = {"a" * 64: "glm-5", "b" * 64: "qwen3-8b"}
    cards = [card(0, [(1, 40.0)]), card(1, [(2, 20.0), (3, 60.0)])]
    running = [process(1, "a" * 64), process(2, "a" * 64), process(3, "b" * 64)]

    parts = [
        part
        for gpu in holders.gpus(sample(cards, running), names)
        if gpu.ledger
        for part in gpu.ledger.parts
    ]

    assert {each.name: each.tone for each in parts if each.tone} == {"glm-5": 1, "qwen3-8b": 2}


def test_a_card_that_reports_no_memory_has_no_ledger() -> None:
    silent = card(0, []) | dict.fromkeys(("total", "free", "used", "reserved"))

    (gpu,) = holders.gpus(sample([silent], []), {})

    assert gpu.ledger is None
    assert gpu.total is None


@pytest.mark.parametrize("kind", KINDS)
def test_every_part_says_what_it_is_whence_its_figure_is_and_what_can_be_done(kind: str) -> None:
    _told, found = judged(crashed(MemoryScene(kind=kind), lost=9.0).for_(300))[-1]

    for part in found.parts:
        assert all((part.words.what, part.words.source, part.words.remedy))
        assert "{" not in part.words.source


def test_charts_keep_a_gap_where_a_card_was_not_read() -> None:
    points = [
        {"t": 1.0, "gpus": {"GPU-a": [5, 10]}},
        {"t": 2.0, "gpus": {}},
        {"t": 3.0, "gpus": {"GPU-a": [7, 12]}},
    ]

    assert holders.columns(points) == {
        "t": [1.0, 2.0, 3.0],
        "gpus": {"GPU-a": {"util": [5, None, 7], "used": [10, None, 12]}},
    }
