import subprocess
import sys
import tempfile
from pathlib import Path, PurePosixPath

import pytest

from servers.host.files import paths


def test_an_absolute_link_leads_below_the_root(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "models").symlink_to("/data")

    assert paths.resolve("/models/qwen", root=tmp_path) == PurePosixPath("/data/qwen")


def test_dots_never_lead_above_the_root(tmp_path: Path) -> None:
    assert paths.resolve("/../../etc", root=tmp_path) == PurePosixPath("/etc")


def test_a_relative_link_is_followed_from_its_own_folder(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "link").symlink_to("../c")

    assert paths.resolve("/a/link/d", root=tmp_path) == PurePosixPath("/c/d")


def test_a_loop_of_links_is_told(tmp_path: Path) -> None:
    (tmp_path / "x").symlink_to("y")
    (tmp_path / "y").symlink_to("x")

    with pytest.raises(paths.PathError, match="loop"):
        paths.resolve("/x", root=tmp_path)
    assert paths.exists("/x", root=tmp_path) is False


def test_what_is_missing_does_not_exist(tmp_path: Path) -> None:
    (tmp_path / "there").touch()

    assert paths.exists("/there", root=tmp_path) is True
    assert paths.exists("/gone", root=tmp_path) is False


def test_two_slashes_in_front_are_one(tmp_path: Path) -> None:
    (tmp_path / "models").symlink_to("//data")

    assert paths.resolve("//models/x", root=tmp_path) == PurePosixPath("/data/x")


def test_a_link_in_a_folder_that_is_closed_to_us_is_not_taken_for_a_folder() -> None:
    """Docker is root, and would follow it to /etc."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        box = Path(name)
        closed = box / "data" / "of-a-container"
        closed.mkdir(parents=True)
        (closed / "innocent").symlink_to("/etc")
        closed.chmod(0o700)
        box.chmod(0o755)

        told = as_nobody(box, "/data/of-a-container/innocent")

    assert "may not look into /data/of-a-container" in told


def as_nobody(box: Path, path: str) -> str:
    """What `resolve` says to a process that is not root; permissions are nothing to root."""
    program = (
        "import os, sys; from pathlib import Path; from servers.host.files import paths\n"
        "if os.geteuid() == 0: os.setgid(65534); os.setuid(65534)\n"
        "else: Path(sys.argv[1] + '/data/of-a-container').chmod(0)\n"
        "try: print(paths.resolve(sys.argv[2], root=Path(sys.argv[1])))\n"
        "except paths.PathError as error: print(error)\n"
        "print(paths.exists(sys.argv[2], root=Path(sys.argv[1])))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(box), path],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.endswith("None\n")
    return done.stdout
