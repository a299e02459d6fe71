"""make image: which Docker command it becomes, by what Docker there can do."""

import os
import subprocess
from pathlib import Path

from tests.terminal import ROOT


def _make(folder: Path, *, has_buildx: bool, **variables: str) -> str:
    """What Docker is told to do."""
    program = folder / "docker"
    buildx = "exit 0" if has_buildx else "exit 1"
    program.write_text(
        f'#!/bin/sh\n[ "$1 $2" = "buildx version" ] && {buildx}\necho "docker $*" >>{folder}/calls\n'
    )
    program.chmod(0o755)
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", **variables}
    for name in ("TAG", "BASE", "PLATFORMS", "PUSH", "BUILD_NETWORK", "EXTRA_CA"):
        env.setdefault(name, "")
    subprocess.run(["sh", "inferdash/compose/image.sh"], cwd=ROOT, env=env, check=True)
    return (folder / "calls").read_text().strip()


def test_with_buildx_it_is_for_both_processors(tmp_path: Path) -> None:
    said = _make(tmp_path, has_buildx=True, BASE="my/base:1", TAG="a/b:1", PUSH="1")

    assert "buildx build --platform linux/amd64,linux/arm64" in said
    assert "--tag a/b:1 --build-arg BASE=my/base:1" in said
    assert said.endswith("--push .")


def test_without_buildx_it_is_for_this_machine(tmp_path: Path) -> None:
    said = _make(tmp_path, has_buildx=False)

    assert said.startswith("docker build --tag inferdash:latest")
    assert "--platform" not in said
