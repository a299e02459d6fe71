"""Arrivals of images: pulls, looked at before they begin and told by layer, and builds with their log."""

import logging
import re
import threading
import time
from collections.abc import Mapping

from django.conf import settings

from servers.host.docker.containers import ContainerError, DockerContainers, DockerFacts
from servers.host.images import registry
from servers.host.images.images import BuildAnswer, DockerStream, PullProgress, PullState
from servers.host.images.registry import RegistryError, familiar, parse
from servers.host.kernel import resources
from servers.judge.images import dockerfile
from servers.judge.images import names as judge
from servers.judge.memory.pools import GIB
from servers.launch.redaction import mask_tokens
from servers.lifecycle.images import inventory
from servers.lifecycle.images import work as images_work
from servers.lifecycle.images.work import ImageWork
from servers.lifecycle.jobs.runner import HeldError, JobError
from servers.lifecycle.runs import creation
from servers.lifecycle.runs.starts import SecretsError
from servers.models import JobLog, TagNews

log = logging.getLogger(__name__)


def pull(work: ImageWork) -> str:
    """What came of it, in a sentence. Raises HeldError, and ContainerError."""
    docker, job = creation.docker(), work.job
    sizes, free = _forecast_pull(docker, work)
    work.note(free=free, total=sum(sizes.values()) or None, is_whole=bool(sizes), said="")
    before = docker.image(job.reference)
    stream = docker.begin_pull(job.source)
    work.follow(stream.close)
    _follow_pull(work, stream, sizes)
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


def _forecast_pull(
    docker: DockerContainers, work: ImageWork
) -> tuple[Mapping[str, int], int | None]:
    """Bytes of its layers by digest, {} where nobody tells, and bytes free on Docker's disk.

    Raises HeldError for what a person should know before the first byte, unless they do.
    """
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
    return sizes, free


def _is_for(docker: DockerContainers, source: str, architecture: str) -> bool:
    try:
        return judge.is_for(docker.find_published(source).platforms, architecture)
    except ContainerError as error:
        # A mirror may have what the registry does not tell; the pull itself says what is wrong.
        log.info("%s: %s", source, error)
        return True


def _sizes(source: str, architecture: str) -> dict[str, int]:
    wanted = parse(source).registry
    login = next((each for each in inventory.load_credentials() if each.registry == wanted), None)
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


_LONGEST_LINE = 4000  # characters
_MOST_LINES = 50_000
STAYS = "Docker keeps the steps that were done: build again, and it goes on from there."
_ENDED = re.compile(r"returned a non-zero code: (\d+)")


def build(work: ImageWork) -> str:
    """What came of it, in a sentence. Raises RefusedError and ContainerError."""
    job, version = work.job, work.job.version
    if version is None or not version.launch.dockerfile:
        raise JobError("There is no Dockerfile to build. Save one with the profile first.")
    launch, slug = version.launch, version.profile.slug
    if inventory.name_build(slug, launch) != job.reference:
        raise JobError("The Dockerfile was changed since. Build it from the profile's page.")
    if faults := dockerfile.faults(launch.dockerfile, launch.build_files):
        raise JobError(" ".join(faults))
    JobLog.objects.filter(job=job).delete()
    docker, log = creation.docker(), _Log(work)
    began = time.monotonic()
    try:
        with work.report_progress(log.store):
            bases = _look_at_bases(docker, launch.dockerfile, work, log)
            if not work.is_given_up:
                # By their ids: a name may be moved to another image before Docker gets to it.
                text = dockerfile.pin_images(launch.dockerfile, bases)
                files = launch.build_files
                _follow(docker.begin_build(job.reference, text, files, profile=slug), work, log)
        image = docker.image(job.reference)
        if work.is_given_up or image is None:
            raise ContainerError("The build was given up.", kind="given_up")
    except ContainerError as error:
        if not work.is_given_up:
            log.add(f"\n{error.detail or error}\n")
        # Nameless, and without the labels, which come last: a prune would take it for others'.
        if log.made and (left := docker.image(log.made)):
            work.note(image_id=left.id)
        raise _describe_error(error, log) from error
    finally:
        log.finish()
    work.note(image_id=image.id, done=log.steps)
    minutes = (time.monotonic() - began) / 60
    took = f"{minutes:.0f} min" if minutes >= 1 else f"{minutes * 60:.0f} s"
    return f"Built in {took} as {job.reference}, {image.id.removeprefix('sha256:')[:12]}."


