"""Newer builds behind the tags that profiles name: noticed, and checked before anything moves."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from servers import events
from servers.host.docker.containers import ContainerError, DockerContainers
from servers.host.images.registry import familiar, parse
from servers.judge.images import names
from servers.judge.images.names import BuildVerdict, is_for
from servers.judge.profiles.facts import LintFinding
from servers.judge.profiles.lint import lint
from servers.lifecycle.images import inventory
from servers.lifecycle.profiles.knowledge import LaunchContext, describe_subject
from servers.models import (
    Box,
    ImageFacts,
    ImageInventory,
    Profile,
    Server,
    StoredImage,
    TagChecks,
    TagNews,
    User,
)
from servers.models.images import InspectionState

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class BuildForServer:
    """What the newer build would mean for one server of a profile."""

    server: Server
    verdict: BuildVerdict

    @property
    def profile(self) -> Profile:
        return self.server.profile


def is_due(box: Box, now: datetime | None = None) -> bool:
    """Whether to ask registries: the setting's rhythm, or somebody's wish."""
    known, checks = ImageInventory.objects.find(box), TagChecks.objects.find(box)
    if known is None or known.looked_at is None:
        return False  # nobody knows yet what lies here
    if checks is not None and checks.is_wanted:
        return True
    every = settings.NEWER_IMAGES_EVERY
    if not every:
        return False
    asked_at = checks.looked_at if checks else None
    return asked_at is None or (now or timezone.now()) - asked_at >= timedelta(hours=every)


def want(box: Box) -> None:
    """Have the box ask the registries now; what its page shows changes by itself when it has."""
    TagChecks.objects.update_or_create(box=box, defaults={"wanted_at": timezone.now()})
    events.publish_change("images")
    events.wake_watcher(box.slug, events.Topic.IMAGES)


def look(box: Box, docker: DockerContainers, *, go_on: Callable[[], bool] = lambda: True) -> None:
    """Ask the registries of all tags that profiles of the box name; nothing is pulled."""
    began = timezone.now()
    for reference in tags(box):
        if not go_on():
            return
        _look(box, docker, reference)
    wanted = tags(box)
    # One that has been moved can still be moved back.
    TagNews.objects.filter(box=box, before_id="").exclude(reference__in=wanted).delete()
    seen = {"looked_at": began, "changed_at": timezone.now()}
    TagChecks.objects.update_or_create(box=box, defaults=seen)
    events.publish_change("images")


def tags(box: Box) -> list[str]:
    """What may mean another image tomorrow: no digests, no ids, nothing that was built here."""
    named = {
        familiar(inventory.next_launch(server).image)
        for server in inventory.list_placed_servers(box)
    }
    return sorted(
        each
        for each in named
        if "@" not in each and not each.startswith("sha256:") and not inventory.is_built_here(each)
    )


def _look(box: Box, docker: DockerContainers, reference: str) -> None:
    now = timezone.now()
    try:
        image = docker.image(reference)
        if image is None or not image.digests:
            return  # nothing to be newer than
        found = docker.find_published(reference)
    except ContainerError as error:
        TagNews.objects.update_or_create(
            box=box, reference=reference, defaults={"checked_at": now, "error": str(error)}
        )
        return
    said = ""
    is_newer = found.digest not in {each.partition("@")[2] for each in image.digests}
    if is_newer and not is_for(found.platforms, image.architecture):
        is_newer, said = False, f"What its registry has now is not made for {image.architecture}."
    news, _is_new = TagNews.objects.get_or_create(box=box, reference=reference)
    news.checked_at, news.error = now, said
    if not is_newer:
        news.digest, news.noticed_at, news.newer_id = "", None, ""
    elif news.digest != found.digest:
        news.digest, news.noticed_at, news.newer_id = found.digest, now, ""
        here = docker.image(parse(reference).with_digest(found.digest))
        news.newer_id = here.id if here is not None else ""
    news.save()


def to_ask(box: Box) -> list[tuple[str, str]]:
    """Engines and ids of images that no profile names: newer builds, and what somebody asked for."""
    asked = StoredImage.objects.filter(box=box, is_to_be_asked=True).exclude(engine="")
    pairs = set(asked.values_list("engine", "image_id"))
    found = {each.reference: each for each in TagNews.objects.filter(box=box).exclude(newer_id="")}
    for server in inventory.list_placed_servers(box) if found else ():
        launch = inventory.next_launch(server)
        news = found.get(familiar(launch.image))
        if news is not None:
            pairs.add((launch.engine, news.newer_id))
    return sorted(pairs)


def check(news: TagNews, person: User) -> list[BuildForServer]:
    """What the newer build, which is here, would mean for every server that starts from the tag.

    By the same checks as everywhere, over the flags that the newer image told.
    """
    seen = set(Profile.objects.seen_by(person).values_list("pk", flat=True))
    return [
        BuildForServer(server=server, verdict=_verdict(news, server))
        for server in inventory.list_placed_servers(news.box)
        if familiar(inventory.next_launch(server).image) == news.reference
        and server.profile_id in seen
    ]


def _verdict(news: TagNews, server: Server) -> BuildVerdict:
    launch = inventory.next_launch(server)
    newer = ImageFacts.objects.find_named(launch.engine, news.newer_id, news.box)
    if newer is None or newer.asked_at is None or newer.image_id != news.newer_id:
        if newer is not None and newer.asking == InspectionState.TROUBLE:
            return names.explain_unknown_build(newer.why)
        return names.explain_unknown_build("The newer image’s flags have not been read yet.")
    if newer.error:
        return names.explain_unknown_build(
            f"The newer image’s flags could not be read: {newer.error}"
        )
    context = LaunchContext(launch, news.box)
    return names.judge_new_build(_findings(context, context.image), _findings(context, newer))


def _findings(context: LaunchContext, image: ImageFacts | None) -> list[LintFinding]:
    return lint(describe_subject(context.launch, context.box, image, context.checkpoint))
