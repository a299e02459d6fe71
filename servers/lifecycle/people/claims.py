"""Claims of GPUs and servers: made, prolonged, ended, and in whose way they are."""

from collections.abc import Collection, Sequence
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from servers import events
from servers.launch import numbers
from servers.models import AuditEntry, Box, Claim, Run, Server, User
from servers.models.people.claim import LONGEST


class ClaimError(Exception):
    """The claim cannot be made or ended; the text says why."""


def claim(
    box: Box,
    *,
    by: User,
    until: datetime,
    note: str = "",
    gpus: Collection[int] = (),
    server: Server | None = None,
) -> Claim:
    """Of these GPUs, or of this server; one of one's own of the same is changed. Raises ClaimError."""
    wanted = sorted(set(gpus))
    now = timezone.now()
    if until <= now:
        raise ClaimError("A claim ends in the future.")
    if until - now > LONGEST:
        raise ClaimError(f"A claim lasts {LONGEST.days} days at most. It can be prolonged.")
    if server is None:
        _check_gpus(box, wanted)
    elif wanted:
        raise ClaimError("A claim is of GPUs or of a server, not of both.")
    with transaction.atomic():
        # Two claims at once would not see each other.
        Box.objects.select_for_update().get(pk=box.pk)
        mine = None
        for each in box.claims.active():
            is_same = each.server_id == (server.pk if server else None) and each.gpus == wanted
            if each.by_id == by.pk:
                mine = each if is_same else mine
            elif is_same or set(each.gpus) & set(wanted):
                raise ClaimError(f"{describe(each)}. Ask them, or claim something else.")
        made = mine or Claim(box=box, server=server, gpus=wanted, by=by)
        made.note, made.until = note.strip()[:200], until
        made.save()
        AuditEntry.note(by, "claim", made, until=until.isoformat(), note=made.note)
    _tell(made)
    return made


def _check_gpus(box: Box, wanted: Sequence[int]) -> None:
    known = box.indices("all") or frozenset()
    if not wanted:
        raise ClaimError("A claim names at least one GPU, or a server.")
    if missing := [str(index) for index in wanted if index not in known]:
        there = ", ".join(map(str, sorted(known))) or "none that inferdash knows of"
        raise ClaimError(f"{box.slug} has no GPU {', '.join(missing)}. It has: {there}.")


def release(found: Claim, *, by: User) -> bool:
    """Whether this call ended it. Raises ClaimError for somebody else's, unless by an admin."""
    if found.by_id != by.pk and not by.may_administer:
        raise ClaimError(f"{describe(found)}. {found.by} or an admin ends it.")
    with transaction.atomic():
        ended = Claim.objects.active().filter(pk=found.pk).update(ended_at=timezone.now())
        if ended:
            AuditEntry.note(by, "release", found)
    if ended:
        _tell(found)
    return bool(ended)


def expire(box: Box) -> None:
    """Tell the pages of those whose time is over."""
    over = box.claims.filter(ended_at=None, until__lte=timezone.now()).select_related("server")
    for each in over:
        if Claim.objects.filter(pk=each.pk, ended_at=None).update(ended_at=each.until):
            _tell(each)


def _tell(changed: Claim) -> None:
    def send() -> None:
        events.publish_change("box", changed.box_id)
        if changed.server_id is not None:
            events.publish_change("server", changed.server_id)
        else:
            events.publish_change("servers")

    transaction.on_commit(send)


def against_start(server: Server, gpus: Collection[int] | None, by: User | None) -> list[Claim]:
    """Other people's claims of this server, or of GPUs that its start would use.

    `gpus`: None where they are not known, then every claim of the box counts. `by`: None for what
    inferdash starts by itself.
    """
    found = []
    for each in server.box.claims.active():
        if by is not None and each.by_id == by.pk:
            continue
        is_of_it = each.server_id == server.pk
        is_of_gpus = each.server_id is None and (gpus is None or set(gpus) & set(each.gpus))
        if is_of_it or is_of_gpus:
            found.append(each)
    return found


def against_stop(server: Server, by: User) -> list[Claim]:
    """Other people's claims of this server, or of GPUs that its run has; not for one's own run."""
    run = server.run
    mine = run is not None and run.started_by_id == by.pk
    return [
        each
        for each in server.box.current_claims
        if each.by_id != by.pk and each.covers(server) and not (mine and each.server_id is None)
    ]


def is_claimed(run: Run) -> bool:
    """By anybody: then no idleness and no request stops it."""
    return any(each.covers(run.server) for each in run.server.box.claims.active())


def describe(found: Claim) -> str:
    """ "ada has claimed GPUs 0, 1 until 24 Nov 18:00 (“evaluation”)"; no full stop."""
    until = numbers.format_moment(timezone.localtime(found.until), timezone.localtime())
    note = f" (“{found.note}”)" if found.note else ""
    return f"{found.by} has claimed {found.what} until {until}{note}"
