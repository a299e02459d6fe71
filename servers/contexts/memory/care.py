"""Actions that a box's page offers for orphans and memory."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q
from django.template.loader import render_to_string
from django.utils import timezone

from servers.judge.memory import advice
from servers.judge.memory.advice import Cure
from servers.judge.memory.hardware import (
    SEVERITIES,
    CheckedPart,
    HardwareFinding,
    list_checked_parts,
    worst_first,
)
from servers.judge.memory.orphans import Orphan
from servers.judge.memory.verdicts import ALARMS
from servers.models import Box, Job, User
from servers.models.box import holds_memory
from servers.models.jobs.job import TOLD_FOR, JobKind
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
    actions: tuple[Job, ...]  # of the last day
    may_reclaim: bool
    is_reclaiming: bool
    is_blind: bool  # the box's processes cannot be seen from where its watcher runs

    @property
    def told_cures(self) -> tuple[Cure, ...]:
        """Without those of memory that something in the list of orphans holds."""
        return tuple(each for each in self.cures if each.verdict != "residual" or not self.left)

    @property
    def has_advice(self) -> bool:
        return bool(self.told_cures or self.left or self.is_blind)


# What somebody with an account on the box could do; the others go with starting and stopping.
ADMINS = (JobKind.KILL, JobKind.UNLINK, JobKind.RECLAIM)
# The page of what was found tells of the others.
_TOLD = [*ADMINS, JobKind.ADOPT, JobKind.REMOVE, JobKind.DELETE]
WORDS = {
    JobKind.KILL: "End it",
    JobKind.UNLINK: "Delete",
    JobKind.ADOPT: "Adopt",
    JobKind.REMOVE: "Remove",
}


def may(person: User, kind: JobKind) -> bool:
    return person.may_administer if kind in ADMINS else person.may_operate


def care_of(box: Box, person: User) -> OrphanActions:
    since = timezone.now() - TOLD_FOR
    # Pulls that were asked for on the page of images are told of there.
    is_mine = Q(kind__in=_TOLD) | Q(kind=JobKind.PULL, params__has_key="server")
    told = box.jobs.filter(is_mine, asked_at__gt=since).select_related("asked_by")
    actions = tuple(told[:5])
    open_ones = {(each.kind, each.target) for each in actions if not each.is_over}
    sample = box_samples.newest(box.slug)
    return OrphanActions(
        pk=box.pk,
        slug=box.slug,
        cures=advice.list_cures(sample),
        left=tuple(_offer_action(each, person, open_ones) for each in box.left_behind),
        actions=actions,
        may_reclaim=may(person, JobKind.RECLAIM),
        is_reclaiming=(JobKind.RECLAIM, "") in open_ones,
        is_blind=sample is not None and not sample.get("sees_host_pids"),
    )


def _offer_action(
    said: dict[str, Any], person: User, open_ones: set[tuple[str, str]]
) -> OfferedAction:
    left = Orphan.from_json(said)
    kinds = [JobKind(each) for each in left.actions]
    return OfferedAction(
        left=left,
        buttons=tuple((str(kind), WORDS[kind]) for kind in kinds if may(person, kind)),
        is_asked=any((str(kind), left.key) in open_ones for kind in kinds),
    )


def html(box: Box, person: User) -> str:
    return render_to_string("memory/_live_care.html", {"care": care_of(box, person)})


@dataclass(frozen=True, kw_only=True)
class HardwareReport:
    is_judged: bool  # not before the watcher's first look
    findings: tuple[HardwareFinding, ...] = ()  # the worst first
    looked: tuple[CheckedPart, ...] = ()
    # What holds memory without a run, in a few words each: the cards are sound, the box is not well.
    orphans: tuple[str, ...] = ()

    @property
    def is_well(self) -> bool:
        """Whether nothing is wrong, as far as is known."""
        return self.is_judged and not self.findings and not self.orphans

    @property
    def faults(self) -> tuple[HardwareFinding, ...]:
        """Without what is only worth knowing."""
        return tuple(each for each in self.findings if each.severity != "info")

    @property
    def counts(self) -> tuple[tuple[str, int], ...]:
        """How many of each severity there are, without what is only worth knowing."""
        found = Counter(each.severity for each in self.faults)
        return tuple((severity, found[severity]) for severity in SEVERITIES if found[severity])

    @property
    def seen(self) -> tuple[CheckedPart, ...]:
        return tuple(each for each in self.looked if each.is_seen)

    @property
    def unseen(self) -> tuple[CheckedPart, ...]:
        return tuple(each for each in self.looked if not each.is_seen)

    def worst_of(self, card: str) -> HardwareFinding | None:
        """What a mark on this card tells."""
        return next((each for each in self.faults if each.subject == card), None)


def hardware(
    sample: Mapping[str, Any] | None, left_behind: Sequence[Mapping[str, Any]] = ()
) -> HardwareReport:
    """Of a judged sample; None: there is none. `left_behind`: the box's Left, as JSON."""
    orphans = (*_list_orphan_verdicts(sample or {}), *_list_left_behind(left_behind))
    if sample is None or "findings" not in sample:
        return HardwareReport(is_judged=False, orphans=orphans)
    findings = [HardwareFinding.from_json(each) for each in sample["findings"]]
    return HardwareReport(
        is_judged=True,
        findings=tuple(worst_first(findings)),
        looked=list_checked_parts(sample),
        orphans=orphans,
    )


def _list_orphan_verdicts(sample: Mapping[str, Any]) -> Iterator[str]:
    """Of the verdicts on memory that alarm: an engine's that is gone, or nobody's."""
    indices = {card.get("uuid"): card.get("index") for card in sample.get("gpus") or ()}
    for each in sample.get("verdicts") or ():
        if each["verdict"] in ALARMS and each["gpu"] in indices:
            yield f"memory without a run on GPU {indices[each['gpu']]}"


def _list_left_behind(left_behind: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for each in left_behind:
        if holds_memory(each):
            yield f"{each['what']}, left behind"
