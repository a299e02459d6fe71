"""Looks at the checkpoints that the box's profiles name, now and then."""

import logging

from django.utils import timezone

from servers.engines import parameters
from servers.engines.volumes import VolumeError
from servers.judge.limits import LimitsError
from servers.lifecycle import checkpoints
from servers.models import Box, CheckpointFacts, Server

log = logging.getLogger(__name__)


def look(box: Box) -> None:
    """Write down what config.json and the weights of each say; forget what is gone."""
    box.refresh_from_db(fields=["home", "hf_cache"])  # people change them
    found = {}
    try:
        for source in _named(box):
            if (checkpoint := checkpoints.look(source, box)) is not None:
                found[source] = checkpoint
    except (OSError, LimitsError, VolumeError) as error:
        log.warning("could not look at the checkpoints of this box: %s", error)
        return
    CheckpointFacts.objects.filter(box=box).exclude(source__in=found).delete()
    for source, checkpoint in found.items():
        seen = checkpoints.facts(checkpoint)
        known = CheckpointFacts.objects.filter(box=box, source=source).first()
        if known is None or {name: getattr(known, name) for name in seen} != seen:
            seen["changed_at"] = timezone.now()
            CheckpointFacts.objects.update_or_create(box=box, source=source, defaults=seen)


def _named(box: Box) -> set[str]:
    shown = Server.objects.shown().filter(box=box, profile__archived_at=None)
    launches = (
        parameters.fill(server.profile.launch, server.values)
        for server in shown.exclude(profile__current=None).select_related("profile__current")
    )
    return {source for each in launches if (source := checkpoints.source(each, box))}
