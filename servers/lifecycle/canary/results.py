"""Results of canaries: written into their rows and read again, and the one to compare with."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from servers.host.canary.replies import CanaryReply
from servers.judge.canary.changes import MeasuredChange, list_changes
from servers.judge.canary.rules import CanaryRule, list_rules
from servers.judge.canary.verdicts import AnsweredItem, ItemVerdict
from servers.judge.profiles.facts import LaunchFacts, Subject, TargetGpu
from servers.models import Canary

_LOOKED_AT = 50  # canaries, among which one to compare with is chosen


def pack_item(item: AnsweredItem) -> dict[str, Any]:
    return asdict(item)


def read_items(canary: Canary) -> list[AnsweredItem]:
    return [_read_item(each) for each in canary.items]


def _read_item(said: Mapping[str, Any]) -> AnsweredItem:
    replies = tuple(CanaryReply.from_json(each) for each in said["replies"])
    return AnsweredItem(**{**said, "rights": tuple(said["rights"]), "replies": replies})


def read_verdicts(canary: Canary) -> list[ItemVerdict]:
    return [ItemVerdict(**each) for each in canary.verdicts]


def find_last_good(canary: Canary) -> Canary | None:
    """The last good one of the same model: of this server and set, as far as there is one."""
    same = Canary.objects.good().filter(model=canary.model, set_version=canary.set_version)
    rows = same.exclude(pk=canary.pk).without_replies()[:_LOOKED_AT]
    return min(
        rows,
        key=lambda each: (
            each.server_name != canary.server_name, each.set_key != canary.set_key, -each.pk
        ),
        default=None,
    )  # fmt: skip


def find_changes(canary: Canary) -> list[MeasuredChange]:
    """Since the one that it was compared with."""
    if canary.compared_with is None:
        return []
    return list_changes(canary.compared_with.measured_on, canary.measured_on)


def find_rules(canary: Canary) -> list[CanaryRule]:
    """What is known to make a launch like this one answer so."""
    failing = [each for each in read_verdicts(canary) if each.verdict in ("wrong", "changed")]
    if canary.version is None or not failing:
        return []
    cards = canary.measured_on.get("cards") or []
    gpus = tuple(
        TargetGpu(index=index, name=str(each.get("name") or ""), compute_capability="", memory=None)
        for index, each in enumerate(cards)
    )
    launch = canary.run.launch if canary.run else canary.version.launch
    facts = LaunchFacts(
        Subject(
            launch=launch,
            engine_version=str(canary.measured_on.get("engine_version") or ""),
            gpus=gpus or None,
            driver=str(canary.measured_on.get("driver") or ""),
        )
    )
    return list_rules(
        facts,
        wrong={each.kind for each in failing},
        changed={each.key for each in find_changes(canary)},
    )
