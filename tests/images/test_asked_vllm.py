"""vLLM's own image is asked for its version and its flags, in a container without anything."""

import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from docker import APIClient

from servers.host.docker.containers import DockerContainers
from servers.launch.engines.flaglist import load_shipped
from servers.models import Box, ImageFacts
from servers.watcher.images import ImageInspector
from tests import factories
from tests.vllm import build, image

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("own_redis"),
]


# Where vLLM finds what it was built for: in its version. A build for GPUs has no "+cpu".
PACKAGE = "/opt/vllm/lib/python3.11/site-packages/vllm-0.32.0"
FOR_GPUS = f"mv {PACKAGE}+cpu.dist-info {PACKAGE}.dist-info && sed -i s/+cpu// {PACKAGE}.*/METADATA"


def asked(box: Box, image: str) -> tuple[ImageFacts, float]:
    factories.server(box, "coder", "gpt-oss-120b", image=image)
    began = time.monotonic()
    ImageInspector(box).look(sample=None)
    return ImageFacts.objects.get(), time.monotonic() - began


@pytest.fixture
def for_gpus(asking: DockerContainers) -> Iterator[str]:
    """vLLM as the builds for GPUs are, where no GPU is given to them."""
    image.provide(asking.host)
    with closing(APIClient(asking.host, version="auto")) as client:
        made = client.create_container(build.TAG, entrypoint=["sh", "-c", FOR_GPUS])
        client.start(made["Id"])
        assert client.wait(made["Id"])["StatusCode"] == 0
        changes = ['ENTRYPOINT ["vllm", "serve"]']
        client.commit(made["Id"], "inferdash-test/vllm", "for-gpus", changes=changes)
        client.remove_container(made["Id"])
        yield "inferdash-test/vllm:for-gpus"
        client.remove_image("inferdash-test/vllm:for-gpus")


@pytest.mark.takes(90)
def test_vllm_itself_is_asked_for_its_version_and_its_flags(
    asking: DockerContainers, capsys: pytest.CaptureFixture[str]
) -> None:
    image.provide(asking.host)

    known, took = asked(factories.box(), build.TAG)

    assert known.error == ""
    assert known.version == "0.32.0+cpu"
    flags, release = known.flaglist, load_shipped("vllm", "0.32.0")
    assert flags is not None
    assert release is not None
    assert {flag.name for flag in flags.flags} == {flag.name for flag in release.flags}
    assert known.count == len(flags.flags) > 250
    length = flags.find("--max-model-len")
    assert length is not None
    assert (length.takes, length.type) == ("one", "size|auto")
    quiet = flags.find("--disable-access-log-for-endpoints")
    assert quiet is not None
    assert quiet.takes == "one"
    assert "comma-separated" in quiet.help.casefold()
    assert "VLLM_LOGGING_LEVEL" in (flags.env or ())
    assert asking.list_ours() == []
    with capsys.disabled():
        print(f"\nvLLM: {known.count} flags of {known.version} in {took:.1f} s")


@pytest.mark.takes(90)
def test_a_build_for_gpus_is_asked_without_one(
    asking: DockerContainers, for_gpus: str, capsys: pytest.CaptureFixture[str]
) -> None:
    known, took = asked(factories.box(), for_gpus)

    assert known.error == ""
    assert known.version == "0.32.0"
    assert known.flaglist is not None
    assert known.count > 250
    with capsys.disabled():
        print(f"\nvLLM for GPUs, without one: {known.count} flags in {took:.1f} s")
