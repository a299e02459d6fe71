from pathlib import Path

import pytest

from tests.images import ImageError, mirror

DEBIAN = """\
# Written by the installer
Types: deb
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
"""
UBUNTU = """\
deb [signed-by=/usr/share/keyrings/tools.gpg] https://tools.example/apt noble-tools main
# deb http://old.example/ubuntu noble main
deb http://mirror.example/ubuntu/ noble main universe
deb http://mirror.example/ubuntu/ noble-updates main
"""


@pytest.fixture(autouse=True)
def no_mirror_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEBIAN_MIRROR", raising=False)


def test_packages_come_from_where_this_machine_gets_them(tmp_path: Path) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d/debian.sources").write_text(DEBIAN)
    (tmp_path / "sources.list").write_text(UBUNTU)

    assert mirror("bookworm", tmp_path) == "http://mirror.example/debian"
    assert mirror("noble", tmp_path) == "http://mirror.example/ubuntu/"
    # Another release of Debian, from the same place.
    assert mirror("trixie", tmp_path) == "http://mirror.example/debian"


def test_a_mirror_that_cannot_be_known_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "sources.list").write_text(UBUNTU)

    with pytest.raises(ImageError, match="DEBIAN_MIRROR"):
        mirror("trixie", tmp_path)


def test_a_mirror_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEBIAN_MIRROR", "http://near.example/debian")

    assert mirror("trixie", tmp_path) == "http://near.example/debian"
