"""Checkpoints that the box's profiles name, looked at now and then."""

import logging
import time
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.utils import timezone

from servers.host.weights.hub import HubError, RemoteModel
from servers.judge.runs.limits import LimitsError
from servers.launch.engines import parameters
from servers.launch.engines.volumes import VolumeError
from servers.lifecycle.weights import checkpoints
from servers.models import Box, CheckpointFacts, Server

log = logging.getLogger(__name__)

# Seconds between two questions to the Hub about one model, and after it did not answer.
ASK_AGAIN = 3600.0
TRY_AGAIN = 600.0

type AskHub = Callable[[str, Box], RemoteModel | None]


class HubSizes:
    """What the Hub has said, asked seldom: most boxes are offline, or have what they need."""

    def __init__(self) -> None:
        self._said: dict[str, tuple[float, RemoteModel | None]] = {}
        self._away = float("-inf")

    def __call__(self, name: str, box: Box) -> RemoteModel | None:
        due, said = self._said.get(name, (float("-inf"), None))
        now = time.monotonic()
        if now < due or now < self._away:
            return said
        try:
            said = checkpoints.ask_hub(name, box)
        except HubError as error:
            # For all models: whoever is offline is so for every one.
            self._away = now + TRY_AGAIN
            log.info("nobody tells how large %s is: %s", name, error)
            return said
        self._said[name] = now + ASK_AGAIN, said
        return said


def look(box: Box, ask_hub: AskHub | None = None) -> None:
    """Write down what config.json and the weights of each say; forget what is gone."""
    box.refresh_from_db(fields=["home", "hf_cache", "hf_token"])  # people change them
    found: dict[str, dict[str, Any]] = {}
    missing = []
    try:
        for source in _list_named(box):
            if (checkpoint := checkpoints.look(source, box)) is not None:
                found[source] = checkpoints.facts(checkpoint)
            else:
                missing.append(source)
    except (OSError, LimitsError, VolumeError) as error:
        log.warning("could not look at the checkpoints of this box: %s", error)
        return
    # What is here counts at once, whatever the Hub takes to answer.
    _keep(box, found, also=missing)
    if ask_hub is None:
        return
    for source in missing:
        if (remote := ask_hub(source, box)) is not None:
            found[source] = checkpoints.remote_facts(remote)
    # Away, it takes nothing back; switched off, nobody would ever correct it.
    _keep(box, found, also=missing if settings.HUB else None)


def _keep(box: Box, found: dict[str, dict[str, Any]], *, also: list[str] | None = None) -> None:
    """`also` are not to be forgotten yet, if the Hub has told of them."""
    gone = CheckpointFacts.objects.filter(box=box).exclude(source__in=found)
    gone.exclude(source__in=also or (), remote__gt="").delete()
    for source, seen in found.items():
        known = CheckpointFacts.objects.filter(box=box, source=source).first()
        if known is None or {name: getattr(known, name) for name in seen} != seen:
            values = seen | {"changed_at": timezone.now()}
            CheckpointFacts.objects.update_or_create(box=box, source=source, defaults=values)


def _list_named(box: Box) -> set[str]:
    shown = Server.objects.present().filter(box=box, profile__archived_at=None)
    launches = (
        parameters.fill(server.profile.launch, server.values)
        for server in shown.exclude(profile__current=None).select_related("profile__current")
    )
    return {source for each in launches if (source := checkpoints.source(each, box))}
