from collections.abc import Iterator
from contextlib import closing, suppress

import pytest
from docker import APIClient
from docker.errors import ImageNotFound

from servers.host.docker.containers import ContainerError, DockerContainers
from servers.host.images.images import PullProgress, PullState
from tests.registry import Registry, pull, registry

pytestmark = pytest.mark.docker


@pytest.fixture
def shelf(docker: DockerContainers) -> Iterator[Registry]:
    with registry(docker.facts().architecture) as made:
        yield made
        with closing(APIClient(docker.host, version="auto")) as client, suppress(ImageNotFound):
            client.remove_image(made.image)


def test_a_pull_counts_bytes_up_to_the_whole(docker: DockerContainers, shelf: Registry) -> None:
    heard = PullProgress()
    told = [heard.hear(line) for line in docker.begin_pull(shelf.image)]

    whole = sum(len(blob) for blob in shelf.blobs.values() if blob[:2] == b"\x1f\x8b")
    assert told[-1] == PullState(done=whole, total=whole)
    assert [progress.done for progress in told] == sorted(progress.done for progress in told)
    image = docker.image(shelf.image)
    assert image is not None
    assert image.entrypoint == ("/weights-0",)
    assert image.labels == {"made": "by a test"}
    assert image.digests
    assert image.digests[0].startswith(f"{shelf.image.removesuffix(':1')}@sha256:")


def test_a_tag_that_is_not_there_is_told(docker: DockerContainers, shelf: Registry) -> None:
    with pytest.raises(ContainerError) as caught:
        pull(docker, shelf.image.removesuffix(":1") + ":2")

    assert caught.value.kind == "no_image"
    assert "tag" in str(caught.value)
