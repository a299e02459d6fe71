"""Starts on any box that fits: what each box would make of it, and the start on the best one."""

from collections.abc import Iterable
from dataclasses import asdict

from django.utils.text import slugify

from servers import events
from servers.judge.profiles.lint_rules import opens_the_box
from servers.judge.runs.box_choice import BoxCandidate, BoxChoice, choose_box
from servers.lifecycle.people import claims
from servers.lifecycle.profiles import preflight
from servers.lifecycle.profiles.knowledge import LaunchContext, share_knowledge
from servers.lifecycle.runs import gpu_conflicts
from servers.lifecycle.runs.commands import QueueOptions, start
from servers.lifecycle.runs.ownership import require_managed
from servers.lifecycle.weights import inventory
from servers.models import AuditEntry, Box, Profile, Server, User
from servers.models.runs.run import ManagedRun, RunState

# What passes once the GPUs are free, by the ids of preflight's items.
_PASSES = frozenset({"memory", "gpus", "loading"})


class BoxChoiceError(Exception):
    """No box takes it now; the text says why for each."""


def start_anywhere(profile: Profile, *, by: User) -> ManagedRun:
    """Start the profile on the box that suits it best; the run stays there. Raises BoxChoiceError."""
    choice = find_box(profile, by=by)
    if choice.chosen is None:
        raise BoxChoiceError(choice.says)
    server = _find_server(profile, choice.chosen.box, by)
    patience = QueueOptions() if choice.chosen.when == "later" else None
    run = start(require_managed(server), by=by, patience=patience, placed=choice.says)
    if run is None:
        raise BoxChoiceError(f"Somebody else has started {server} meanwhile.")
    return run


def find_box(profile: Profile, *, by: User) -> BoxChoice:
    """Nothing is written and nobody is asked: from what boxes have last told."""
    contexts = []
    refused: list[BoxCandidate] = []
    may_place = by.may_edit and (not opens_the_box(asdict(profile.launch)) or by.may_administer)
    servers = _by_box(profile.servers.filter_managed().select_related("run", "box"))
    for box in Box.objects.select_related("link").order_by("slug"):
        mine = servers.get(box.pk, [])
        if why := _refuse(box, mine, may_place=may_place):
            refused.append(BoxCandidate(box=box.slug, when="never", why_not=why))
            continue
        server = next((each for each in mine if each.can_start), None)
        contexts.append(
            LaunchContext.of_server(server)
            if server is not None
            else LaunchContext(profile.launch, box, profile)
        )
    share_knowledge(contexts)
    return choose_box([*(_judge(each, by) for each in contexts), *refused])


def _by_box(servers: Iterable[Server]) -> dict[int, list[Server]]:
    found: dict[int, list[Server]] = {}
    for each in servers:
        found.setdefault(each.box_id, []).append(each)
    return found


def _refuse(box: Box, mine: list[Server], *, may_place: bool) -> str:
    link = getattr(box, "link", None)
    if link is not None and link.revoked_at is not None:
        return "was revoked"
    if box.is_silent:
        return "is away"
    if mine and not any(each.can_start for each in mine):
        return "runs it already"
    return "" if mine or may_place else "has no server of it, and only an editor may add one"


def _judge(context: LaunchContext, by: User) -> BoxCandidate:
    box = context.box
    checked = preflight.check(context)
    found = gpu_conflicts.before_start(context, checked.known)
    lasting = [each for each in checked.errors if each.id not in _PASSES]
    why = lasting[0].says if lasting else checked.lasting[0].says if checked.lasting else ""
    why = why or _find_claim(context, found.start.gpus, by)
    fit = checked.fit
    if not why and not found.holders and not checked.may_start:
        why = fit.says if fit and fit.verdict == "no" else "would refuse it now"
    waiting = sum(run.state == RunState.QUEUED for run in context.active)
    lacks = any(each.id == "checkpoint" and each.level != "ok" for each in checked.items)
    return BoxCandidate(
        box=box.slug,
        when="never" if why else "later" if found.holders or waiting else "now",
        why_not=f"({why.rstrip('.')})"
        if why
        else _name_holders(found.names if found.holders else ""),
        fits=fit.verdict if fit else "unknown",
        spare=max(0, fit.total - fit.takes) if fit and fit.takes is not None else 0,
        waiting=waiting,
        has_model=not lacks,
    )


def _name_holders(names: str) -> str:
    return f"is used by {names}" if names else ""


def _find_claim(context: LaunchContext, gpus: frozenset[int] | None, by: User) -> str:
    for each in context.box.current_claims:
        is_of_gpus = each.server_id is None and (gpus is None or gpus & set(each.gpus))
        if each.by_id != by.pk and is_of_gpus:
            return claims.describe(each)
    return ""


def _find_server(profile: Profile, slug: str, by: User) -> Server:
    box = Box.objects.get(slug=slug)
    there = profile.servers.filter_managed().filter(box=box).select_related("run", "box", "profile")
    for each in there.order_by("pk"):
        if each.can_start:
            return each
    made = Server.objects.create(
        profile=profile, box=box, slug=find_free_slug(f"{profile.slug}-{slug}")
    )
    AuditEntry.note(by, "place", made)
    inventory.look_soon(profile)
    events.publish_change("servers")
    return made


def find_free_slug(wanted: str) -> str:
    """For a server; a number behind it where there is one of this name."""
    base = slugify(wanted)[:76]
    taken = set(Server.objects.filter(slug__startswith=base).values_list("slug", flat=True))
    names = [base, *(f"{base}-{number}" for number in range(2, len(taken) + 3))]
    return next(name for name in names if name not in taken)
