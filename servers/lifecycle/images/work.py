"""Image jobs: how people and starts ask for them, and how tags are moved and images removed."""

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from servers.host.docker.containers import ContainerError, DockerContainers, Image
from servers.host.images.registry import familiar
from servers.launch.numbers import gib
from servers.lifecycle.images import inventory
from servers.lifecycle.jobs import commands
from servers.lifecycle.jobs.runner import GivenUpError, JobError, JobWork
from servers.lifecycle.runs import creation
from servers.lifecycle.runs.ownership import verb
from servers.models import Box, ImageJob, ProfileVersion, Run, TagNews, User
from servers.models.images import KEPT
from servers.models.jobs import OVER, JobKind, JobState
from servers.models.runs.run import DesiredState, ManagedRun, RunState

KEPT_FOR = timedelta(days=90)

type ImageWork = JobWork[ImageJob]


def ask_to_pull(
    box: Box, reference: str, *, by: User, digest: str = "", server: str = ""
) -> ImageJob | None:
    """`server` is whose page or box has asked for it. None where somebody pulls the same."""
    params = {"digest": digest} | ({"server": server} if server else {})
    job = _ask(box, JobKind.PULL, by, familiar(reference), params)
    if job is None:
        _share_pull(box, familiar(reference))
    return job


def ask_again(job: ImageJob, *, by: User) -> ImageJob | None:
    """The same once more, after it has ended. None where somebody wants the same already."""
    again = commands.ask_again(job, by=by)
    if again is None and job.kind == JobKind.PULL:
        _share_pull(job.box, job.target)
    return again


def _share_pull(box: Box, target: str) -> None:
    """A person wants what a start has asked for: its stop is to leave it to them."""
    with transaction.atomic():
        mine = ImageJob.objects.open().filter(box=box, kind=JobKind.PULL, target=target)
        job = mine.select_for_update().first()
        if job is not None and job.for_start:
            job.write(for_start=False)


def ask_for_start(box: Box, reference: str, *, by: User | None) -> ImageJob | None:
    """Whoever starts a server wants its image, whatever speaks against the pull."""
    params = {"for_start": True, "despite": True}
    return _ask(box, JobKind.PULL, by, familiar(reference), params)


def ask_to_build(box: Box, reference: str, version: ProfileVersion, *, by: User) -> ImageJob | None:
    return _ask(box, JobKind.BUILD, by, reference, {}, version)


def ask_to_move(box: Box, reference: str, image_id: str, *, by: User) -> ImageJob | None:
    return _ask(box, JobKind.MOVE, by, reference, {"images": [image_id]})


def ask_to_prune(box: Box, images: list[str], *, by: User) -> ImageJob | None:
    return _ask(box, JobKind.PRUNE, by, "", {"images": images})


def _ask(
    box: Box, kind: JobKind, by: User | None, what: str, params: dict[str, Any],
    version: ProfileVersion | None = None,
) -> ImageJob | None:  # fmt: skip
    return commands.ask(
        ImageJob, box, kind, by=by, what=what, target=what, params=params, version=version
    )


def forget_old(now: datetime | None = None) -> None:
    """What pulls and builds have come to long ago, and what builds have printed."""
    before = (now or timezone.now()) - KEPT_FOR
    ImageJob.objects.filter(ended_at__lt=before, state__in=OVER).delete()


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
        raise JobError(
            f"{job.reference} cannot be moved there: that image is neither the newer build of this "
            "tag that was pulled, nor what it meant before. Look at the list again."
        )
    target = docker.image(wanted)
    if target is None:
        raise JobError(
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
        raise JobError(" ".join(stayed))
    said = f"Removed {gone} image{'' if gone == 1 else 's'}; {gib(freed)} are free again."
    told = " ".join([said, *stayed])
    if work.is_given_up:
        raise GivenUpError(told)
    return told


def can_change(reference: str) -> bool:
    """Whether the same reference may mean another image tomorrow."""
    return bool(reference) and "@" not in reference


@verb
def find_or_request_pull(run: ManagedRun, /) -> ImageJob | None:
    """The job that the run waits for; None until another of the same name is out of the way."""
    job = run.start.pull
    # One that ended with its watcher says nothing of the image.
    if job is None or job.was_cut:
        job = _join(run)
    if job is not None and job.state == JobState.HELD:
        # Whoever starts it wants the image whatever speaks against it.
        commands.go_on(job, by=run.started_by)
    return job


def _join(run: ManagedRun) -> ImageJob | None:
    box, wanted = run.server.box, familiar(run.image_to_pull)
    mine = ImageJob.objects.open().filter(box=box, kind=JobKind.PULL, target=wanted)
    if not mine.exists():
        ask_for_start(box, wanted, by=run.started_by)
    with transaction.atomic():
        job = mine.select_for_update(of=("self",)).select_related("box").first()
        if job is None or job.cancel_requested:
            return None
        waits = Run.objects.filter(pk=run.pk, state=RunState.PULLING, wanted=DesiredState.RUNNING)
        if job.digest:
            # A newer build comes without its tag. While it is held, the tag cannot be pulled.
            if job.state == JobState.HELD and waits.exists():
                commands.go_on(job, by=run.started_by)
            return None
        if not waits.write(start__pull=job):
            _cancel_unless_awaited(job, by=run.stopped_by)
            return None
    commands.publish(job)
    return job


@verb
def let_go_of_pull(run: ManagedRun, /) -> None:
    """Cancel the pull that only the start has asked for, unless others wait for it, too."""
    with transaction.atomic():
        mine = ImageJob.objects.open().filter(pk=run.start.pull_id or 0)
        job = mine.select_for_update(of=("self",)).select_related("box").first()
        if job is not None:
            _cancel_unless_awaited(job, by=run.stopped_by)


def _cancel_unless_awaited(job: ImageJob, by: User | None) -> None:
    is_awaited = Run.objects.filter(state=RunState.PULLING, start__pull=job).exists()
    if job.for_start and not is_awaited:
        commands.cancel(job, by=by)
