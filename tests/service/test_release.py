"""What a release is made of, and what a bundle has of it."""

import subprocess
import tarfile
import uuid
from pathlib import Path

import pytest

from inferdash.service import bundle, release
from inferdash.service.layout import ServiceError
from inferdash.up import install

# Of the checkout alone: for who works on inferdash.
NOT_SHIPPED = {
    ".ci",
    "tests",
    "CONTRIBUTING.md",
    ".gitignore",
    ".dockerignore",
    ".python-version",
    ".github",
    "zensical.toml",
    "tsconfig.json",
}


def small(folder: Path) -> Path:
    """A checkout with one file of each sort."""
    (folder / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    for path in (
        "inferdash/a.py",
        "servers/b.py",
        "servers/__pycache__/b.pyc",
        "tests/c.py",
        ".env",
    ):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)
    return folder


def test_all_that_is_tracked_is_shipped_or_for_developers_alone() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=release.ROOT, capture_output=True, text=True, check=True
    )

    tracked = {name.partition("/")[0] for name in listed.stdout.splitlines()}

    assert tracked == set(release.PARTS) | NOT_SHIPPED


def test_neither_settings_nor_tests_nor_bytecode_is_shipped(tmp_path: Path) -> None:
    found = [str(each) for each in release.files(small(tmp_path))]

    assert found == ["pyproject.toml", "inferdash/a.py", "servers/b.py"]


def test_the_same_files_have_the_same_name_and_others_another(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    one, two = small(tmp_path / "one"), small(tmp_path / "two")
    assert release.name(one) == release.name(two)
    assert release.name(one).startswith("1.2.3-")

    (two / "servers/b.py").write_text("changed")

    assert release.name(one) != release.name(two)


def test_a_folder_of_wheels_is_all_that_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFERDASH_WHEELS", str(tmp_path))
    assert install.wheels() == tmp_path

    monkeypatch.setenv("INFERDASH_WHEELS", str(tmp_path / "gone"))
    assert install.wheels() is None


def test_nobody_learns_from_a_bundle_who_has_made_it() -> None:
    entry = tarfile.TarInfo("inferdash")
    entry.uid, entry.uname = 1000, "ada"

    made = bundle._anybodys(entry)

    assert (made.uid, made.uname) == (0, "")


@pytest.mark.docker
def test_an_image_that_docker_lacks_stops_the_bundle(
    tmp_path: Path, docker_host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", docker_host)

    # Downloading takes minutes: it is known before that.
    monkeypatch.setattr(bundle, "download", lambda *_words: pytest.fail("it was downloaded"))

    with pytest.raises(ServiceError, match="docker said"):
        bundle.make(tmp_path, "x86_64", ["3.12"], ["nobody/has-this:1"])

    assert list(tmp_path.iterdir()) == []


def test_a_box_without_docker_is_told_what_to_do_with_the_images(tmp_path: Path) -> None:
    script = tmp_path / "install.sh"
    script.write_text(bundle.INSTALL.read_text())
    (tmp_path / "images").mkdir()
    (tmp_path / "images/1.tar").touch()
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "dirname").symlink_to("/usr/bin/dirname")

    done = subprocess.run(
        ["/bin/sh", str(script)], env={"PATH": str(programs)}, capture_output=True, text=True
    )

    assert done.returncode == 1
    assert "has not loaded images/1.tar. Install or start it, then say" in done.stderr


@pytest.mark.docker
def test_images_of_a_bundle_are_loaded_before_it_installs(
    tmp_path: Path, docker_host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", docker_host)
    names = [f"inferdash-test/of-a-bundle:{number}-{uuid.uuid4().hex[:8]}" for number in (1, 2)]
    tar = tmp_path / "root.tar"
    for name in names:
        with tarfile.open(tar, "w") as archive:
            archive.addfile(tarfile.TarInfo(name.rpartition(":")[2]))
        subprocess.run(["docker", "import", str(tar), name], check=True)
    bundle._save_images(tmp_path / "images", names)
    subprocess.run(["docker", "image", "rm", *names], check=True)
    script = tmp_path / "install.sh"
    script.write_text(bundle.INSTALL.read_text())
    program = tmp_path / "inferdash/up/up.sh"
    program.parent.mkdir(parents=True)
    # Who is installed with them asks Docker, as inferdash would.
    program.write_text(f"docker image inspect --format '{{{{.Os}}}}' {' '.join(names)}\n")

    done = subprocess.run(["sh", str(script)], stdout=subprocess.PIPE, text=True, check=True)

    assert done.stdout.splitlines()[-2:] == ["linux", "linux"]
    subprocess.run(["docker", "image", "rm", *names], check=True)
