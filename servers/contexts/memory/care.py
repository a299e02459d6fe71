"""Actions that a box's page offers for orphans and memory."""

from dataclasses import dataclass
from typing import Any

from django.template.loader import render_to_string
from django.utils import timezone

from servers.judge.memory import commands
from servers.judge.memory.commands import Cure
from servers.judge.memory.orphans import Orphan
from servers.judge.memory.verdicts import ALARMS
from servers.models import Action, Box, User
from servers.models.jobs.action import TOLD_FOR, ActionKind
from servers.state import box_samples


@dataclass(frozen=True, kw_only=True)
class OfferedAction:
    """Something that was left behind, with the buttons that this person gets."""

    left: Orphan
    buttons: tuple[tuple[str, str], ...]  # kind of action, words
    is_asked: bool  # somebody has pressed one


@dataclass(frozen=True, kw_only=True)
class OrphanActions:
    pk: int
    slug: str
    cures: tuple[Cure, ...]
    left: tuple[OfferedAction, ...]
    actions: tuple[Action, ...]  # of the last day
    may_reclaim: bool
    is_reclaiming: bool
    is_blind: bool  # the box's processes cannot be seen from where its watcher runs

    @property
    def holds_more(self) -> bool:
        """Whether a verdict tells of memory that nothing in the list accounts for."""
        return not self.left and any(cure.verdict in ALARMS for cure in self.cures)


# What somebody with an account on the box could do; the others go with starting and stopping.
ADMINS = (ActionKind.KILL, ActionKind.UNLINK, ActionKind.RECLAIM)
WORDS = {
    ActionKind.KILL: "End it",
    ActionKind.UNLINK: "Delete",
    ActionKind.ADOPT: "Adopt",
    ActionKind.REMOVE: "Remove",
}


def may(person: User, kind: ActionKind) -> bool:
    return person.may_administer if kind in ADMINS else person.may_operate


def care_of(box: Box, person: User) -> OrphanActions:
    since = timezone.now() - TOLD_FOR
    told = box.actions.filter(asked_at__gt=since).select_related("asked_by")
    # The page of what was found tells of these.
    told = told.exclude(kind__in=(ActionKind.WATCH, ActionKind.PROFILE, ActionKind.TAKE_OVER))
    actions = tuple(told[:5])
    open_ones = {(each.kind, each.target) for each in actions if not each.is_over}
    sample = box_samples.newest(box.slug)
    return OrphanActions(
        pk=box.pk,
        slug=box.slug,
        cures=commands.cures(sample),
        left=tuple(_offer_action(each, person, open_ones) for each in box.left_behind),
        actions=actions,
        may_reclaim=may(person, ActionKind.RECLAIM),
        is_reclaiming=(ActionKind.RECLAIM, "") in open_ones,
        is_blind=sample is not None and not sample.get("sees_host_pids"),
    )


def _offer_action(
    said: dict[str, Any], person: User, open_ones: set[tuple[str, str]]
) -> OfferedAction:
    left = Orphan.from_json(said)
    kinds = [ActionKind(each) for each in left.actions]
    return OfferedAction(
        left=left,
        buttons=tuple((str(kind), WORDS[kind]) for kind in kinds if may(person, kind)),
        is_asked=any((str(kind), left.key) in open_ones for kind in kinds),
    )


def html(box: Box, person: User) -> str:
    return render_to_string("memory/_live_care.html", {"care": care_of(box, person)})
