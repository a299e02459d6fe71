"""The image inventory of a box, who uses which image, which was built here, which may be removed; credentials."""

import hashlib
import json
import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.conf import settings
from django.core.validators import slug_re
from django.db import transaction
from django.db.models import F, Max, Q, QuerySet
from django.utils import timezone

from servers import events
from servers.host.docker.client import RegistryAuth
from servers.host.docker.containers import ContainerError, DockerContainers, Image
from servers.host.images.images import BUILT, PROFILE, ImageDiskUsage, ImageUser, ListedImage
from servers.host.images.registry import familiar
from servers.judge.images import names as judge
from servers.launch.engines.launch import Launch, fill_parameters
from servers.models import (
    AuditEntry,
    Box,
    ImageFacts,
    ImageInventory,
    ImageJob,
    Profile,
    RegistryCredential,
    Run,
    Server,
    StoredImage,
    TagNews,
    UpgradeTrial,
    User,
)
from servers.models.people.key import SecretError
from servers.models.runs.run import ACTIVE

_OF_PROFILE = "profile "
_CUDA = "CUDA_VERSION"  # of the environment of NVIDIA's base images


@dataclass(kw_only=True)
class Uses:
    """Who uses one image. Times are of this box."""

    profiles: list[Profile] = field(default_factory=list)  # that name it today
    hidden: int = 0  # more of them, which this person may not see
    running: list[Server] = field(default_factory=list)
    others: list[dict[str, Any]] = field(default_factory=list)  # containers that are not ours
    left: list[dict[str, Any]] = field(default_factory=list)  # of ours, and not running
    worked: list[Profile] = field(default_factory=list)  # whose last good run had it
    last_used: datetime | None = None

    @property
    def is_used(self) -> bool:
        return bool(self.profiles or self.hidden or self.running or self.others or self.worked)


@dataclass(frozen=True, kw_only=True)
class PruneDecision:
    """Whether a prune may take an image, and why."""

    image: StoredImage
    may_go: bool
    why: str
    is_ours: bool  # brought here by inferdash; others are taken only where a person ticks them


def keep(
    box: Box,
    listed: Iterable[ListedImage],
    used: Iterable[ImageUser],
    disk: ImageDiskUsage | None,
    look: Callable[[str], Image | None],
) -> bool:
    """Make the rows say what Docker says; whether that is anything new.

    `disk` is None where sizes were not added up this time. `look` inspects one image: what it
    says never changes, so it is asked once.
    """
    containers = list(used)
    engines = _engines(box)
    rows = {row.image_id: row for row in StoredImage.objects.filter(box=box)}
    wanted = {each.id: each for each in listed}
    changed = False
    with transaction.atomic():
        gone = [row.pk for image_id, row in rows.items() if image_id not in wanted]
        StoredImage.objects.filter(pk__in=gone).delete()
        for each in wanted.values():
            row = rows.get(each.id)
            values = _values(each, containers, engines)
            if disk is not None:
                values["shared"] = disk.shared.get(each.id)
            if row is None:
                inspected = look(each.id)
                if inspected is None:
                    continue  # gone since
                StoredImage.objects.create(
                    box=box, image_id=each.id, **values, **_read_fixed_facts(each, inspected)
                )
                changed = True
            elif any(getattr(row, name) != value for name, value in values.items()):
                StoredImage.objects.filter(pk=row.pk).update(**values)
                changed = True
        changed = changed or bool(gone)
        now = timezone.now()
        said: dict[str, Any] = {"trouble": ""} | ({"layers": disk.layers} if disk else {})
        ImageInventory.objects.update_or_create(
            box=box, defaults=said | ({"changed_at": now} if changed else {})
        )
    return changed


def _values(
    each: ListedImage, containers: list[ImageUser], engines: dict[str, str]
) -> dict[str, Any]:
    names = (*each.tags, *each.digests)
    keys = (each.id, *each.tags, *each.digests, _OF_PROFILE + each.labels.get(PROFILE, ""))
    known = [engines[key] for key in keys if key in engines]
    return {
        "tags": sorted(each.tags),
        "digests": sorted(each.digests),
        "size": each.size,
        "engine": known[0] if known else judge.engine_of(names),
        "users": [
            {
                "id": user.id[:12],
                "name": user.name,
                "state": user.state,
                "is_ours": user.labels.get("inferdash.install") == settings.INSTALL,
            }
            for user in containers
            if user.image_id == each.id
        ],
    }


