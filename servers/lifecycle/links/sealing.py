"""Sealed copies of secrets: of each box exactly those that its servers and pulls need.

servers.models.people.sealed_copies has their format. The hub makes them, as it alone has
secrets.key; a box opens its own by Secret.reveal() and RegistryCredential.password.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from django.conf import settings
from django.db.models import F, Q
from django.utils import timezone

from servers.host.images.registry import parse
from servers.launch.engines.launch import Launch
from servers.models import (
    Box,
    BoxLink,
    ImageJob,
    ProfileVersion,
    RegistryCredential,
    Secret,
    SecretCopy,
)
from servers.models.people.key import SecretError, name_copy
from servers.models.people.sealed_copies import CopyError, seal_copy
from servers.models.runs.run import ACTIVE

log = logging.getLogger(__name__)


def seal_for(box: Box) -> int:
    """Make, renew and take away the box's copies; how many were made. 0 of the hub's own box."""
    if settings.WIRE != "hub":
        return 0
    link = BoxLink.objects.select_joined().filter(box=box).first()
    if link is None:
        return 0
    secrets, credentials = _find_needed(box)
    copies = list(SecretCopy.objects.filter(box=box).defer("sealed"))
    of_secrets = {each.secret_id: each for each in copies if each.secret_id}
    of_registries = {each.registry_id: each for each in copies if each.registry_id}
    made = 0
    for secret in secrets:
        if not secret.sealed:
            continue  # it was found on that box, which has sealed it for itself
        kept = of_secrets.get(secret.pk)
        if _is_old(kept, secret.created_at, link):
            made += _seal(box, link, secret, secret.reveal)
    for each in credentials:
        kept = of_registries.get(each.pk)
        if _is_old(kept, each.created_at, link):
            made += _seal(box, link, each, lambda each=each: each.password)  # type: ignore[misc]
    unneeded = SecretCopy.objects.filter(box=box).exclude(
        Q(secret__in=[each.pk for each in secrets])
        | Q(registry__in=[each.pk for each in credentials])
    )
    # What only the box itself could seal would be lost.
    unneeded.exclude(secret__sealed=b"").delete()
    return made


def seal_anew() -> None:
    """For every box: a secret or a credential has got another value."""
    if settings.WIRE != "hub":
        return
    for link in BoxLink.objects.select_joined().select_related("box"):
        if link.box is not None:
            seal_for(link.box)


def _is_old(kept: SecretCopy | None, changed_at: datetime, link: BoxLink) -> bool:
    return kept is None or kept.made_at <= changed_at or kept.sealed_to != link.seal_key


def _seal(
    box: Box, link: BoxLink, of: Secret | RegistryCredential, reveal: Callable[[], str]
) -> int:
    try:
        sealed = seal_copy(link.seal_key, reveal(), bound_to=name_copy(of))
    except (SecretError, CopyError) as error:
        # Who starts what needs it is told on the box.
        log.warning("%s is not sealed for %s: %s", of, box, error)
        return 0
    names = {"secret": of} if isinstance(of, Secret) else {"registry": of}
    values = {"sealed": sealed, "sealed_to": link.seal_key, "made_at": timezone.now()}
    SecretCopy.objects.update_or_create(box=box, **names, defaults=values)
    return 1


def _find_needed(box: Box) -> tuple[list[Secret], list[RegistryCredential]]:
    launches = list(_list_launches(box))
    wanted = {pk for launch in launches for pk in launch.secret_env.values()}
    if box.hf_token_id is not None:
        wanted.add(box.hf_token_id)
    pulls = ImageJob.objects.open().filter(box=box).values_list("target", flat=True)
    registries = set(_find_registries([*(each.image for each in launches), *pulls]))
    return (
        list(Secret.objects.filter(pk__in=wanted)),
        list(RegistryCredential.objects.filter(registry__in=registries)),
    )


def _list_launches(box: Box) -> Iterator[Launch]:
    placed = Q(
        profile__current=F("pk"), profile__servers__box=box, profile__servers__removed_at=None
    )
    running = Q(runs__server__box=box, runs__state__in=ACTIVE)
    # The box itself starts it again, in its version, and cannot make a copy then.
    planned = Q(runs__server__box=box, runs__restart_at__isnull=False)
    for kind in (placed, running, planned):
        for version in ProfileVersion.objects.filter(kind).order_by("pk").distinct():
            yield version.launch


def _find_registries(references: Iterable[str]) -> Iterator[str]:
    for reference in references:
        try:
            yield parse(reference).registry
        except ValueError:
            continue  # an image's id has none
