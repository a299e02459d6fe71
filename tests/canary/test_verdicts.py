"""Verdicts on models that answer wrongly by command, without an engine between."""

from dataclasses import replace
from typing import Any

from servers.host.canary.replies import CanaryReply
from servers.judge.canary.items import CanaryItem, list_items
from servers.judge.canary.scores import score_replies
from servers.judge.canary.verdicts import find_chance, judge_items, sum_up
from tests.canary.answered import answer
from tests.canary.engine import CanaryModel
from tests.cases import Cases

BEFORE = answer(CanaryModel())

# What the model does, the item that is wrong by it, and what is said of that.
WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"forgets_beyond": 8000}, "needle-6000-50", "It was right before."),
    ({"breaks_tool_calls": True}, "tool", "no JSON"),
    ({"forgets_turns": True}, "turns", "instead of 48213"),
    ({"repeats": True}, "language-en", "repeats “!”"),
    ({"repeats": True}, "fingerprint", "repeats “!”"),
    ({"wrong_sums": 9}, "arithmetic", "3 of 12 right; before, 12."),
]


def test_damage_is_called_wrong() -> None:
    with Cases() as cases:
        for values, key, said in WRONG:
            with cases.named(f"{values} {key}"):
                found = judge_items(answer(CanaryModel(**values)), BEFORE)
                by_key = {each.key: each for each in found}
                assert sum_up(found) == by_key[key].verdict == "wrong"
                assert said in by_key[key].text
                if not values.get("repeats"):
                    broken = {key, f"{key}-stream"}
                    others = {each.verdict for each in found if each.key not in broken}
                    assert others == {"pass"}


# What the model does, the verdict, and what is said of its fingerprint.
NOT_WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({}, "pass", "All 8 answers begin as before."),
    ({"noise": 0.02}, "pass", "numerical noise"),
    ({"noise": 0.02, "is_unsteady": True}, "pass", "numerical noise"),
    ({"shifts": 0.2}, "changed", "logprob moved by 0.20"),
    ({"is_other": True}, "changed", "at token 1 of"),
    ({"is_other": True, "has_logprobs": False}, "changed", "at character 1 of"),
    ({"has_logprobs": False}, "pass", "begin as before"),
    ({"noise": 0.02, "has_logprobs": False}, "unknown", "look the same"),
    ({"noise": 0.02, "has_logprobs": False, "is_unsteady": True}, "pass", "nearly as likely"),
    ({"wrong_sums": 2}, "pass", "begin as before"),
    ({"wrong_sums": 4}, "changed", "begin as before"),
]


def test_noise_is_no_damage() -> None:
    with Cases() as cases:
        for values, verdict, said in NOT_WRONG:
            with cases.named(str(values)):
                found = judge_items(answer(CanaryModel(**values)), BEFORE)
                by_key = {each.key: each for each in found}
                shown = by_key["fingerprint"]
                assert said in shown.text
                if verdict == "unknown":
                    assert shown.verdict == verdict
                    assert sum_up(found) == "pass"
                else:
                    assert sum_up(found) == verdict


def test_what_has_changed_is_shown_where_it_parts() -> None:
    found = judge_items(answer(CanaryModel(is_other=True)), BEFORE)
    shown = next(each for each in found if each.key == "fingerprint")

    assert shown.before
    assert shown.after
    assert shown.before.split()[0] != shown.after.split()[0]


def test_without_an_earlier_one_what_it_cannot_do_is_unknown() -> None:
    unable = answer(CanaryModel(forgets_turns=True, wrong_sums=12, has_logprobs=False))
    with Cases() as cases:
        for name, before in (("the first", None), ("as before", unable)):
            with cases.named(name):
                found = {each.key: each for each in judge_items(unable, before)}
                assert found["turns"].verdict == "unknown"
                assert found["arithmetic"].verdict == "pass"
                assert found["arithmetic"].text.startswith("0 of 12 right")
                assert sum_up(list(found.values())) == "pass"


# The kind of an item, what is said to it, and whether that is right.
REPLIES: list[tuple[str, str, bool]] = [
    ("arithmetic", "5 × 19 = 95, 95 − 26 = 69", True),
    ("arithmetic", "The shop has **69** apples left.", True),
    ("arithmetic", "1,069", False),
    ("needle", "The code is 874 031.", True),
    ("language", "El cielo es azul porque la luz se dispersa en el aire.", True),
    ("language", "Небо голубое, потому что воздух рассеивает свет.", False),
    ("schema", '{"name": "Ada", "age": "36", "city": "Oslo", "languages": []}', False),
    ("schema", '```json\n{"name": "Ada"}\n```', False),
    ("repetition", "So they went on and on, over the hill and down again. " * 12, False),
]


def test_replies_are_right_or_wrong() -> None:
    items: dict[str, CanaryItem] = {}
    for item in list_items("quick", longest=None):
        items.setdefault(item.kind, item)
    items["needle"] = replace(items["needle"], expected="874031")
    with Cases() as cases:
        for kind, text, is_right in REPLIES:
            with cases.named(f"{kind}: {text}"):
                assert score_replies(items[kind], [CanaryReply(text=text)]).is_right is is_right


def test_chance_alone_makes_as_many_better_as_worse() -> None:
    assert find_chance(0, 0) == 1.0
    assert find_chance(7, 0) == 1 / 128
    assert find_chance(3, 3) > 0.5
