"""make compose-pin, with a Docker that says what it was asked."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from inferdash.compose import pin
from tests.terminal import ROOT

DIGEST = "sha256:" + 64 * "a"
# As both print it: 1.29 with services only, the plugin with more around them.
CONFIG = """\
name: inferdash
services:
  web:
    build:
      context: /srv
    image: inferdash:latest
    logging:
      options: {}
  redis:
    image: redis:8.10.0
  postgres:
    image: reg.example:5000/team/postgres:18.6
volumes:
  data: {}
"""
DOCKER = f"""\
#!/bin/sh
echo "$@" >>"$ASKED"
case "$*" in
"compose version") exit 0;;
*config) cat <<'END'
{CONFIG}END
;;
pull*away*) echo "no such host" >&2; exit 1;;
*local*) echo 'null';;
*inspect*)
    for image; do :; done
    echo "[\\"other@{DIGEST}\\",\\"${{image%:*}}@{DIGEST}\\"]";;
esac
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout, and a docker of its own on the PATH."""
    docker = tmp_path / "bin/docker"
    docker.parent.mkdir()
    docker.write_text(DOCKER)
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{docker.parent}:/usr/bin:/bin")
    monkeypatch.setenv("ASKED", str(tmp_path / "asked"))
    made = tmp_path / "checkout"
    made.mkdir()
    (made / "Dockerfile").write_text("ARG BASE=debian:trixie-20260918-slim\nFROM $BASE\n")
    monkeypatch.setattr(pin, "ROOT", made)
    return made


def test_each_image_is_written_with_the_digest_that_it_has(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pin.main() == 0

    text = (root / pin.OVERRIDE).read_text()
    assert text.splitlines()[1:] == [
        "services:",
        "  postgres:",
        f"    image: reg.example:5000/team/postgres@{DIGEST}",
        "  redis:",
        f"    image: redis@{DIGEST}",
        "  web:",
        "    build:",
        "      args:",
        f"        BASE: debian@{DIGEST}",
    ]
    assert f"redis@{DIGEST}" in capsys.readouterr().out
    asked = (root.parent / "asked").read_text()
    # What is pinned already has no tag to ask for.
    assert "compose -f docker-compose.yml config" in asked
    assert asked.count("pull") == 3
    assert pin.main() == 0
    assert (root / pin.OVERRIDE).read_text() == text


def test_a_file_of_ones_own_stays_and_is_told_what_to_add(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / pin.OVERRIDE).write_text("services: {}\n")

    assert pin.main() == 1

    said = capsys.readouterr()
    assert "is yours and stays as it is: add the lines above" in said.err
    assert f"image: redis@{DIGEST}" in said.out
    assert (root / pin.OVERRIDE).read_text() == "services: {}\n"


@pytest.mark.parametrize(
    ("image", "sentence"),
    [("away/redis:1", "docker pull --quiet away/redis:1 failed: no such host"),
     ("local:1", "Docker knows no digest of local:1: it comes from no registry")],
)  # fmt: skip
def test_what_cannot_be_pinned_is_told_and_nothing_written(
    root: Path, capsys: pytest.CaptureFixture[str], image: str, sentence: str
) -> None:
    docker = root.parent / "bin/docker"
    docker.write_text(docker.read_text().replace("redis:8.10.0", image))

    assert pin.main() == 1

    assert sentence in capsys.readouterr().err
    assert not (root / pin.OVERRIDE).exists()


def test_images_have_exact_versions_and_the_repository_pins_no_digest() -> None:
    compose = (ROOT / "docker-compose.yml").read_text()
    defaults = re.findall(r"\$\{\w+_IMAGE:-([^}]+)\}", compose)
    defaults += re.findall(r"^ARG BASE=(\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert len(defaults) == 3
    assert all(re.search(r":\S*\d+\.\d+|-\d{8}-", each) for each in defaults), defaults
    ignored = subprocess.run(["git", "check-ignore", "-q", pin.OVERRIDE], cwd=ROOT, check=False)
    assert ignored.returncode == 0


def test_it_needs_nothing_that_is_installed() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(ROOT / "inferdash/compose/pin.py")],
        cwd="/",
        env=os.environ | {"PATH": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr == "inferdash: Docker is not installed here.\n"
