"""A pull: looked at before it begins, told by layer while it goes on, kept track of when it ends."""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from django.conf import settings

from servers.host.docker.containers import ContainerError, DockerContainers, DockerFacts
from servers.host.images import registry
from servers.host.images.images import DockerStream, PullProgress, PullState
from servers.host.images.registry import RegistryError, parse
from servers.host.kernel import resources
from servers.judge.images import names as judge
from servers.judge.memory.pools import GIB
from servers.lifecycle.images import credentials
from servers.lifecycle.images import work as images_work
from servers.lifecycle.images.work import ImageWork
from servers.lifecycle.jobs.runner import HeldError
from servers.lifecycle.runs import creation
from servers.lifecycle.runs.secret_env import SecretsError
from servers.models import TagNews

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class PullForecast:
    """What is known of a pull before its first byte."""

    sizes: Mapping[str, int] = field(default_factory=dict)  # of layers by digest; {}: not told
    free: int | None = None  # bytes on Docker's disk


def pull(work: ImageWork) -> str:
    """What came of it, in a sentence. Raises HeldError, and ContainerError."""
    docker, job = creation.docker(), work.job
    looked = _forecast_pull(docker, work)
    work.note(
        free=looked.free,
        total=sum(looked.sizes.values()) or None,
        is_whole=bool(looked.sizes),
        said="",
    )
    before = docker.image(job.reference)
    stream = docker.begin_pull(job.source)
    work.follow(stream.close)
    _follow_pull(work, stream, looked.sizes)
    if work.is_given_up:
        raise ContainerError("The pull was given up.", kind="given_up")
    image = docker.image(job.source)
    if image is None:
        raise ContainerError(f"{job.source} was pulled but is not there.", kind="no_image")
    work.note(image_id=image.id)
    short = image.id.removeprefix("sha256:")[:12]
    if job.digest:
        TagNews.objects.filter(box=work.box, reference=job.reference, digest=job.digest).update(
            newer_id=image.id
        )
        return (
            f"The newer build of {job.reference} is here as {short}, beside the one that the tag "
            "means. Its flags are read; nothing changes before the tag is moved."
        )
    if before is None:
        return f"{job.reference} is there now, as {short}."
    if before.id == image.id:
        return f"{job.reference} is the newest already: its registry has no other under this name."
    images_work.keep_tag(docker, before)
    images_work.note_tag(work.box, job.reference, before=before.id, by=job.asked_by)
    return (
        f"{job.reference} is a newer image now: {short} instead of "
        f"{before.id.removeprefix('sha256:')[:12]}, which stays. The next start takes the new one."
    )


def what_stays() -> str:
    """What Docker keeps of a pull that was cut off, in a sentence."""
    try:
        keeps = creation.docker().facts().keeps_layers
    except ContainerError:
        return "Pull again when Docker answers."
    if keeps:
        return "Docker keeps the layers that were whole: pulling again goes on with the others."
    return (
        "Docker on this box stores images by itself, not in containerd, and so drops the layers of "
        "a pull that was cut off: pulling again begins anew."
    )


def _forecast_pull(docker: DockerContainers, work: ImageWork) -> PullForecast:
    """Raises HeldError for what a person should know before the first byte, unless they do."""
    job, facts = work.job, docker.facts()
    architecture = judge.ARCHITECTURES.get(facts.architecture, facts.architecture)
    if not job.despite and not _is_for(docker, job.source, architecture):
        raise HeldError(
            f"{job.reference} is not made for this box's processors ({architecture}): its programs "
            "would not run here. Choose another tag, or pull it all the same."
        )
    free = _free(facts)
    sizes = _sizes(job.source, architecture)
    total = sum(sizes.values())
    if not job.despite and free is not None and total * judge.UNPACKED > free:
        raise HeldError(
            f"{job.reference} is {total / GIB:.1f} GiB to pull, and about "
            f"{total * judge.UNPACKED / GIB:.1f} GiB or more once it is unpacked; the disk of "
            f"Docker has {free / GIB:.1f} GiB free. Make room first, or pull it all the same: "
            "layers that are here already are not pulled again."
        )
    return PullForecast(sizes=sizes, free=free)


def _is_for(docker: DockerContainers, source: str, architecture: str) -> bool:
    try:
        return judge.is_for(docker.find_published(source).platforms, architecture)
    except ContainerError as error:
        # A mirror may have what the registry does not tell; the pull itself says what is wrong.
        log.info("%s: %s", source, error)
        return True


def _sizes(source: str, architecture: str) -> dict[str, int]:
    wanted = parse(source).registry
    login = next((each for each in credentials.load_credentials() if each.registry == wanted), None)
    try:
        found = registry.size(source, architecture, login, realms=_realms())
    except RegistryError as error:
        log.info("The size of %s is not known: %s", source, error)
        return {}
    return found.layers if found is not None else {}


def _realms() -> tuple[str, ...]:
    try:
        return creation.read_limits().token_realms
    except SecretsError as error:
        log.info("No other address for log-ins of registries is known: %s", error)
        return ()


def _free(facts: DockerFacts) -> int | None:
    disk = resources.disk(facts.root, root=settings.HOST_ROOT)
    return disk.free if disk is not None else None


def _follow_pull(work: ImageWork, stream: DockerStream, sizes: Mapping[str, int]) -> None:
    heard, rate = PullProgress(), judge.Rate()
    with work.report_progress(lambda: _tell(work, heard.so_far(), sizes, rate)):
        for line in stream:
            heard.hear(line)


def _tell(work: ImageWork, progress: PullState, sizes: Mapping[str, int], rate: judge.Rate) -> None:
    done, total = judge.whole(progress, sizes) if sizes else (progress.done, progress.total)
    work.note(
        layers=judge.format_layers(progress.layers, sizes),
        done=done,
        total=total,
        rate=rate.see(time.monotonic(), progress.done),
    )
