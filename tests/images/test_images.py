from pathlib import Path

import pytest

from tests.base_images import ImageError, mirror

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


def test_an_ubuntu_that_reads_its_mirrors_from_a_file_has_none_of_debian(tmp_path: Path) -> None:
    listed = tmp_path / "apt-mirrors.txt"
    listed.write_text("http://near.example/ubuntu/\tpriority:1\nhttp://far.example/ubuntu/\n")
    uri = f"mirror+file:{listed}"
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list").write_text(f"deb {uri} jammy main\n")
    stanza = f"Types: deb\nURIs: {uri}\nSuites: noble noble-updates\nComponents: main\n"
    (tmp_path / "sources.list.d/ubuntu.sources").write_text(stanza)

    for suite in ("jammy", "noble"):
        assert mirror(suite, tmp_path) == "http://near.example/ubuntu/"
    with pytest.raises(ImageError, match="DEBIAN_MIRROR"):
        mirror("trixie", tmp_path)


def test_a_mirror_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEBIAN_MIRROR", "http://near.example/debian")

    assert mirror("trixie", tmp_path) == "http://near.example/debian"
