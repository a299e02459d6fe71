from servers.judge import holders
from tests.factories import GIB, card, process, sample, unified


def test_the_parts_of_a_card_add_up_to_its_total() -> None:
    held = [(1, 84.1), (2, 3.0), (3, 0.1)]
    processes = [process(1, "a" * 64), process(2, name="python3"), process(3, name="Xorg")]

    (gpu,) = holders.gpus(sample([card(0, held)], processes), {"a" * 64: "glm-5"})

    assert [(each.part, each.name) for each in gpu.segments] == [
        ("server", "glm-5"),
        ("other", "python3"),
        ("other", "others"),
        ("rest", "not attributed"),
        ("reserved", "driver"),
        ("free", "free"),
    ]
    assert sum(each.size for each in gpu.segments) == gpu.total
    assert [each.name for each in gpu.named] == ["glm-5", "python3", "free"]


def test_the_unified_pool_is_the_machines_and_names_what_else_fills_it() -> None:
    (gpu,) = holders.gpus(sample([unified(51.2, [(1, 41.3)])], [process(1, "a" * 64)]), {})

    assert gpu.is_unified
    assert [each.name for each in gpu.segments] == [
        "VLLM::EngineCore",
        "rest of the machine",
        "free",
    ]
    assert gpu.power_limit is None


def test_processes_that_exceed_the_card_do_not_overflow_its_meter() -> None:
    (gpu,) = holders.gpus(sample([card(0, [(1, 60.0)], free=80 * GIB)], []), {})

    assert sum(each.size for each in gpu.segments) == gpu.total
    assert gpu.segments[-1].start + gpu.segments[-1].width <= 100.001


def test_without_the_boxs_pid_namespace_a_held_card_is_not_called_unattributed() -> None:
    found = sample([card(0, [])], [], sees_host_pids=False)
    found["gpus"][0]["free"] = 10 * GIB

    (gpu,) = holders.gpus(found, {})

    assert "holder not visible from here" in [each.name for each in gpu.segments]


def test_one_server_has_one_shade_on_every_card() -> None:
    names = {"a" * 64: "glm-5", "b" * 64: "qwen3-8b"}
    cards = [card(0, [(1, 40.0)]), card(1, [(2, 20.0), (3, 60.0)])]
    running = [process(1, "a" * 64), process(2, "a" * 64), process(3, "b" * 64)]

    first, second = holders.gpus(sample(cards, running), names)

    shades = {each.name: each.tone for each in first.segments + second.segments if each.tone}
    assert shades == {"glm-5": 1, "qwen3-8b": 2}


def test_a_card_that_reports_no_memory_has_no_meter() -> None:
    silent = card(0, []) | dict.fromkeys(("total", "free", "used", "reserved"))

    (gpu,) = holders.gpus(sample([silent], []), {})

    assert gpu.segments == ()
    assert gpu.total is None


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
