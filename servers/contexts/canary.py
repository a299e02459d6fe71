"""The page contexts of canaries: a server's tab, and one of them."""

from dataclasses import dataclass
from typing import Any

from servers.judge.canary.items import load_sets
from servers.judge.canary.verdicts import ItemVerdict
from servers.lifecycle.canary import results
from servers.models import Canary, CanaryJob, Run, Server

OF_A_SERVER = 10  # in the list
_BADGES = {"pass": "ready", "changed": "attention", "wrong": "failed"}


@dataclass(frozen=True, kw_only=True)
class CanaryRow:
    """A canary in a list. `sums_up`: "2 wrong, 24 pass"."""

    canary: Canary
    badge: str
    word: str
    sums_up: str


@dataclass(frozen=True, kw_only=True)
class VerdictRow:
    shown: ItemVerdict
    badge: str
    word: str


def find_answers(server: Server, run: Run | None) -> dict[str, Any]:
    """What the tab of a server shows."""
    found = server.canaries.with_details().without_replies()[:OF_A_SERVER]
    rows = [build_row(each) for each in found]
    return {
        "canary_sets": list(load_sets().values()),
        "canaries": rows,
        "canary_under_way": next((row.canary for row in rows if row.canary.is_open), None),
    }


def find_newest(run: Run | None) -> CanaryRow | None:
    """Of this run; None: nobody has checked its answers."""
    if run is None:
        return None
    found = run.canaries.select_related("job").without_replies().first()
    return build_row(found) if found else None


def build_row(canary: Canary) -> CanaryRow:
    badge, word = _find_badge(canary)
    verdicts = [each.get("verdict") for each in canary.verdicts]
    counts = [
        f"{verdicts.count(each)} {each}" for each in ("wrong", "changed", "unknown", "pass")
        if each in verdicts
    ]  # fmt: skip
    return CanaryRow(canary=canary, badge=badge, word=word, sums_up=", ".join(counts))


def _find_badge(canary: Canary) -> tuple[str, str]:
    if canary.is_open:
        return "working", "asking" if canary.state == "measuring" else canary.state
    if not canary.verdict:
        return ("failed" if canary.state == "failed" else "note"), canary.state
    return _BADGES.get(canary.verdict, "note"), canary.verdict


def describe_canary(canary: Canary) -> dict[str, Any]:
    """What the page of one shows: what is not well first."""
    verdicts = results.read_verdicts(canary)
    order = ["wrong", "changed", "unknown", "pass"]
    job = CanaryJob.objects.filter(pk=canary.job_id or 0).first() if canary.is_open else None
    return {
        "canary": canary,
        "row": build_row(canary),
        "job": job,
        "verdicts": [
            VerdictRow(shown=each, badge=_BADGES.get(each.verdict, "note"), word=each.verdict)
            for each in sorted(verdicts, key=lambda each: order.index(each.verdict))
        ],
        "changes": results.find_changes(canary),
        "rules": results.find_rules(canary),
        "may_accept": canary.verdict in ("changed", "wrong") and canary.accepted_at is None,
    }
