from typing import Any

from servers.launch.engines.change import Difference, compare_launches
from servers.launch.engines.launch import Launch


def launch(**values: Any) -> Launch:
    base = {"engine": "sglang", "image": "lmsysorg/sglang:v0.5.12", "checkpoint": "Qwen/Qwen3-8B"}
    return Launch(**{**base, **values})


def rows(before: Launch, after: Launch) -> list[tuple[str, str | None, str | None]]:
    return [(each.name, each.before, each.after) for each in compare_launches(before, after)]


def test_nothing_differs_from_itself() -> None:
    one = launch(flags=("--tp", "2"), env={"A": "1"})

    assert compare_launches(one, one) == []


def test_flags_differ_one_by_one_whatever_their_notation() -> None:
    before = launch(flags=("--tp", "2", "--mem_fraction_static=0.8", "--trust-remote-code"))
    after = launch(flags=("--tp=4", "--mem-fraction-static", "0.8", "--enable-metrics"))

    assert rows(before, after) == [
        ("--tp", "2", "4"),
        ("--trust-remote-code", "", None),
        ("--enable-metrics", None, ""),
    ]


def test_variables_differ_one_by_one_and_secrets_stay_secret() -> None:
    before = launch(env={"A": "1", "B": "2"}, secret_env={"HF_TOKEN": 1, "KEY": 3})
    after = launch(env={"A": "1", "B": "3"}, secret_env={"HF_TOKEN": 2, "KEY": 3})

    assert rows(before, after) == [
        ("B", "2", "3"),
        ("HF_TOKEN", "a secret", "another secret"),
    ]


def test_other_fields_differ_by_name() -> None:
    before = launch(shm_size=0, volumes=("/a:/a",))
    after = launch(shm_size=64 << 30, volumes=("/a:/a", "/b:/b"), privileged=True)

    assert rows(before, after) == [
        ("volumes", "/a:/a", "/a:/a\n/b:/b"),
        ("shm_size", None, "64g"),
        ("privileged", "no", "yes"),
    ]


def test_a_reason_stands_beside_its_difference_and_is_one_itself() -> None:
    before = launch(flags=("--tp", "2"), reasons={"--tp": "two cards"})
    after = launch(flags=("--tp", "2"), reasons={"--tp": "two fast cards"})

    assert compare_launches(before, after) == [
        Difference(part="flags", name="--tp", before="2", after="2", why="two fast cards")
    ]


def test_another_order_of_the_same_flags_is_told_once() -> None:
    before, after = launch(flags=("--a", "--b")), launch(flags=("--b", "--a"))

    assert rows(before, after) == [("order", "--a --b", "--b --a")]


def test_lengths_of_time_are_shown_as_people_write_them() -> None:
    assert rows(launch(), launch(ready_limit=5400)) == [("ready_limit", None, "1h30m")]
    assert rows(launch(ask_every=600), launch()) == [("ask_every", "10m", None)]
