from pathlib import Path, PurePosixPath

import pytest

from servers.host import paths


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
