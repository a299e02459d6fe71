"""`make bundle`: one archive that installs without internet, for each architecture.

It holds what inferdash is made of, the packages of the lock files as wheels, the front end, and,
where they are named, images of Docker's.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from inferdash.service import release
from inferdash.service.layout import ServiceError, say
from inferdash.up import install

ROOT = release.ROOT
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# Of Ubuntu 24.04, Debian 13 and what follows them.
INSTALL = Path(__file__).with_name("templates") / "install.sh"
PYTHONS = ("3.12", "3.13", "3.14")
# The newest glibc that a wheel may ask for is the one of Ubuntu 24.04.
_GLIBC = (5, 12, *range(17, 40))


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bundle", description=__doc__)
    here = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    parser.add_argument("--arch", nargs="+", default=[here], choices=sorted(ARCHITECTURES))
    parser.add_argument("--images", nargs="+", default=[], metavar="IMAGE", help="that Docker has")
    parser.add_argument("--python", nargs="+", default=PYTHONS, metavar="3.N")
    parser.add_argument("--no-wheels", action="store_true", help="for who has the packages")
    parser.add_argument("--to", type=Path, default=ROOT / "dist", metavar="FOLDER")
    options = parser.parse_args()
    os.chdir(ROOT)
    try:
        install.install_python_packages(dev=False)
        install.install_front_end(dev=False)
        for architecture in options.arch:
            pythons = [] if options.no_wheels else options.python
            path = make(options.to, architecture, pythons, options.images)
            say(f"{path}: {path.stat().st_size / 2**20:.0f} MiB")
    except (ServiceError, install.InstallError, install.PipError) as error:
        print(f"inferdash: {error}", file=sys.stderr)
        return 1
    return 0


def make(folder: Path, architecture: str, pythons: list[str], images: list[str]) -> Path:
    """Raises ServiceError, PipError."""
    _check_images(architecture, images)
    name = f"inferdash-{release.name()}-{architecture}"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="inferdash-bundle-") as scratch:
        top = Path(scratch) / name
        release.copy(ROOT, top)
        _copy_front_end(top / "node_modules")
        if pythons:
            download(top / "wheels", architecture, pythons)
        _save_images(top / "images", images)
        script = top / "install.sh"
        script.write_text(INSTALL.read_text())
        script.chmod(0o755)
        draft = folder / f".{name}.tar.gz"
        with tarfile.open(draft, "w:gz", compresslevel=6) as archive:
            archive.add(top, arcname=name, filter=_anybodys)
    path = folder / f"{name}.tar.gz"
    draft.replace(path)
    return path


def _anybodys(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def download(folder: Path, architecture: str, pythons: list[str]) -> None:
    """The wheels of the lock files for that machine, whichever this one is. Raises PipError."""
    with tempfile.TemporaryDirectory(prefix="inferdash-pip-") as scratch:
        venv = Path(scratch) / "venv"
        install.make_venv(venv)
        install.add_pip(venv / "bin/python")
        command = [str(venv / "bin/python"), "-m", "pip", "download", "--quiet"]
        command += ["--disable-pip-version-check", "--no-input", "--dest", str(folder)]
        install.run([*command, "--no-deps", "pip"])
        tags = [f"manylinux_2_{minor}_{architecture}" for minor in reversed(_GLIBC)]
        tags += [
            f"{old}_{architecture}" for old in ("manylinux2014", "manylinux2010", "manylinux1")
        ]
        platforms = [f"--platform={tag}" for tag in (*tags, f"linux_{architecture}")]
        for version in pythons:
            say(f"downloading the packages for {architecture} and Python {version}")
            chosen = [f"--python-version={version}", "--implementation=cp", *platforms]
            words = ["--only-binary=:all:", "--no-deps", "--require-hashes"]
            install.run([*command, *words, *chosen, "-r", str(ROOT / "requirements.txt")])


def _copy_front_end(target: Path) -> None:
    """Without what only the tests need."""
    lock = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    for path, package in lock.items():
        if path and not package.get("dev") and (ROOT / path).is_dir():
            shutil.copytree(ROOT / path, target.parent / path, dirs_exist_ok=True)
    stamp = (ROOT / "node_modules/inferdash.stamp").read_text().split()[0]
    (target / "inferdash.stamp").write_text(stamp)


def _check_images(architecture: str, images: list[str]) -> None:
    """Before minutes of downloads. Raises ServiceError."""
    for image in images:
        found = _docker("image", "inspect", "--format", "{{.Architecture}}", image).strip()
        if found != ARCHITECTURES[architecture]:
            raise ServiceError(f"{image} is for {found}, and the bundle for {architecture}.")


def _save_images(folder: Path, images: list[str]) -> None:
    for number, image in enumerate(images, start=1):
        folder.mkdir(exist_ok=True)
        say(f"saving {image}")
        _docker("image", "save", "--output", str(folder / f"{number}.tar"), image)


def _docker(*words: str) -> str:
    try:
        done = subprocess.run(["docker", *words], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise ServiceError("The docker program is missing: it saves the images.") from error
    if done.returncode:
        raise ServiceError(f"docker said: {done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
