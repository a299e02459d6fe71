"""Tags on a box: moved to a newer build, or back to the one before."""

from django.utils import timezone

from servers.host.docker.containers import DockerContainers, Image
from servers.lifecycle.images.work import ImageJobError, ImageWork
from servers.lifecycle.runs import creation
from servers.models import Box, TagNews, User
from servers.models.images.inventory import KEPT


def keep(docker: DockerContainers, image: Image) -> None:
    """Give an image a name of ours: one without any is what `docker image prune` takes.

    Raises ContainerError.
    """
    docker.tag(image.id, _format_kept(image.id))


def _format_kept(image_id: str) -> str:
    return f"{KEPT}:{image_id.removeprefix('sha256:')[:12]}"


def note(box: Box, reference: str, *, before: str, by: User | None) -> None:
    """The tag means another image now; what it meant until now can be had back."""
    TagNews.objects.update_or_create(
        box=box,
        reference=reference,
        defaults={
            "before_id": before, "moved_at": timezone.now(), "moved_by": by,
            "newer_id": "", "digest": "", "noticed_at": None, "error": "",
        },
    )  # fmt: skip


def move(work: ImageWork) -> str:
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
        keep(docker, before)
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