def _read_fixed_facts(each: ListedImage, inspected: Image) -> dict[str, Any]:
    """What an image's id stands for: it never changes."""
    is_built = each.labels.get(BUILT) == settings.INSTALL
    # Whoever makes an image writes its labels, and this one becomes part of an address.
    profile = each.labels.get(PROFILE, "")[:63]
    return {
        "made_at": inspected.created_at if each.created_at else None,
        "architecture": inspected.architecture[:20],
        "cuda": inspected.env.get(_CUDA, "")[:30],
        "version": judge.version_of(each.labels),
        "built_for": profile if is_built and slug_re.fullmatch(profile) else "",
    }


def _engines(box: Box) -> dict[str, str]:
    """Engines by reference, image id and profile, as profiles and runs know them."""
    runs = Run.objects.filter(server__box=box).exclude(image_id="").order_by("pk")
    found = dict(runs.values_list("image_id", "version__spec__engine"))
    facts = ImageFacts.objects.filter(box=box).exclude(version="")
    found |= dict(facts.exclude(image_id="").values_list("image_id", "engine"))
    for server in list_placed_servers(box):
        launch = next_launch(server)
        found[familiar(launch.image)] = launch.engine
    profiles = Profile.objects.exclude(current=None).values_list("slug", "current__spec__engine")
    return found | {_OF_PROFILE + slug: engine for slug, engine in profiles}


def next_launch(server: Server) -> Launch:
    """What it would run at its next start, whatever runs now."""
    return fill_parameters(server.profile.launch, server.values)


def list_placed_servers(box: Box) -> list[Server]:
    """The servers of the box that can be started."""
    servers = Server.objects.filter(box=box, removed_at=None, profile__archived_at=None)
    return list(
        servers.exclude(profile__current=None).select_related("profile__current", "run", "box")
    )


def by_name(images: Iterable[StoredImage]) -> dict[str, StoredImage]:
    """Images by everything that a profile may call them."""
    return {name: each for each in images for name in (each.image_id, *each.tags, *each.digests)}


def uses(box: Box, person: User | None = None) -> dict[str, Uses]:
    """By image id, who uses it. Without a person, everybody is seen."""
    images = list(StoredImage.objects.filter(box=box))
    found = {each.image_id: Uses() for each in images}
    names = by_name(images)
    seen = set(Profile.objects.seen_by(person).values_list("pk", flat=True)) if person else None
    for server in list_placed_servers(box):
        image = names.get(familiar(next_launch(server).image))
        if image is not None:
            _add_profile(found[image.image_id], server.profile, seen)
        run = server.run
        if run is not None and run.is_active and run.image_id in found:
            found[run.image_id].running.append(server)
    for image_id, profile in list_working_images(box):
        is_new = image_id in found and profile not in found[image_id].worked
        if is_new and (seen is None or profile.pk in seen):
            found[image_id].worked.append(profile)
    for image in images:
        mine = found[image.image_id]
        mine.others = [each for each in image.users if not each["is_ours"]]
        running = {"running", "paused", "restarting"}
        mine.left = [e for e in image.users if e["is_ours"] and e["state"] not in running]
    _add_times(box, found)
    return found


def _add_profile(mine: Uses, profile: Profile, seen: set[int] | None) -> None:
    if profile in mine.profiles:
        return
    if seen is None or profile.pk in seen:
        mine.profiles.append(profile)
    else:
        mine.hidden += 1


def list_working_images(box: Box) -> list[tuple[str, Profile]]:
    """Image ids with the profiles whose last good run had them, of servers removed since, too."""
    servers = {
        each.pk: each.profile
        for each in Server.objects.filter(box=box, profile__archived_at=None).select_related(
            "profile"
        )
    }
    good = Run.objects.last_good(servers)
    return [(run.image_id, servers[pk]) for pk, run in good.items() if run.image_id]


