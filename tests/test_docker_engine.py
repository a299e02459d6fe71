import io
import os
import signal
import tarfile
from contextlib import closing
from pathlib import Path

import pytest
from docker import APIClient

from servers.host.docker.containers import DockerContainers
from tests.docker_engine import PrivateDockerEngine, lease

pytestmark = pytest.mark.docker


@pytest.fixture
def engine(short_path: Path) -> PrivateDockerEngine:
    return PrivateDockerEngine(folder=short_path / "engine")


def test_the_last_one_to_leave_ends_it(engine: PrivateDockerEngine) -> None:
    with lease(engine) as host:
        with lease(engine) as same:
            assert same == host
        assert engine.answers()

    assert not engine.answers()


def test_one_that_was_started_by_hand_stays(engine: PrivateDockerEngine) -> None:
    engine.folder.mkdir()
    (engine.folder / "kept").write_text(str(os.getpid()))
    try:
        with lease(engine):
            pass
        assert engine.answers()
    finally:
        engine.down()


def test_it_uses_nothing_of_the_system_s(engine: PrivateDockerEngine) -> None:
    with lease(engine) as host, closing(DockerContainers("x", host)) as docker:
        assert docker.facts().root == str(engine.folder / "data")
        assert (engine.folder / "containerd.sock").is_socket()


def test_what_a_killed_session_left_is_gone_when_it_comes_up(engine: PrivateDockerEngine) -> None:
    nothing = io.BytesIO()
    tarfile.open(fileobj=nothing, mode="w").close()
    with lease(engine) as host, closing(APIClient(host, version="auto")) as client:
        client.import_image_from_data(nothing.getvalue(), repository="nothing")
        client.create_volume("left")
        left = client.create_host_config(
            binds=["left:/left"], restart_policy={"Name": "unless-stopped"}
        )
        client.create_container("nothing", "left", host_config=left)
        os.kill(int((engine.folder / "dockerd.started").read_text()), signal.SIGKILL)

        engine.up()

        assert client.containers(all=True) == []
        assert not client.volumes()["Volumes"]


def test_it_comes_up_again_after_a_crash(engine: PrivateDockerEngine) -> None:
    with lease(engine):
        for program in ("dockerd", "containerd"):
            pid = int((engine.folder / f"{program}.started").read_text())
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        assert not engine.answers()

        engine.up()

        assert engine.answers()
    # Else pytest could not remove the folder.
    assert str(engine.folder) not in Path("/proc/mounts").read_text()
