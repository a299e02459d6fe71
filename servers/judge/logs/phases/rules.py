"""The rules by which phases are recognised: an engine a file, explained in vllm.yaml."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from servers.judge.logs.phases.progress import PHASES

FOLDER = Path(__file__).parent

_KEYS = {
    "id",
    "phase",
    "near",
    "regex",
    "examples",
    "each_rank",
    "ends",
    "then",
    "facts",
    "adds",
    "versions",
}


class PhaseRuleError(Exception):
    """A file of rules that cannot be used; the text names the file and the rule."""


@dataclass(frozen=True, kw_only=True)
class PhaseRule:
    id: str
    phase: str
    near: tuple[str, ...]
    regex: re.Pattern[str]
    examples: tuple[str, ...]
    each_rank: bool
    ends: bool
    then: str
    facts: dict[str, str]  # fact -> group
    adds: bool  # facts add up over the lines
    has_bar: bool


@dataclass(frozen=True, kw_only=True)
class Rules:
    engine: str
    order: dict[str, int]  # phase -> place
    signs: tuple[str, ...]
    weak_signs: tuple[str, ...]
    quiet_after: dict[str, float]  # phase -> seconds
    quiet_after_unified: dict[str, float]
    rules: tuple[PhaseRule, ...]
    near: tuple[tuple[str, tuple[PhaseRule, ...]], ...]  # plain text -> rules that it may concern


@cache
def by_engine() -> dict[str, Rules]:
    """Raises RuleError."""
    found = [_engine(path) for path in sorted(FOLDER.glob("*.yaml"))]
    return {rules.engine: rules for rules in found}


def order(engine: str) -> list[str]:
    """The phases of an engine in its order; in the usual one where it has no rules."""
    rules = by_engine().get(engine)
    return list(rules.order if rules is not None else PHASES)


def _engine(path: Path) -> Rules:
    try:
        kept = yaml.safe_load(path.read_text(encoding="utf-8"))
        rules = tuple(_rule(each, kept["order"]) for each in kept["rules"])
        places = {phase: place for place, phase in enumerate(kept["order"])}
        near: dict[str, list[PhaseRule]] = {}
        for rule in rules:
            for text in rule.near:
                near.setdefault(text, []).append(rule)
        return Rules(
            engine=kept["engine"],
            order=places,
            signs=tuple(kept["signs"]),
            weak_signs=tuple(kept["weak_signs"]),
            quiet_after=_seconds(kept["quiet_after"], places),
            quiet_after_unified=_seconds(kept["quiet_after_unified"], places),
            rules=rules,
            near=tuple((text, tuple(those)) for text, those in near.items()),
        )
    except (yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise PhaseRuleError(f"{path.name}: {error!r}") from error


def _seconds(kept: dict[str, float], order: dict[str, int]) -> dict[str, float]:
    if strange := kept.keys() - order.keys() - {"default"}:
        raise ValueError(f"names phases that are none of the engine's: {strange}")
    return {phase: float(kept.get(phase, kept["default"])) for phase in order}


def _rule(kept: dict[str, Any], order: list[str]) -> PhaseRule:
    if unknown := kept.keys() - _KEYS:
        raise ValueError(f"{kept.get('id')} has keys that are not known: {unknown}")
    for phase in {kept["phase"], kept.get("then") or kept["phase"]}:
        if phase not in PHASES or phase not in order:
            raise ValueError(f"{kept['id']} names a phase that is none of the engine's: {phase}")
    regex = re.compile(kept["regex"])
    facts = kept.get("facts", {})
    if strange := set(facts.values()) - regex.groupindex.keys():
        raise ValueError(f"{kept['id']} takes facts from groups that are not there: {strange}")
    return PhaseRule(
        id=kept["id"],
        phase=kept["phase"],
        near=tuple(kept["near"]),
        regex=regex,
        examples=tuple(kept["examples"]),
        each_rank=kept.get("each_rank", False),
        ends=kept.get("ends", False),
        then=kept.get("then", ""),
        facts=facts,
        adds=kept.get("adds", False),
        has_bar="total" in regex.groupindex,
    )
