"""Result cards: one JSON file with all that a result says, and a hash, which another inferdash reads."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

from servers.judge.benchmarks.comparison import MeasuredPoint
from servers.judge.benchmarks.facts import NAMES
from servers.judge.benchmarks.points import PointConditions, PointFigures, Spread
from servers.judge.messages import load_messages

UNKNOWN_TAINT = "benchmarks.unknown-taint"
KIND, SCHEMA = "inferdash result card", 1
MOST_POINTS, MOST_ROUNDS, MOST_CARDS, LONGEST = 500, 100, 64, 300
_MOST = 1e12  # of any figure
_OF_A_CARD = ("name", "power_limit_w", "sm_mhz", "sm_max_mhz", "mem_mhz", "mem_max_mhz")
_SPREADS = ("ttft", "tpot", "e2el", "gap")
_RATES = ("output_rate", "user_rate", "prefill_rate", "cached_share")
_SHARES = ("lag", "throttled_share", "kv_share")  # of PointConditions; its others are counts
_COUNTS = tuple(each.name for each in fields(PointConditions) if each.name not in _SHARES)
_EARLIEST = 2000  # year


class UploadError(Exception):
    """A file that is no result; the text says why, for people."""


@dataclass(frozen=True, kw_only=True)
class UploadedResult:
    """A result from elsewhere. `preset` is "" where it was measured by another program."""

    source: str
    title: str
    subject: str  # what was measured, in a few words
    at: datetime | None
    preset: str
    preset_version: int
    on: Mapping[str, Any]
    points: tuple[MeasuredPoint, ...]


def make_card(
    *,
    preset: str,
    preset_version: int,
    title: str,
    at: datetime,
    on: Mapping[str, Any],
    points: Iterable[MeasuredPoint],
) -> dict[str, Any]:
    """Without names of people, boxes and servers."""
    card = {
        "kind": KIND,
        "schema": SCHEMA,
        "preset": preset,
        "preset_version": preset_version,
        "title": title,
        "measured_at": at.isoformat(),
        "measured_on": {name: on[name] for name in NAMES if name in on},
        "points": [
            {
                "name": point.name,
                "concurrency": point.concurrency,
                "prompt_tokens": point.prompt_tokens,
                "output_tokens": point.output_tokens,
                "taints": list(point.taints),
                "rounds": [
                    {"figures": asdict(figures), "conditions": asdict(conditions)}
                    for figures, conditions in zip(
                        point.rounds, point.conditions or _list_unseen(point), strict=True
                    )
                ],
            }
            for point in points
        ],
    }
    return card | {"sha256": _hash(card)}


def _list_unseen(point: MeasuredPoint) -> tuple[PointConditions, ...]:
    return (PointConditions(),) * len(point.rounds)


def _hash(card: Mapping[str, Any]) -> str:
    """Of its canonical JSON without the hash."""
    said = {name: value for name, value in card.items() if name != "sha256"}
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read_card(said: Mapping[str, Any]) -> UploadedResult:
    """Raises UploadError."""
    if said.get("schema") != SCHEMA:
        raise UploadError(
            f"It is a result card of schema {str(said.get('schema'))[:20]}, and this inferdash reads "
            f"schema {SCHEMA}."
        )
    if said.get("sha256") != _hash(said):
        raise UploadError(
            "It is a result card that was changed after it was made: its hash differs."
        )
    on = _read_facts(_take_mapping(said.get("measured_on")))
    points = tuple(
        _read_point(_take_mapping(each)) for each in read_list(said, "points", MOST_POINTS)
    )
    if not points:
        raise UploadError("It is a result card without a point.")
    return UploadedResult(
        source="card",
        title=read_text(said, "title"),
        subject=str(on.get("model") or on.get("profile") or "Result card"),
        at=read_moment(said.get("measured_at")),
        preset=read_text(said, "preset")[:40],
        preset_version=read_count(said, "preset_version") or 0,
        on=on,
        points=points,
    )


def _read_facts(said: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in NAMES:
        if name == "version":
            found[name] = read_count(said, name)
        elif name == "cards":
            cards = [_take_mapping(each) for each in read_list(said, name, MOST_CARDS)]
            found[name] = [
                {
                    key: read_text(card, key) if key == "name" else read_number(card, key)
                    for key in _OF_A_CARD
                }
                for card in cards
            ]
        else:
            found[name] = read_text(said, name)
    return {name: value for name, value in found.items() if value not in (None, "", [])}


def _read_point(said: Mapping[str, Any]) -> MeasuredPoint:
    rounds = [_take_mapping(each) for each in read_list(said, "rounds", MOST_ROUNDS)]
    taints = {_read_taint(each) for each in read_list(said, "taints", MOST_ROUNDS)}
    return MeasuredPoint(
        name=read_text(said, "name")[:80],
        concurrency=read_count(said, "concurrency") or 1,
        prompt_tokens=read_count(said, "prompt_tokens") or 0,
        output_tokens=read_count(said, "output_tokens") or 0,
        rounds=tuple(_read_figures(_take_mapping(each.get("figures"))) for each in rounds),
        taints=tuple(sorted(taints)),
        conditions=tuple(
            _read_conditions(_take_mapping(each.get("conditions"))) for each in rounds
        ),
    )


def _read_taint(said: Any) -> str:
    """Its code, or that of a reason which only another version of inferdash knows."""
    known = load_messages("benchmarks").get(said) if isinstance(said, str) else None
    return said if known is not None and not known.parameters else UNKNOWN_TAINT


def _read_figures(said: Mapping[str, Any]) -> PointFigures:
    return build_figures(
        requests=read_count(said, "requests") or 0,
        failed=read_count(said, "failed") or 0,
        seconds=read_number(said, "seconds") or 0.0,
        is_steady=said.get("is_steady") is True,
        prompt_tokens=read_count(said, "prompt_tokens"),
        output_tokens=read_count(said, "output_tokens"),
        **{name: read_number(said, name) for name in _RATES},
        **{name: _read_spread(said.get(name)) for name in _SPREADS},
    )


def build_figures(**known: Any) -> PointFigures:
    """What is not known of a round is None."""
    empty: dict[str, Any] = dict.fromkeys(
        (*_SPREADS, *_RATES, "prompt_tokens", "output_tokens"), None
    )
    usual = {"requests": 0, "failed": 0, "seconds": 0.0, "is_steady": False, "contradictions": ()}
    return PointFigures(**{**empty, **usual, **known})


def _read_conditions(said: Mapping[str, Any]) -> PointConditions:
    seen: dict[str, Any] = {name: read_number(said, name) for name in _SHARES}
    return PointConditions(**seen, **{name: read_count(said, name) for name in _COUNTS})


def _read_spread(said: Any) -> Spread | None:
    values = _take_mapping(said) if said is not None else {}
    median, worst = read_number(values, "median"), read_number(values, "worst")
    if median is None or worst is None:
        return None
    p90, p99 = read_number(values, "p90"), read_number(values, "p99")
    return Spread(median=median, p90=p90, p99=p99, worst=worst)


def _take_mapping(said: Any) -> Mapping[str, Any]:
    if said is None:
        return {}
    if not isinstance(said, dict):
        raise UploadError("It is a result, but a part of it is not what it should be.")
    return said


def read_list(said: Mapping[str, Any], name: str, most: int) -> list[Any]:
    """Raises UploadError where it is another thing, or too long."""
    found = said.get(name) or []
    if not isinstance(found, list) or len(found) > most:
        raise UploadError(f"Its “{name}” is no list of at most {most}.")
    return found


def read_text(said: Mapping[str, Any], name: str) -> str:
    found = said.get(name)
    return "".join(filter(str.isprintable, found))[:LONGEST] if isinstance(found, str) else ""


def read_number(said: Mapping[str, Any], name: str) -> float | None:
    """None where it says none. Raises UploadError for one that no measurement gives."""
    found = said.get(name)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    if not 0 <= found < _MOST:  # nor NaN
        raise UploadError(f"Its “{name}” is {str(found)[:20]}, which is no measured figure.")
    return float(found)


def read_count(said: Mapping[str, Any], name: str) -> int | None:
    found = read_number(said, name)
    if found is not None and found >= 2**31:
        raise UploadError(f"Its “{name}” is {found:.3g}, which is no measured figure.")
    return None if found is None else int(found)


def read_moment(said: Any) -> datetime | None:
    """None for what is no moment with a time zone."""
    try:
        found = datetime.fromisoformat(said) if isinstance(said, str) else None
    except ValueError:
        return None
    is_one = found is not None and found.tzinfo is not None and found.year >= _EARLIEST
    return found if is_one else None
