"""make image: which Docker commands it becomes, by what Docker there can do."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.terminal import ROOT

BOTH = "linux/amd64, linux/386, linux/arm64"
# What stands in for docker: it writes down what it was told to build or push.
DOCKER = """\
#!/bin/sh
case $* in
"buildx version") exit {has_buildx} ;;
"buildx inspect --bootstrap") printf 'Name: default\\nDriver: {driver}\\n\\nPlatforms: {platforms}\\n'; exit {has_buildx} ;;
info*) echo '[[{store}]]' ;;
*) echo "docker $*" >>{folder}/calls ;;
esac
"""


def _make(
    folder: Path, *, driver: str = "", platforms: str = BOTH, store: str = "", **variables: str
) -> tuple[list[str], str]:
    """What Docker is told to do, and what the person is told; a driver: where buildx is."""
    program = folder / "docker"
    program.write_text(
        DOCKER.format(
            has_buildx=0 if driver else 1,
            driver=driver,
            platforms=platforms,
            store=store,
            folder=folder,
        )  # fmt: skip
    )
    program.chmod(0o755)
    (folder / "calls").unlink(missing_ok=True)
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    for name in ("TAG", "BASE", "PLATFORMS", "PUSH", "BUILD_NETWORK", "EXTRA_CA"):
        env.pop(name, None)
    done = subprocess.run(
        ["sh", "inferdash/compose/image.sh"],
        cwd=ROOT,
        env=env | variables,
        check=True,
        capture_output=True,
        text=True,
    )
    return (folder / "calls").read_text().splitlines(), done.stderr


def test_a_release_is_pushed_for_both_processors(tmp_path: Path) -> None:
    [push], _said = _make(
        tmp_path, driver="docker-container", BASE="my/base:1", TAG="a/b:1", PUSH="1"
    )

    assert "buildx build --platform linux/amd64,linux/arm64" in push
    assert "--tag a/b:1 --build-arg BASE=my/base:1" in push
    assert push.endswith("--push .")


@pytest.mark.parametrize(
    ("driver", "store"),
    [("docker-container", ""), ("docker", "driver-type io.containerd.snapshotter.v1")],
)
def test_a_builder_for_both_makes_a_file_and_the_image_of_this_machine(
    tmp_path: Path, driver: str, store: str
) -> None:
    [both, own], said = _make(tmp_path, driver=driver, store=store)

    assert "--platform linux/amd64,linux/arm64" in both
    assert "type=oci,dest=dist/inferdash-image.tar" in both
    assert own == "docker build --tag inferdash:latest ."
    assert "built inferdash:latest" in said


@pytest.mark.parametrize(
    ("driver", "platforms"),
    [("", ""), ("docker", BOTH), ("docker-container", "linux/amd64, linux/386")],
)
def test_elsewhere_it_is_for_this_machine_and_says_so(
    tmp_path: Path, driver: str, platforms: str
) -> None:
    calls, said = _make(tmp_path, driver=driver, platforms=platforms)

    assert calls == ["docker build --tag inferdash:latest ."]
    assert f"alone, {os.uname().machine}" in said
