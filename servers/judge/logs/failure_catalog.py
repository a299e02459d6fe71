"""The catalogue of known failures: failures/*.yaml, a list of entries a file.

id          stable; runs keep it
engine      vllm, sglang, llamacpp or docker; left out: any
stage       where in a start it is met
rank        specific (left out) | close | broad | follows | wrapper: which of two counts;
            family: only of the exception that ended it, where nothing else is recognised; its
            sentence has {said}, the exception with its message, and {place}, the engine's frame;
            place: the same where only the place is known, and nothing of the rest fits.
            Both have {advice}, {part_of} and {package}, see advice.py
match       a pattern, or several of which one must be found in one line
unless      a pattern that the same line must not hold
level       any: lines that call themselves INFO or WARNING count too
seen, unseen, twice, times   patterns of earlier lines; how often `match` must be met. Groups of
            `seen` and `place` can be told like those of `match`
seen_with   {part of the line: pattern of an earlier line that it then needs}
raised      only a line that names an exception
room        [group, group]: only where the first one's size is more than twice the second's
frame       a pattern of a file in the traceback that the line ends, from its package on
place       the same of one frame: the engine's own that raised it, see exceptions.py
at_end      nothing else may follow
after_ready only of an engine that was ready
warns       engines that go on write it, too: only where something else tells of an end
needs_exception  only where an exception that is not known otherwise ended it
oom_killed  Docker's OOMKilled is enough
unheld_gib  only where so much of a unified pool was held by nobody when it started
when        a condition on the launch, see conditions.py; without a launch it is not met
absorbs     ids whose line only prepared this one
outcome     hung: the log itself proves a standstill
says        the cause in one sentence, with the patterns' named groups
plainly     the same where a group is not told; or several, the first counts whose groups are told
fixes       best first, see remedies.py
source      names of rules/sources.yaml, owner/repository#issue, or plain words
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined, unused-ignore]
from re import _parser as parser  # type: ignore[attr-defined, unused-ignore]
from typing import Any, Literal

import yaml

from servers.judge.logs import circumstances
from servers.judge.logs.remedies import Remedy, fill
from servers.judge.profiles import lint_rules
from servers.judge.profiles.conditions import Condition, compile_condition
from servers.judge.profiles.facts import RuleSource
from servers.launch.tables import load_yaml

SHORTEST = 4  # a shorter word is in too many lines


def find_literals(pattern: str) -> tuple[str, ...]:
    """Lower-case words, one of which is in every text that matches; () where there are none."""
    found = _pick_alternatives(parser.parse(pattern))
    return tuple(sorted(found)) if found else ()


def _pick_alternatives(parts: Iterable[Any]) -> frozenset[str] | None:
    """The best set of alternatives among the parts that must all be there."""
    best: frozenset[str] | None = None
    run = ""
    for code, value in [*parts, (None, None)]:
        if code is codes.LITERAL:
            run += chr(value).lower()
            continue
        best = _better(best, frozenset([run]) if len(run) >= SHORTEST else None)
        run = ""
        best = _better(best, _of_part(code, value))
    return best


def _of_part(code: Any, value: Any) -> frozenset[str] | None:
    if code is codes.SUBPATTERN:
        return _pick_alternatives(value[3])
    if code is codes.BRANCH:
        each = [_pick_alternatives(branch) for branch in value[1]]
        known = [words for words in each if words is not None]
        return frozenset().union(*known) if len(known) == len(each) else None
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT) and value[0] > 0:
        return _pick_alternatives(value[2])
    return None


def _better(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    """The set whose shortest word is longer."""
    if one is None or other is None:
        return one if other is None else other
    return max(one, other, key=lambda words: min(map(len, words)))


FOLDER = Path(__file__).with_name("failures")
HARMLESS = "harmless.yaml"

type Rank = Literal["specific", "close", "broad", "follows", "wrapper", "family", "place"]
# Of several matches in one line the highest counts; from "follows" down, in the whole log.
RANKS: dict[Rank, int] = {
    "specific": 20,
    "close": 15,
    "broad": 10,
    "follows": 5,
    "wrapper": 0,
    "family": -1,
    "place": -2,
}

_ISSUE = re.compile(r"([\w.-]+/[\w.-]+)#(\d+)")
_BLANK = re.compile(r"\{(\w+)\}")
# Told by the machinery, not by a pattern.
_GIVEN = {"fits", "unheld", "said", "place", "advice", "part_of", "package"}


class FailureError(Exception):
    """A file of failures that cannot be used; the text names file, entry and key."""


@dataclass(frozen=True, kw_only=True)
class Pattern:
    regex: re.Pattern[str]
    literals: tuple[str, ...]  # lower case; a line without any of them cannot match

    def search(self, text: str, lower: str) -> re.Match[str] | None:
        if self.literals and not any(each in lower for each in self.literals):
            return None
        return self.regex.search(text)


@dataclass(frozen=True, kw_only=True)
class Failure:
    id: str
    stage: str
    says: str
    match: tuple[Pattern, ...]
    sources: tuple[RuleSource, ...]
    remedies: tuple[Remedy, ...] = ()
    engine: str = ""
    rank: Rank = "specific"
    unless: re.Pattern[str] | None = None
    any_level: bool = False
    seen: tuple[re.Pattern[str], ...] = ()
    unseen: re.Pattern[str] | None = None
    twice: re.Pattern[str] | None = None
    times: int = 1
    seen_with: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...] = ()
    frame: re.Pattern[str] | None = None
    place: re.Pattern[str] | None = None
    raised: bool = False
    room: tuple[str, str] | None = None
    at_end: bool = False
    after_ready: bool = False
    warns: bool = False
    needs_exception: bool = False
    oom_killed: bool = False
    unheld_gib: float = 0
    when: Condition | None = None
    absorbs: tuple[str, ...] = ()
    last: bool = False
    hangs: re.Pattern[str] | None = None
    plainly: tuple[str, ...] = ()

    @property
    def weight(self) -> int:
        """What asks for more knowledge than a line is the better answer to that line."""
        more = self.when is not None or self.unheld_gib > 0 or bool(self.seen)
        return RANKS[self.rank] + (10 if more else 0)

    @property
    def is_of_exception(self) -> bool:
        """Whether it is asked only of the exception that ended it."""
        return self.rank in ("family", "place")

    @property
    def is_guess(self) -> bool:
        """Whether it asks for an exception that is not known by its words."""
        return self.needs_exception or self.is_of_exception

    @property
    def counts_by_itself(self) -> bool:
        return RANKS[self.rank] > RANKS["follows"]

    def sentence(self, groups: Mapping[str, str]) -> str:
        every = (self.says, *self.plainly)
        told = (text for text in every if set(_BLANK.findall(text)) <= set(groups))
        return fill(next(told, every[-1]), groups)


@dataclass(frozen=True, kw_only=True)
class Harmless:
    """A line that frightens people and means nothing, or nothing that ends an engine."""

    id: str
    match: Pattern
    why: str


@cache
def load_shipped() -> tuple[Failure, ...]:
    return load(FOLDER)


@cache
def by_id() -> dict[str, Failure]:
    return {failure.id: failure for failure in load_shipped()}


@cache
def harmless() -> tuple[Harmless, ...]:
    made = []
    for said in _list(FOLDER / HARMLESS):
        try:
            pattern = _pattern(said["match"])
            made.append(Harmless(id=said["id"], match=pattern, why=said["why"]))
        except (KeyError, TypeError, re.error) as error:
            raise FailureError(f"{HARMLESS}: {said}: {error}") from error
    return tuple(made)


def why_harmless(line: str) -> str:
    """Why this line of a log, without its prefixes, need worry nobody; "" where it may."""
    text = line[: 2**12]
    lower = text.lower()
    return next((each.why for each in harmless() if each.match.search(text, lower)), "")


def load(folder: Path) -> tuple[Failure, ...]:
    """Every entry of a folder, by file name. Raises FailureError at the first that is wrong."""
    found: dict[str, Failure] = {}
    for path in sorted(folder.glob("*.yaml")):
        if path.name == HARMLESS:
            continue
        for said in _list(path):
            where = f"{path.name}: {said.get('id', said)}"
            try:
                failure = _failure(dict(said))
            except (KeyError, TypeError, ValueError, re.error) as error:
                raise FailureError(f"{where}: {error!r}") from error
            if failure.id in found:
                raise FailureError(f"{where}: the id is taken")
            found[failure.id] = failure
    for failure in found.values():
        if strangers := set(failure.absorbs) - set(found):
            raise FailureError(f"{failure.id}: absorbs: there is no {', '.join(strangers)}")
    return tuple(found.values())


def _list(path: Path) -> list[dict[str, Any]]:
    try:
        said = load_yaml(path.read_text())
    except yaml.YAMLError as error:
        raise FailureError(f"{path.name} is not valid YAML: {error}") from error
    if not isinstance(said, list):
        raise FailureError(f"{path.name} must be a list")
    return said


def _failure(said: dict[str, Any]) -> Failure:
    patterns = tuple(_pattern(each) for each in _many(said.pop("match")))
    level, when = said.pop("level", ""), said.pop("when", None)
    hangs = said.pop("hangs", None)
    if level not in ("", "any"):
        raise ValueError("level is any, or left out")
    if said.get("rank", "specific") not in RANKS:
        raise ValueError(f"rank is one of {', '.join(RANKS)}")
    needs = said.pop("seen_with", {})
    made = Failure(
        match=patterns,
        any_level=level == "any",
        hangs=re.compile("") if hangs is True else _regex(hangs),
        when=compile_condition(when) if when else None,
        unless=_regex(said.pop("unless", None)),
        frame=_regex(said.pop("frame", None)),
        place=_regex(said.pop("place", None)),
        unseen=_regex(said.pop("unseen", None)),
        twice=_regex(said.pop("twice", None)),
        seen=tuple(re.compile(each) for each in _many(said.pop("seen", []))),
        seen_with=tuple((re.compile(part), re.compile(need)) for part, need in needs.items()),
        room=_pair(said.pop("room", None)),
        absorbs=tuple(said.pop("absorbs", ())),
        plainly=tuple(_many(said.pop("plainly", []))),
        remedies=tuple(Remedy.from_data(each) for each in said.pop("fixes", [])),
        sources=tuple(_sources(said.pop("source"))),
        **said,
    )
    groups = {name for each in patterns for name in each.regex.groupindex} | _GIVEN
    for each in (*made.seen, *filter(None, [made.place])):
        groups |= each.groupindex.keys()
    given = groups | circumstances.GIVEN
    for text in (made.says, *made.plainly):
        if strange := set(_BLANK.findall(text)) - groups:
            raise ValueError(f"no pattern has a group {', '.join(strange)}")
    for remedy in made.remedies:
        if strange := set(remedy.needs) - given:
            raise ValueError(f"fixes: no pattern has a group {', '.join(strange)}")
    return made


def _many(said: Any) -> list[str]:
    return said if isinstance(said, list) else [said]


def _pair(said: Any) -> tuple[str, str] | None:
    if said is None:
        return None
    one, other = said
    return str(one), str(other)


def _regex(said: Any) -> re.Pattern[str] | None:
    return re.compile(said) if said else None


def _pattern(said: str) -> Pattern:
    return Pattern(regex=re.compile(said), literals=find_literals(said))


def _sources(said: Any) -> Iterator[RuleSource]:
    for each in _many(said):
        if each in lint_rules.sources():
            yield lint_rules.sources()[each]
        elif issue := _ISSUE.fullmatch(each):
            address = f"https://github.com/{issue[1]}/issues/{issue[2]}"
            yield RuleSource(title=each, url=address)
        else:
            yield RuleSource(title=each)
