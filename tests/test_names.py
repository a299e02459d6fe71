"""The rules on names find what breaks them."""

from pathlib import Path

from tests.names import ROOT, find_faults, is_verbless, read_modules

GOOD = '"""The shape of a thing."""\n\n\nclass Thing:\n    def weigh(self) -> None: ...\n'


def faults(**texts: str) -> list[str]:
    """What is wrong with modules of servers/ that have these texts."""
    return list(find_faults({Path(f"servers/{name}.py"): text for name, text in texts.items()}))


def test_a_good_module_has_no_fault() -> None:
    assert faults(good=GOOD) == []


def test_every_rule_says_where_it_is_broken() -> None:
    kept = '"""Kept things."""\n\n\nclass Meta: ...\n\n\n@property\ndef told() -> None: ...\n'
    assert faults(good=GOOD, kept=kept) == [], "Django's Meta, and a property"

    assert faults(a=GOOD, b=GOOD) == [
        "servers/b.py:4: class Thing stands in servers/a.py:4, too: give one another name"
    ]
    assert faults(a=GOOD.replace("weigh", "weighed")) == [
        "servers/a.py:5: weighed() is named by no verb"
    ]
    assert faults(a=GOOD.replace("The shape", "What the shape")) == [
        "servers/a.py: its docstring begins with “What” and not with what the module is"
    ]
    assert faults(a="x = 1\n") == [
        "servers/a.py: has no docstring: say in a few words what the module is"
    ]
    assert faults(a=GOOD + "\n" * 500) == [
        "servers/a.py: 505 lines, more than 500: split it by its nouns"
    ]


def test_verbs_are_told_from_participles_and_prepositions() -> None:
    verbless = [name for name in ("of", "_told", "since", "Parsed", "listing") if is_verbless(name)]
    verbs = [name for name in ("feed", "ping", "find", "from_row", "is_kept") if is_verbless(name)]
    assert (len(verbless), verbs) == (5, [])


def test_all_modules_are_looked_at() -> None:
    modules = read_modules(ROOT)
    assert Path("servers/models/runs/run.py") in modules
    assert Path("tests/test_names.py") in modules
    assert not any("migrations" in path.parts for path in modules)
