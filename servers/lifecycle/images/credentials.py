"""Registry credentials for pulls through Docker."""

import logging

from django.conf import settings
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from servers import events
from servers.host.docker.client import RegistryAuth
from servers.host.docker.containers import ContainerError, DockerContainers
from servers.models import AuditEntry, Box, RegistryCredential, User
from servers.models.people.key import SecretError

log = logging.getLogger(__name__)


def load_credentials() -> list[RegistryAuth]:
    """In the clear, for the worker's eyes only; without those that cannot be read."""
    found = []
    for each in _list_readable():
        try:
            found.append(
                RegistryAuth(registry=each.registry, username=each.username, password=each.password)
            )
        except SecretError as error:
            log.warning("%s", error)
    return found


def _list_readable() -> QuerySet[RegistryCredential]:
    """On a box of a hub those that the hub has given it."""
    if settings.WIRE != "box":
        return RegistryCredential.objects.all()
    return RegistryCredential.objects.filter(copies__box__slug=settings.BOX)


def ask_for_test(login: RegistryCredential, *, by: User) -> None:
    RegistryCredential.objects.filter(pk=login.pk).update(test_wanted_at=timezone.now())
    AuditEntry.note(by, "test registry credential", login)
    for box in Box.objects.all():
        events.wake_watcher(box.slug, events.Topic.IMAGES)
    events.publish_change("jobs")


def test_wanted(box: Box, docker: DockerContainers) -> None:
    """Try those that somebody wants to have tried; the first box that looks does it."""
    is_open = Q(tested_at=None) | Q(tested_at__lt=F("test_wanted_at"))
    for each in _list_readable().filter(is_open, test_wanted_at__isnull=False):
        mine = RegistryCredential.objects.filter(is_open, pk=each.pk)
        if mine.update(tested_at=timezone.now(), tested_on=box, error="It is being tried.") != 1:
            continue
        try:
            docker.check_login(each.registry, each.username, each.password)
            said = ""
        except (ContainerError, SecretError) as error:
            said = str(error)
        RegistryCredential.objects.filter(pk=each.pk).update(error=said, tested_at=timezone.now())
        events.publish_change("jobs")