def _add_times(box: Box, found: dict[str, Uses]) -> None:
    runs = Run.objects.filter(server__box=box).exclude(image_id="").order_by()
    now = timezone.now()
    for image_id, ended, began in runs.values_list("image_id").annotate(
        Max("ended_at"), Max("created_at")
    ):
        if image_id in found:
            found[image_id].last_used = max(filter(None, (ended, began)))
    for image_id in runs.filter(state__in=ACTIVE).values_list("image_id", flat=True):
        if image_id in found:
            found[image_id].last_used = now


def fates(box: Box) -> list[PruneDecision]:
    """What a prune of the box would take and what it never does, the largest first."""
    used = uses(box)
    pending, before = _list_pending(box), _list_previous_images(box)
    ours = set(Run.objects.filter(server__box=box).values_list("image_id", flat=True))
    ours |= set(ImageJob.objects.filter(box=box).values_list("result__image_id", flat=True))
    return sorted(
        (
            _fate(each, used[each.image_id], pending, before, is_ours=each.image_id in ours)
            for each in StoredImage.objects.filter(box=box)
            if each.engine or each.built_for or each.image_id in ours or not each.given_tags
        ),
        key=lambda fate: -fate.image.size,
    )


def _list_pending(box: Box) -> dict[str, str]:
    """Image ids that something is still to be done with, and what."""
    found = {}
    for news in TagNews.objects.filter(box=box):
        if news.newer_id:
            found[news.newer_id] = f"is the newer build of {news.reference}"
    for trial in UpgradeTrial.objects.open().filter(box=box).select_related("old_run"):
        if trial.old_run is not None and trial.old_run.image_id:
            found[trial.old_run.image_id] = f"is what the {trial} goes back to"
    return found


def _list_previous_images(box: Box) -> dict[str, str]:
    """Image ids that a tag could go back to, and the tag."""
    news = TagNews.objects.filter(box=box).exclude(before_id="")
    return dict(news.values_list("before_id", "reference"))


def _fate(
    image: StoredImage,
    used: Uses,
    pending: dict[str, str],
    before: dict[str, str],
    *,
    is_ours: bool,
) -> PruneDecision:
    mine = is_ours or bool(image.built_for)
    if image.users:
        names = ", ".join(each["name"] for each in image.users[:3])
        why = f"the container{'s' if len(image.users) > 1 else ''} {names} came from it"
    elif used.running:
        why = f"{used.running[0]} runs it"
    elif used.worked:
        why = f"{_names(used.worked)} last worked with it"
    elif used.profiles:
        why = f"{_names(used.profiles)} would start it next"
    elif image.image_id in pending:
        why = f"it {pending[image.image_id]}"
    else:
        why = "no profile names it, and none last worked with it"
        if image.image_id in before:
            # It may go, and nobody should lose it by a tick that inferdash has made.
            why = f"{why}; without it {before[image.image_id]} cannot go back"
            return PruneDecision(image=image, may_go=True, why=why, is_ours=False)
        if not mine:
            why = f"{why}; somebody else brought it here"
        return PruneDecision(image=image, may_go=True, why=why, is_ours=mine)
    return PruneDecision(image=image, may_go=False, why=why, is_ours=mine)


def _names(profiles: list[Profile]) -> str:
    named = ", ".join(str(each) for each in profiles[:3])
    return named if len(profiles) <= 3 else f"{named} and {len(profiles) - 3} more"


REPOSITORY = "inferdash"
_HASH = 12


def name_build(slug: str, launch: Launch) -> str:
    """Of what a profile's own Dockerfile makes: another text, another image; the same, the same."""
    said = json.dumps([launch.dockerfile, sorted(launch.build_files.items())])
    return f"{REPOSITORY}/{slug}:{hashlib.sha256(said.encode()).hexdigest()[:_HASH]}"


def is_built_here(reference: str) -> bool:
    """Whether such a name is one that only a build here gives."""
    return bool(re.fullmatch(rf"{REPOSITORY}/[a-z0-9_-]+:[0-9a-f]{{{_HASH}}}", reference))


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
