"""The reader of a start's log. Later lines never move a start back."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

import yaml

from servers.judge.logs import parsing
from servers.judge.logs.parsing import ParsedLine
from servers.judge.logs.phases.progress import PHASES, PhaseMoment, PhaseProgress, ProgressBar
from servers.launch.tables import load_yaml

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
        kept = load_yaml(path.read_text(encoding="utf-8"))
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


_MOST_BARS = 400  # a hostile log may draw any number of them
_MOST_RANKS = 256
_LONGEST_FACT = 60  # characters


class Reader:
    """Fed with the lines of one log, in their order; `progress` is what they say so far.

    `engine` is a key of servers.launch.engines.ENGINES; "": found out by the lines themselves.
    """

    def __init__(self, engine: str = "") -> None:
        known = by_engine()
        self._tracks = {
            name: _Track(rules) for name, rules in known.items() if engine in ("", name)
        }
        self._engine = engine if engine in known else ""
        self._weak = dict.fromkeys(self._tracks, 0)

    def feed(self, number: int, text: str, at: str = "") -> None:
        """One stored line, in which a progress bar may stand redrawn many times.

        `number` and `at` come back in the moments; without `at` the line's own time does.
        """
        if not self._engine:
            self._look_for_signs(text)
        for track in self._tracks.values():
            track.feed(number, text, at)

    def feed_all(self, lines: Iterable[tuple[int, str, str]]) -> None:
        for number, text, at in lines:
            self.feed(number, text, at)

    @property
    def progress(self) -> PhaseProgress:
        if not self._tracks:
            return PhaseProgress()
        if self._engine:
            return self._tracks[self._engine].progress(self._engine)
        hints = {name: self._weak[name] + each.told for name, each in self._tracks.items()}
        engine = max(hints, key=lambda name: hints[name])
        if list(hints.values()).count(hints[engine]) == 1:
            return self._tracks[engine].progress(engine)
        # Nothing tells the engine, and a web server's word is no engine's.
        track = max(self._tracks.values(), key=lambda each: each.matched)
        return track.progress("", but="ready")

    def to_json(self) -> dict[str, Any]:
        return {
            "engine": self._engine,
            "weak": self._weak,
            "tracks": {name: track.to_json() for name, track in self._tracks.items()},
        }

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> Self:
        """Goes on where to_json() was; raises KeyError where `kept` is not of to_json()."""
        reader = cls(kept["engine"])
        reader._weak |= kept["weak"]
        # None for an engine without rules.
        reader._tracks = {name: reader._tracks[name] for name in kept["tracks"]}
        for name, track in reader._tracks.items():
            track.resume(kept["tracks"][name])
        return reader

    def _look_for_signs(self, text: str) -> None:
        for name, track in self._tracks.items():
            if any(sign in text for sign in track.rules.signs):
                self._engine = name
                self._tracks = {name: track}
                return
        for name, track in self._tracks.items():
            if any(sign in text for sign in track.rules.weak_signs):
                self._weak[name] += 1


class _Track:
    """What the lines would mean if they were one engine's."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.matched = 0
        self.told = 0  # of them, those in words of the engine's own
        self._near = rules.near
        self._phase = ""
        self._moments: list[PhaseMoment] = []
        self._seen: dict[str, int] = {}
        self._places: dict[str, int] = {}  # rank -> place of its phase
        self._bars: dict[str, list[ProgressBar]] = {}  # phase -> bars
        self._over: dict[str, list[str]] = {}  # phase -> ranks
        self._facts: dict[str, float | str] = {}

    def feed(self, number: int, text: str, at: str) -> None:
        rules = [rule for near, those in self._near if near in text for rule in those]
        if not rules:
            return
        for piece in parsing.pieces(text):
            for rule in rules:
                if not any(near in piece for near in rule.near):
                    continue
                said = parsing.read(piece)
                if match := rule.regex.search(said.text):
                    self.matched += 1
                    self.told += rule.phase != "ready" and not rule.has_bar
                    self._apply(rule, match, said, number, at or said.at)

    def _apply(
        self, rule: PhaseRule, match: re.Match[str], said: ParsedLine, number: int, at: str
    ) -> None:
        rank = said.rank if rule.each_rank and "pid" not in said.rank else ""
        self._learn(rule, match)
        self._seen.setdefault(rule.phase, number)
        if rule.each_rank and not rank:
            rank = self._first_rank()
        if rule.has_bar:
            self._draw(rule.phase, _bar(rank, match))
        if rule.ends:
            ended = self._over.setdefault(rule.phase, [])
            if rank not in ended and len(ended) < _MOST_RANKS:
                ended.append(rank)
        place = self.rules.order[rule.then or rule.phase]
        self._place(rule, rank, place)
        self._advance(number, at)

    def _learn(self, rule: PhaseRule, match: re.Match[str]) -> None:
        for fact, group in rule.facts.items():
            if (text := match[group]) is None:
                continue
            value = _value(text)
            before = self._facts.get(fact)
            if before is None:
                self._facts[fact] = value
            elif rule.adds and isinstance(value, float) and isinstance(before, float):
                self._facts[fact] = before + value
            # Else it is another rank's, or a draft model's: the first stands.

    def _first_rank(self) -> str:
        """Who says what stands without a prefix: only the first rank draws bars."""
        return min((name for name in self._places if name), default="")

    def _draw(self, phase: str, bar: ProgressBar) -> None:
        bars = self._bars.setdefault(phase, [])
        for place in reversed(range(len(bars))):
            old = bars[place]
            if (old.rank, old.label) == (bar.rank, bar.label):
                is_another = old.done == old.total and bar.done < bar.total
                if not is_another and old.total == bar.total:
                    bars[place] = bar
                    return
                break
        if len(bars) < _MOST_BARS:
            bars.append(bar)

    def _place(self, rule: PhaseRule, rank: str, place: int) -> None:
        if rule.each_rank:
            if rank:
                self._places.pop("", None)
            if rank in self._places or len(self._places) < _MOST_RANKS:
                # A bar of a rank that is through says nothing of those behind.
                self._places[rank] = max(self._places.get(rank, 0), place)
        else:
            # Said once for all: every rank has come so far.
            self._places = {name: max(was, place) for name, was in self._places.items()}
            self._places = self._places or {"": place}

    def _advance(self, number: int, at: str) -> None:
        now = min(self._places.values(), default=0)
        if not self._phase or now > self.rules.order[self._phase]:
            self._phase = list(self.rules.order)[now]
            self._moments.append(PhaseMoment(phase=self._phase, line=number, at=at))

    def progress(self, engine: str, *, but: str = "") -> PhaseProgress:
        seen = {phase: line for phase, line in self._seen.items() if phase != but}
        moments = tuple(each for each in self._moments if each.phase != but)
        phase = moments[-1].phase if moments else ""
        over = tuple(self._over.get(phase, ()))
        return PhaseProgress(
            engine=engine,
            phase=phase,
            moments=moments,
            seen=seen,
            bars=tuple(self._bars.get(phase, ())),
            over=over,
            behind=tuple(sorted(self._places.keys() - set(over))) if over else (),
            facts=dict(self._facts),
        )

    def to_json(self) -> dict[str, Any]:
        bars = {
            phase: [[each.rank, each.label, each.done, each.total] for each in those]
            for phase, those in self._bars.items()
        }
        return {
            "matched": self.matched,
            "told": self.told,
            "phase": self._phase,
            "moments": [[each.phase, each.line, each.at] for each in self._moments],
            "seen": self._seen,
            "places": self._places,
            "bars": bars,
            "over": self._over,
            "facts": self._facts,
        }

    def resume(self, kept: dict[str, Any]) -> None:
        self.matched = kept["matched"]
        self.told = kept.get("told", 0)
        self._phase = kept["phase"]
        self._moments = [PhaseMoment(phase=p, line=line, at=at) for p, line, at in kept["moments"]]
        self._seen = dict(kept["seen"])
        self._places = dict(kept["places"])
        self._bars = {
            phase: [ProgressBar(rank=r, label=label, done=n, total=of) for r, label, n, of in those]
            for phase, those in kept["bars"].items()
        }
        self._over = {phase: list(those) for phase, those in kept["over"].items()}
        self._facts = dict(kept["facts"])


def read(lines: Iterable[str], engine: str = "") -> PhaseProgress:
    """What a whole log says; lines are numbered from 1. `engine`: as for Reader."""
    reader = Reader(engine)
    for number, line in enumerate(lines, 1):
        reader.feed(number, line)
    return reader.progress


def _bar(rank: str, match: re.Match[str]) -> ProgressBar:
    groups = match.groupdict()
    total = min(int(groups["total"]), 10**9)
    return ProgressBar(
        rank=rank, label=groups.get("label") or "", done=min(int(groups["n"]), total), total=total
    )


def _value(text: str) -> float | str:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return text[:_LONGEST_FACT]
