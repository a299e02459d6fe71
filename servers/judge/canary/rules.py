"""Known reasons of wrong answers, as rules.yaml has them, and those that fit a server."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from servers.judge.profiles.conditions import Condition, compile_condition
from servers.judge.profiles.facts import LaunchFacts
from servers.launch.tables import load_yaml


@dataclass(frozen=True, kw_only=True)
class CanaryRule:
    """`condition` None, and nothing in `items` or `changed`: it does not ask for that."""

    id: str
    condition: Condition | None
    items: frozenset[str]  # kinds
    changed: frozenset[str]  # names of what a result was measured on
    says: str
    advice: str
    source: str


@cache
def load_rules() -> Sequence[CanaryRule]:
    said = load_yaml((Path(__file__).parent / "rules.yaml").read_text())
    return [_read_rule(each) for each in said]


def _read_rule(said: Mapping[str, Any]) -> CanaryRule:
    return CanaryRule(
        id=said["id"],
        condition=compile_condition(said["when"]) if "when" in said else None,
        items=frozenset(said.get("items", ())),
        changed=frozenset(said.get("changed", ())),
        says=said["says"],
        advice=said["advice"],
        source=said["source"],
    )


def list_rules(
    facts: LaunchFacts, *, wrong: Collection[str], changed: Collection[str]
) -> list[CanaryRule]:
    """Those that fit; the first ones by what has changed. `wrong`: kinds of items."""
    found = [
        rule
        for rule in load_rules()
        if (rule.condition is None or rule.condition(facts))
        and (not rule.items or rule.items & set(wrong))
        and (not rule.changed or rule.changed & set(changed))
    ]
    return sorted(found, key=lambda rule: not rule.changed)
