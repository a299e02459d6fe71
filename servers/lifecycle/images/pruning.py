"""Images that nobody needs, removed; what freed how much is measured, not added up."""

from servers.host.docker.containers import ContainerError, DockerContainers
from servers.judge.sizes import gib
from servers.lifecycle.images import inventory
from servers.lifecycle.images.work import ImageJobError, ImageWork
from servers.lifecycle.runs import creation
from servers.models import Box


def look(box: Box, docker: DockerContainers, *, with_sizes: bool) -> bool:
    """Bring the rows up to date; whether anything is new. Raises ContainerError."""
    disk = docker.disk_of_images() if with_sizes else None
    return inventory.keep(box, docker.images(), docker.uses(), disk, docker.image)


def prune(work: ImageWork) -> str:
    """Remove those of the named images that nobody needs, as Docker says now.

    Raises RefusedError and ContainerError.
    """
    docker, job = creation.docker(), work.job
    look(work.box, docker, with_sizes=False)
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
    look(work.box, docker, with_sizes=True)
    if not gone and stayed and not work.is_given_up:
        raise ImageJobError(" ".join(stayed))
    said = f"Removed {gone} image{'' if gone == 1 else 's'}; {gib(freed)} are free again."
    return " ".join([said, *stayed])
