"""What the tests of images do over and over."""

from servers.host.docker.containers import DockerContainers
from servers.lifecycle.images import work
from servers.models import Box, ImageJob
from tests import jobs, shelves
from tests.registry import Registry, registry


def done(job: ImageJob | None) -> ImageJob:
    """After the watcher has done it."""
    assert job is not None
    jobs.obey(job.box)
    job.refresh_from_db()
    return job


def look(box: Box, docker: DockerContainers) -> None:
    work.find_prunable(box, docker, with_sizes=True)
    shelves.shelf(box)


def newer(store: Registry, docker: DockerContainers) -> str:
    """Another image under the same tag; the layers of the one before are gone."""
    with registry(docker.facts().architecture, layers=2) as made:
        store.blobs, store.manifest = made.blobs, made.manifest
    return store.image
