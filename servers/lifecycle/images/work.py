"""A job on images while its thread does it, and the tags that it keeps and prunes."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from django.db import connection
from django.db.utils import InterfaceError, OperationalError
from django.utils import timezone

from servers import events
from servers.host.docker.containers import ContainerError, DockerContainers, Image, PullState
from servers.judge.memory.pools import GIB
from servers.judge.sizes import gib
from servers.lifecycle.images import inventory
from servers.lifecycle.runs import creation
from servers.models import Box, ImageJob, Server, TagNews, User
from servers.models.images.inventory import KEPT

log = logging.getLogger(__name__)

TELL_EVERY = 0.5  # seconds


class HeldError(Exception):
    """Something speaks against it that a person may overrule; the text says what."""


class ImageJobError(Exception):
    """It cannot be done; the text says why, and what to do."""


class Closable(Protocol):
    def close(self) -> None: ...


class ImageWork:
    def __init__(self, job: ImageJob) -> None:
        self.job = job
        self.box: Box = job.box
        self._stream: Closable | None = None
        self._given_up = threading.Event()
        self._noted: dict[str, Any] = {}

    @property
    def is_given_up(self) -> bool:
        return self._given_up.is_set()

    def follow(self, stream: Closable) -> None:
        """What give_up() closes: Docker does it only while somebody reads."""
        self._stream = stream
        if self.is_given_up:  # a moment before
            stream.close()

    def give_up(self) -> None:
        self._given_up.set()
        if self._stream is not None:
            with suppress(OSError):
                self._stream.close()

    @contextmanager
    def report_progress(self, tell: Callable[[], None]) -> Iterator[None]:
        """Call `tell` twice a second meanwhile, however silent Docker is, and once at the end."""
        is_over = threading.Event()
        thread = threading.Thread(target=self._tell, args=[tell, is_over], daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()
            tell()

    def _tell(self, tell: Callable[[], None], is_over: threading.Event) -> None:
        try:
            while not is_over.wait(TELL_EVERY):
                try:
                    tell()
                except (OperationalError, InterfaceError) as error:
                    log.warning("The database is away: %s", error)
        finally:
            connection.close()

    def note(self, **values: Any) -> None:
        """Write down what is new."""
        new = {name: value for name, value in values.items() if self._noted.get(name) != value}
        self._noted |= new
        mine = ImageJob.objects.filter(pk=self.job.pk)
        if new:
            mine.update(changed_at=timezone.now(), **new)
            events.publish_change("jobs")
        # The wish to end it may have come while Redis was away, and nobody was woken.
        if not self.is_given_up and mine.filter(cancel_requested=True).exists():
            self.give_up()


def keep_tag(docker: DockerContainers, image: Image) -> None:
    """Give an image a name of ours: one without any is what `docker image prune` takes.

    Raises ContainerError.
    """
    docker.tag(image.id, _format_kept(image.id))


def _format_kept(image_id: str) -> str:
    return f"{KEPT}:{image_id.removeprefix('sha256:')[:12]}"


def note_tag(box: Box, reference: str, *, before: str, by: User | None) -> None:
    """The tag means another image now; what it meant until now can be had back."""
    TagNews.objects.update_or_create(
        box=box,
        reference=reference,
        defaults={
            "before_id": before, "moved_at": timezone.now(), "moved_by": by,
            "newer_id": "", "digest": "", "noticed_at": None, "error": "",
        },
    )  # fmt: skip


def move_tag(work: ImageWork) -> str:
    """Let the tag mean the image that the job names, if it is one of the two that it may mean.

    Raises RefusedError and ContainerError.
    """
    docker, job = creation.docker(), work.job
    wanted = job.images[0] if job.images else ""
    news = TagNews.objects.filter(box=work.box, reference=job.reference).first()
    if news is None or not wanted or wanted not in (news.newer_id, news.before_id):
        raise ImageJobError(
            f"{job.reference} cannot be moved there: that image is neither the newer build of this "
            "tag that was pulled, nor what it meant before. Look at the list again."
        )
    target = docker.image(wanted)
    if target is None:
        raise ImageJobError(
            f"The image is no longer on {work.box}. Pull {job.reference} to get what its registry "
            "has."
        )
    before = docker.image(job.reference)
    if before is not None and before.id == target.id:
        return f"{job.reference} means this image already."
    if before is not None:
        keep_tag(docker, before)
    docker.tag(target.id, job.reference)
    is_back = wanted == news.before_id
    left = before.id if before is not None else ""
    news.before_id, news.moved_at, news.moved_by = left, timezone.now(), job.asked_by
    # Gone back, the one that was left is still what the registry has, and it is here.
    digests = before.digests if is_back and before is not None else ()
    news.newer_id = left if is_back else ""
    news.digest = next((each.partition("@")[2] for each in digests), "")
    news.noticed_at = timezone.now() if is_back else None
    news.save()
    # It has a name of its own again.
    docker.untag(_format_kept(target.id))
    short = target.id.removeprefix("sha256:")[:12]
    return (
        f"{job.reference} means {short} now{', as before' if is_back else ''}. What runs goes on "
        "with the image that it has; the next start takes this one."
    )


def find_prunable(box: Box, docker: DockerContainers, *, with_sizes: bool) -> bool:
    """Bring the rows up to date; whether anything is new. Raises ContainerError."""
    disk = docker.disk_of_images() if with_sizes else None
    return inventory.keep(box, docker.images(), docker.uses(), disk, docker.image)


def prune(work: ImageWork) -> str:
    """Remove those of the named images that nobody needs, as Docker says now.

    Raises RefusedError and ContainerError.
    """
    docker, job = creation.docker(), work.job
    find_prunable(work.box, docker, with_sizes=False)
    fates = {fate.image.image_id: fate for fate in inventory.fates(work.box)}
    before = docker.disk_of_images().layers
    gone, stayed = 0, list[str]()
    for number, image_id in enumerate(job.images, start=1):
        if work.is_given_up:
            break
        fate = fates.get(image_id)
        if fate is None:
            continue  # gone already, or nothing that a page has ever offered
        if not fate.may_go:
            stayed.append(f"{fate.image} stays: {fate.why}.")
            continue
        try:
            gone += docker.drop_image(image_id)
        except ContainerError as error:
            if error.kind in ("daemon_down", "no_permission"):
                raise
            stayed.append(f"{fate.image} stays. {error}")
        work.note(done=number, total=len(job.images))
    freed = max(0, before - docker.disk_of_images().layers)
    find_prunable(work.box, docker, with_sizes=True)
    if not gone and stayed and not work.is_given_up:
        raise ImageJobError(" ".join(stayed))
    said = f"Removed {gone} image{'' if gone == 1 else 's'}; {gib(freed)} are free again."
    return " ".join([said, *stayed])


_TELL_EVERY = 2.0  # seconds
_SHORT = 19  # characters of an id: "sha256:" and twelve


def is_used(box: Box, reference: str) -> bool:
    """Whether a server of the box would run this image at its next start."""
    servers = Server.objects.filter(box=box, removed_at=None).select_related("profile__current")
    return any(
        server.profile.current is not None and server.launch.image == reference
        for server in servers
    )


def can_change(reference: str) -> bool:
    """Whether the same reference may mean another image tomorrow."""
    return bool(reference) and "@" not in reference


def pull(reference: str, tell: Callable[[str], None]) -> str:
    """What came of it, in a sentence; `tell` hears how far it is. Raises ContainerError."""
    docker = creation.docker()
    before = docker.image(reference)
    told_at = 0.0

    def hear(progress: PullState) -> bool:
        nonlocal told_at
        if time.monotonic() - told_at >= _TELL_EVERY:
            told_at = time.monotonic()
            of = f" of {progress.total / GIB:.1f}" if progress.total else ""
            tell(f"{progress.done / GIB:.1f}{of} GiB of {reference} so far.")
        return True

    docker.pull(reference, hear)
    after = docker.image(reference)
    if after is None:
        raise ContainerError(f"{reference} was pulled but is not there.", kind="no_image")
    if before is None:
        return f"{reference} is there now. The next start takes it."
    if before.id == after.id:
        return f"{reference} is the newest already: its registry has no other under this name."
    keep_tag(docker, before)
    return (
        f"{reference} is a newer image now ({after.id[:_SHORT]} instead of {before.id[:_SHORT]}). "
        "The next start takes it; starting an earlier run as it ran still takes the old one."
    )
