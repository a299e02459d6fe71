"""Releases that the hub has brought a box to: each in a folder of its own in the data folder."""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from inferdash.service import release
from inferdash.service.layout import ServiceError
from inferdash.up.install import fingerprint
from inferdash.wire import trial
from inferdash.wire.trial import PlacedRelease, ReleaseState
from servers.host.links.files import WireFiles

STATE = "state.json"
TRIAL = Path(trial.__file__).resolve()
_ROOM = 4  # times a bundle's size: it, what is in it, and packages
_LAST_LINES = 8


class ReleaseError(Exception):
    """Why a release was not installed, and what to do about it."""


def find_state(files: WireFiles) -> Path:
    return files.releases / STATE


def find_start(files: WireFiles, root: Path) -> list[str]:
    """The command that starts what the hub has brought this box to; [] where this folder counts.

    It counts where the hub has brought up nothing, or where it has other contents since.
    """
    path = find_state(files)
    state = ReleaseState.read(path)
    if state is None or trial.VARIABLE in os.environ:
        return []
    if state.base.root != str(root) or state.base_name != name_release(root):
        shutil.rmtree(files.releases, ignore_errors=True)
        return []
    return make_launch(path)


def make_launch(path: Path) -> list[str]:
    return [sys.executable, "-I", str(TRIAL), str(path)]


def name_release(root: Path) -> str:
    """Raises ReleaseError where it is no folder of inferdash."""
    try:
        return release.name(root)
    except (OSError, KeyError) as error:
        raise ReleaseError(f"{root} is no whole folder of inferdash: {error}.") from error


def find_hindrance(files: WireFiles, root: Path, *, may: bool) -> str:
    """Why the hub cannot bring this inferdash up, for its admin; "" where it can."""
    if not may:
        return "This box does not let its hub bring it up (INFERDASH_BRING_UP=off)."
    if Path("/.dockerenv").exists() and not os.access(root, os.W_OK):
        return "It runs in a container there: bring that to the hub's version, and start it anew."
    if not (root / "manage.py").is_file() or not (root / "requirements.txt").is_file():
        return "It was installed as a package there: bring that to the hub's version."
    return ""


def describe_here(root: Path) -> dict[str, str]:
    """What the hub packs by."""
    return {
        "machine": os.uname().machine,
        "python": ".".join(map(str, sys.version_info[:2])),
        "requirements": fingerprint(root / "requirements.txt"),
    }


def unpack(bundle: Path, name: str, files: WireFiles, *, root: Path) -> PlacedRelease:
    """A release of its own beside this one, with its packages; nothing runs of it yet. Raises ReleaseError."""
    target = files.releases / name
    if target == root:
        raise ReleaseError("It runs here already.")
    if shutil.disk_usage(files.data).free < _ROOM * bundle.stat().st_size:
        size = _ROOM * bundle.stat().st_size / 2**20
        raise ReleaseError(f"The disk of {files.data} is full: {size:.0f} MiB are needed.")
    shutil.rmtree(target, ignore_errors=True)
    try:
        with tarfile.open(bundle) as archive:
            archive.extractall(files.releases, filter="data")
    except (OSError, tarfile.TarError) as error:
        raise ReleaseError(f"The bundle cannot be unpacked: {error}.") from error
    try:
        release.reuse(root, target)
    except ServiceError as error:
        raise ReleaseError(str(error)) from error
    install = ["sh", "inferdash/up/up.sh", "--only"]
    without = ("INFERDASH_PROGRAM", "INFERDASH_WHEELS", "PYTHONPATH")
    environment = {name: text for name, text in os.environ.items() if name not in without}
    _run(install, target, environment, "Its packages could not be installed")
    python = target / ".venv/bin/python"
    _run([str(python), "-c", "import django, inferdash.settings"], target, environment,
         "It cannot run here")  # fmt: skip
    return PlacedRelease(root=str(target), python=str(python))


def _run(command: list[str], folder: Path, environment: dict[str, str], what: str) -> None:
    done = subprocess.run(
        command, cwd=folder, env=environment, text=True, check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    if done.returncode:
        said = "\n".join(done.stdout.strip().splitlines()[-_LAST_LINES:])
        raise ReleaseError(f"{what}:\n{said}")


def begin_trial(
    new: PlacedRelease, files: WireFiles, *, root: Path, upgrade: int, within: float
) -> None:
    """From the next start on; the release that runs now is what comes back."""
    path = find_state(files)
    here = PlacedRelease(root=str(root), python=sys.executable)
    state = ReleaseState.read(path)
    if state is None:
        state = ReleaseState(base=here, base_name=name_release(root), current=here)
    state.change(current=here, trial=new, upgrade=upgrade, within=within, failed="").write(path)


def confirm(files: WireFiles) -> None:
    """What is tried is well: it stays, and releases older than the one before go."""
    path = find_state(files)
    state = ReleaseState.read(path)
    if state is None or state.trial is None:
        return
    state.change(current=state.trial, previous=state.current, trial=None).write(path)
    kept = {Path(state.trial.root).name, Path(state.current.root).name, STATE}
    for each in files.releases.iterdir():
        if each.name not in kept:
            shutil.rmtree(each) if each.is_dir() else each.unlink()


def forget_failure(files: WireFiles) -> None:
    path = find_state(files)
    if (state := ReleaseState.read(path)) is not None:
        state.change(failed="").write(path)
