"""Decisions about boxes that ask to join, and about those that have joined."""

import re
import secrets

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from servers import events
from servers.lifecycle.links.invitations import LinkError
from servers.models import AuditEntry, Box, BoxLink, Secret, Server, User

NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


def let_in(link: BoxLink, by: User | None, *, name: str = "", replaces: bool = False) -> BoxLink:
    """`name`: what to call it instead of what it asks for. Raises LinkError.

    `replaces`: it is the box of that name with a new key, and the old one ends.
    """
    with transaction.atomic():
        found = _lock(link)
        if not BoxLink.objects.select_waiting().filter(pk=found.pk).exists():
            raise LinkError(f"{found} is not waiting to be let in any more. {_describe_end(found)}")
        name = name or found.name
        old = BoxLink.objects.select_joined().filter(box__slug=name).first()
        if replaces and old is not None:
            revoke(old, by)
        found.name = _check_name(name)
        found.box = _take_up(found.name)
        found.port = _choose_port()
        found.keep_credentials(
            password=secrets.token_urlsafe(32), relay_secret=secrets.token_urlsafe(32)
        )
        found.joined_at, found.joined_by = timezone.now(), by
        try:
            with transaction.atomic():
                found.save()
        except IntegrityError as error:
            raise LinkError("Somebody else let a box in at the same moment. Try again.") from error
        AuditEntry.note(by, "let in box", found, words=found.words, came_from=found.came_from)
        transaction.on_commit(lambda: _tell(found))
    return found


def refuse(link: BoxLink, by: User | None) -> BoxLink:
    """Raises LinkError."""
    with transaction.atomic():
        found = _lock(link)
        if found.joined_at is not None:
            raise LinkError(f"{found} has joined already. Revoke it instead.")
        if found.refused_at is None:
            found.refused_at = timezone.now()
            found.save(update_fields=["refused_at"])
            AuditEntry.note(by, "refuse box", found, words=found.words, came_from=found.came_from)
            transaction.on_commit(lambda: _tell(found))
    return found


def revoke(link: BoxLink, by: User | None) -> BoxLink:
    """Its key and roles end within seconds; its engines go on. Raises LinkError."""
    with transaction.atomic():
        found = _lock(link)
        if found.joined_at is None:
            raise LinkError(f"{found} has not joined. Refuse it instead.")
        if found.revoked_at is None:
            found.revoked_at, found.revoked_by = timezone.now(), by
            found.save(update_fields=["revoked_at", "revoked_by"])
            AuditEntry.note(by, "revoke box", found, secrets=list_seen_secrets(found))
            transaction.on_commit(lambda: _tell(found))
    return found


def hold_twins() -> None:
    """Keep both machines out where two run as one box: which of them it is, a person has to say."""
    twins = BoxLink.objects.select_let_in().filter(box__facts__twins__0__isnull=False)
    for link in twins.select_related("box"):
        if not BoxLink.objects.filter(pk=link.pk, held_at=None).update(held_at=timezone.now()):
            continue
        hosts = link.box.facts["twins"] if link.box else []
        AuditEntry.note(None, "hold box", link, hosts=hosts)
        _tell(link)


def release(link: BoxLink, by: User | None) -> BoxLink:
    """Let a box in again that was held; if both machines still run, both are held again. Raises LinkError."""
    with transaction.atomic():
        found = _lock(link)
        if found.held_at is None or not found.is_joined or found.box is None:
            raise LinkError(f"{found} is not held.")
        found.held_at = None
        found.save(update_fields=["held_at"])
        # As they were when it was held; whoever comes now says it anew.
        kept = {name: told for name, told in found.box.facts.items() if name not in _OF_TWINS}
        Box.objects.filter(pk=found.box.pk).update(facts=kept)
        AuditEntry.note(by, "release box", found)
        transaction.on_commit(lambda: _tell(found))
    return found


_OF_TWINS = ("twins", "watcher")


def remove(link: BoxLink, by: User | None) -> None:
    """With its box, servers, runs and history; nothing on the machine changes. Raises LinkError."""
    with transaction.atomic():
        found = _lock(link)
        if found.is_joined:
            raise LinkError(f"{found} is joined. Revoke it first.")
        AuditEntry.note(by, "remove box", found)
        if found.box is not None:
            of_it = Server.objects.filter(box=found.box)
            of_it.update(run=None)
            of_it.delete()
            found.box.delete()
        BoxLink.objects.filter(pk=found.pk).delete()
        transaction.on_commit(lambda: _tell(found))


def list_seen_secrets(link: BoxLink) -> list[str]:
    """Names of those that it can read and that have not been changed since."""
    found = Secret.objects.filter(copies__box=link.box_id, copies__made_at__gte=F("created_at"))
    return sorted(set(found.values_list("name", flat=True)))


def is_name_taken(name: str) -> bool:
    """By a box that lives. One that was revoked gives its name, servers and history to the next."""
    if name == settings.BOX:
        return True
    box = Box.objects.filter(slug=name).select_related("link").first()
    if box is None:
        return False
    link = getattr(box, "link", None)
    return not box.is_silent if link is None else bool(link.is_joined)


def _lock(link: BoxLink) -> BoxLink:
    found = BoxLink.objects.select_for_update(of=("self",)).filter(pk=link.pk).first()
    if found is None:
        raise LinkError(f"{link} is not known any more: it was removed.")
    return found


def _check_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise LinkError(
            f"“{name}” cannot be a box's name. Use lower-case letters, digits and hyphens, at "
            "most 63, with a letter or digit first and last."
        )
    if is_name_taken(name):
        raise LinkError(f"Another box is called {name}. Choose another name for this one.")
    return name


def _take_up(name: str) -> Box:
    box, _ = Box.objects.get_or_create(slug=name)
    # The one that was revoked keeps neither its port nor a place among boxes; what was done with
    # it stands in the activity.
    BoxLink.objects.filter(box=box).delete()
    return box


def _choose_port() -> int:
    taken = set(BoxLink.objects.exclude(port=None).values_list("port", flat=True))
    free = next((port for port in settings.BOX_PORTS if port not in taken), None)
    if free is None:
        raise LinkError(
            f"All {len(settings.BOX_PORTS)} ports for boxes are in use. Remove a revoked box, or "
            "set INFERDASH_BOX_PORTS to a longer range."
        )
    return free


def _describe_end(link: BoxLink) -> str:
    if link.revoked_at is not None:
        return "It was revoked."
    if link.joined_at is not None:
        return "It was let in already."
    if link.refused_at is not None:
        return "It was refused."
    return "Its token is over. Make a new one, and run the join again."


def _tell(link: BoxLink) -> None:
    events.wake_keeper()
    events.publish_change("links")
    events.publish_change("servers")
    if link.box_id is not None:
        events.publish_change("box", link.box_id)
