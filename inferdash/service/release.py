"""Releases in /opt/inferdash: each a folder of its own, so that the one before can come back."""

import hashlib
import os
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

from inferdash import version
from inferdash.service import layout
from inferdash.service.layout import Account, ServiceError, as_service, run, say
from inferdash.up.install import fingerprint, is_new_enough, wheels

ROOT = Path(__file__).resolve().parent.parent.parent
# What inferdash is made of. Tests and tools stay in the checkout.
PARTS = (
    "manage.py",
    "Makefile",
    "pyproject.toml",
    "requirements.txt",
    "requirements-dev.txt",
    "package.json",
    "package-lock.json",
    "README.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "LICENSE",
    ".env.example",
    "docker-compose.yml",
    "Dockerfile",
    "docs",
    "inferdash",
    "servers",
    "static",
    "templates",
)


def files(root: Path = ROOT) -> Iterator[Path]:
    """Of the product below this checkout, relative to it."""
    for part in PARTS:
        top = root / part
        found = [top] if top.is_file() else sorted(top.rglob("*"))
        for each in found:
            if each.is_file() and "__pycache__" not in each.parts and each.suffix != ".pyc":
                yield each.relative_to(root)


def name(root: Path = ROOT) -> str:
    """The version, and what tells two states of it apart: the same files have the same name."""
    digest = hashlib.sha256()
    for each in files(root):
        digest.update(f"{each}\0".encode())
        digest.update((root / each).read_bytes())
    number = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    return f"{number}-{digest.hexdigest()[:10]}"


def stage(release: str, before: str) -> None:
    """Make its folder, with all that it needs, while the one before may run. Raises ServiceError."""
    target = layout.RELEASES / release
    # A Python that went away in an upgrade of the machine leaves a release that is not.
    if (target / "complete").exists() and is_new_enough(target / ".venv/bin/python"):
        return
    say(f"copying release {release} to {target}")
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True, mode=0o755)
    copy(ROOT, target)
    reuse(layout.RELEASES / before if before else None, target)
    copy_front_end(ROOT, target)
    _install(target)
    _compile(target)
    # Ours alone are for the service's eyes; these are for everybody's.
    run(["chmod", "-R", "u=rwX,go=rX", str(target)])
    (target / "complete").touch()


def copy(source: Path, target: Path) -> None:
    for each in files(source):
        (target / each).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source / each, target / each)
    (target / version.KEPT).write_text(f"{version.find_version(source)}\n")


def reuse(before: Path | None, target: Path) -> None:
    """The packages of the release before, where they are the same: no download, no room."""
    if before is None:
        return
    for folder, locks in (
        (".venv", ("requirements.txt",)),
        ("node_modules", ("package.json", "package-lock.json")),
    ):
        same = all((before / lock).read_bytes() == (target / lock).read_bytes() for lock in locks)
        if same and (before / folder).is_dir() and not (target / folder).exists():
            words = [str(before / folder), str(target / folder)]
            try:
                run(["cp", "-al", *words])
            except ServiceError:  # on another file system
                shutil.rmtree(target / folder, ignore_errors=True)
                run(["cp", "-a", *words])


def copy_front_end(source: Path, target: Path) -> None:
    """What this checkout has of it already, if that is what the lock file says."""
    stamp = source / "node_modules/inferdash.stamp"
    if (target / "node_modules").exists() or not stamp.exists():
        return
    locks = (source / "package.json", source / "package-lock.json")
    if stamp.read_text().split()[0] == fingerprint(*locks):
        shutil.copytree(source / "node_modules", target / "node_modules", symlinks=True)


def _install(target: Path) -> None:
    """As make up does, with a Python that services can read."""
    path = layout.PATH
    if uv := shutil.which("uv"):
        path += f":{Path(uv).parent}"
    variables = {
        "PATH": path,
        "PYENV_ROOT": "/nonexistent",
        "UV_PYTHON_INSTALL_DIR": str(layout.CODE / "python"),
        "INFERDASH_WHEELS": str(wheels() or ""),
        "INFERDASH_PROGRAM": "",
    }
    done = subprocess.run(
        ["sh", "inferdash/up/up.sh", "--only"], cwd=target, env=os.environ | variables, check=False
    )
    if done.returncode:
        raise ServiceError("The packages could not be installed; the lines above say why.")


def _compile(target: Path) -> None:
    """Services may not write here, so that what is not compiled now is compiled at every start."""
    packages = [str(target / each) for each in ("inferdash", "servers")]
    run([str(target / ".venv/bin/python"), "-m", "compileall", "-q", "-j", "0", *packages])


def check(account: Account, release: str) -> None:
    """Whether its user can run it at all. Raises ServiceError."""
    try:
        as_service(account, release, "-c", "import django, inferdash")
    except ServiceError as error:
        raise ServiceError(
            f"The user {account.user} cannot run the Python of the release. If that lies in a home "
            f"folder, install the distribution's (sudo apt install python3). {error}"
        ) from error


def switch(release: str) -> None:
    """Make it the current one, in one step."""
    draft = layout.CODE / ".current"
    draft.unlink(missing_ok=True)
    draft.symlink_to(layout.RELEASES / release)
    draft.replace(layout.CURRENT)


def forget_others(*kept: str) -> None:
    for each in layout.RELEASES.iterdir():
        if each.name not in kept:
            shutil.rmtree(each)