def _look_at_bases(
    docker: DockerContainers, text: str, work: ImageWork, log: "_Log"
) -> dict[str, str]:
    """Fetch the images that it begins with, and read what they add to a build: their ONBUILD is
    run by the daemon and stands in nobody's Dockerfile. Their ids by their names, not all of them
    once the work is given up. Raises RefusedError and ContainerError."""
    ids: dict[str, str] = {}
    for name in dockerfile.bases(text):
        image = docker.image(name)
        if image is None and not work.is_given_up:
            _follow(docker.begin_pull(familiar(name)), work, log)
            image = docker.image(name)
        if work.is_given_up:
            return ids
        if image is None:
            raise ContainerError(f"{name} was pulled but is not there.", kind="no_image")
        if faults := dockerfile.faults_of_base(name, image.on_build):
            raise JobError(" ".join(faults))
        ids[name] = image.id
        log.add(f"{name} is {image.id}\n")
    return ids


def _follow(stream: DockerStream, work: ImageWork, log: "_Log") -> None:
    work.follow(stream.close)
    heard = BuildAnswer()
    for line in stream:
        told = heard.hear(line)
        log.add(told.text, step=told.step, steps=told.steps)
        log.made = told.made or log.made


def _describe_error(error: ContainerError, log: "_Log") -> ContainerError:
    at = f"Step {log.step} of {log.steps}" if log.steps else "The build"
    if ended := _ENDED.search(error.detail):
        return ContainerError(
            f"{at} failed: its command ended with exit code {ended[1]}. The last lines of the log "
            "say why.",
            kind="build_failed",
            detail=error.detail,
        )
    if error.kind == "other":
        return ContainerError(
            f"{at} failed: {error.detail}", kind="build_failed", detail=error.detail
        )
    return ContainerError(f"{at} failed. {error}", kind=error.kind, detail=error.detail)


class _Log:
    """Stores what the build prints, in pieces of whole lines."""

    def __init__(self, work: ImageWork) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._lines = 0
        self._waiting: list[str] = []
        self._half = ""
        self.step = self.steps = 0
        self.made = ""  # the image that its last step made

    def add(self, text: str, *, step: int | None = None, steps: int | None = None) -> None:
        with self._lock:
            if step and steps:
                self.step, self.steps = step, steps
            *whole, self._half = (self._half + text).split("\n")
            self._waiting += whole

    def finish(self) -> None:
        """Store the last line, too, which may not have ended."""
        self.add("\n" if self._half else "")
        self.store()

    def store(self) -> None:
        with self._lock:
            lines = self._waiting[: max(0, _MOST_LINES - self._lines)]
            self._waiting = []
        if lines:
            text = "\n".join(map(_clean, lines))
            JobLog.objects.create(job=self._work.job, first=self._lines + 1, text=text)
            self._lines += len(lines)
        # Steps are counted when they begin: the last one is done at the end.
        self._work.note(lines=self._lines, done=max(0, self.step - 1), total=self.steps or None)


def _clean(line: str) -> str:
    """Of a line that was redrawn its last state; no NUL, which no database keeps; no tokens."""
    shown = line.rstrip("\r").rpartition("\r")[2][:_LONGEST_LINE]
    masked = mask_tokens([shown.encode(errors="replace")])[0]
    return masked.decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
