from collections.abc import Iterator
from contextlib import closing, suppress

import pytest
from docker import APIClient
from docker.errors import ImageNotFound

from servers.host.docker.containers import ContainerError, DockerContainers, PullState
from tests.registry import Registry, registry
from tests.waiting import PATIENCE

pytestmark = pytest.mark.docker


@pytest.fixture
def shelf(docker: DockerContainers) -> Iterator[Registry]:
    with registry(docker.facts().architecture) as made:
        yield made
        with closing(APIClient(docker.host, version="auto")) as client, suppress(ImageNotFound):
            client.remove_image(made.image)


def test_a_pull_counts_bytes_up_to_the_whole(docker: DockerContainers, shelf: Registry) -> None:
    told: list[PullState] = []

    def tell(progress: PullState) -> bool:
        told.append(progress)
        return True

    docker.pull(shelf.image, tell)

    whole = sum(len(blob) for blob in shelf.blobs.values() if blob[:2] == b"\x1f\x8b")
    assert told[-1] == PullState(done=whole, total=whole)
    assert [progress.done for progress in told] == sorted(progress.done for progress in told)
    image = docker.image(shelf.image)
    assert image is not None
    assert image.entrypoint == ("/weights-0",)
    assert image.labels == {"made": "by a test"}
    assert image.digests
    assert image.digests[0].startswith(f"{shelf.image.removesuffix(':1')}@sha256:")


def test_a_pull_that_is_given_up_ends_at_docker_too(
    docker: DockerContainers, shelf: Registry
) -> None:
    shelf.hold = True

    with pytest.raises(ContainerError) as caught:
        docker.pull(shelf.image, lambda progress: not progress.total)

    assert caught.value.kind == "given_up"
    assert shelf.left.wait(PATIENCE)
    assert docker.image(shelf.image) is None


def test_a_tag_that_is_not_there_is_told(docker: DockerContainers, shelf: Registry) -> None:
    with pytest.raises(ContainerError) as caught:
        docker.pull(shelf.image.removesuffix(":1") + ":2", lambda progress: True)

    assert caught.value.kind == "no_image"
    assert "tag" in str(caught.value)
