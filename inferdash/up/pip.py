"""A virtual environment, filled by uv where it is installed, else by pip."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


class PipError(Exception):
    """Which packages could not be installed, and what to do about it."""


_NO_PIP = (
    "this machine's Python comes without pip, and none could be had from the distribution. "
    "Say `sudo apt install python3-venv` (or install uv), then make up again."
)


def make_venv(folder: Path) -> None:
    """Make a fresh environment in the folder, of the Python that runs this."""
    if folder.exists():
        shutil.rmtree(folder)
    if _has_uv():
        run(["uv", "venv", "--quiet", "--python", sys.executable, str(folder)])
        return
    # Never with pip at once: Debian keeps what that needs in a package of its own.
    run([sys.executable, "-m", "venv", "--without-pip", str(folder)])


def install(venv: Path, requirements: Path) -> None:
    """Install a compiled requirements file, every package checked against its hash."""
    python = venv / "bin/python"
    offline = _offline()
    if _has_uv():
        arguments = ["uv", "pip", "install", "--quiet", "--python", str(python)]
        try:
            run([*arguments, *offline, "--require-hashes", "-r", str(requirements)])
        except PipError as error:
            # uv does not read pip's configuration, where a mirror may be named.
            print(f"inferdash: {error}\ninferdash: trying pip instead", file=sys.stderr)
        else:
            return
    if not _has_pip(python):
        add_pip(python)
    arguments = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*arguments, "--no-input", *offline, "--require-hashes", "-r", str(requirements)])


def wheels() -> Path | None:
    """A folder with all that the lock files name, as a bundle has it; None: ask the registries."""
    named = os.environ.get("INFERDASH_WHEELS")
    folder = Path(named) if named else ROOT / "wheels"
    return folder if folder.is_dir() else None


def _offline() -> list[str]:
    folder = wheels()
    return ["--no-index", "--find-links", str(folder)] if folder else []


def add_pip(venv_python: Path) -> None:
    """Raises PipError where this machine has none, and cannot get one."""
    python = str(venv_python)
    if (folder := wheels()) and (bundled := sorted(folder.glob("pip-*.whl"))):
        _install_pip(python, bundled[-1])
        return
    if _try([python, "-m", "ensurepip"]):
        return
    for pip in (["pip"], ["pip3"], ["python3", "-m", "pip"]):
        # An older pip does not know --python, and fails.
        if _try([*pip, "--python", python, "install", "--quiet", "pip"]):
            return
    with tempfile.TemporaryDirectory(prefix="inferdash-pip-") as scratch:
        wheel = _system_wheel(Path("/")) or _downloaded_wheel(Path(scratch))
        if wheel is None:
            raise PipError(_NO_PIP)
        _install_pip(python, wheel)


def _install_pip(python: str, wheel: Path) -> None:
    # A wheel is a zip file, which Python can run from: pip installs itself.
    run([python, f"{wheel}/pip", "install", "--quiet", "--no-index", "--no-deps", str(wheel)])


def _system_wheel(root: Path) -> Path | None:
    wheels = sorted((root / "usr/share/python-wheels").glob("pip-*.whl"))
    return wheels[-1] if wheels else None


def _downloaded_wheel(scratch: Path) -> Path | None:
    """pip's wheel out of the distribution's package, which nobody needs to be root to unpack."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        return None
    download = ["apt-get", "download", "-q", "python3-pip-whl"]
    if not _try(download, folder=scratch):
        # The package lists are root's, and a fresh machine has none: keep our own.
        lists = scratch / "lists"
        (lists / "partial").mkdir(parents=True)
        own = ["-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Cache={scratch}"]
        own += ["-o", "APT::Sandbox::User="] if os.geteuid() == 0 else []
        if not _try(["apt-get", *own, "-q", "update"], folder=scratch):
            return None
        if not _try([download[0], *own, *download[1:]], folder=scratch):
            return None
    for package in scratch.glob("python3-pip-whl_*.deb"):
        run(["dpkg-deb", "-x", str(package), str(scratch / "unpacked")])
    return _system_wheel(scratch / "unpacked")


def _has_uv() -> bool:
    # Being on PATH is not enough: a version manager leaves a stand-in that only complains.
    return _try(["uv", "--version"])


def _has_pip(python: Path) -> bool:
    return _try([str(python), "-m", "pip", "--version"])


def _try(command: list[str], folder: Path | None = None) -> bool:
    try:
        result = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return result.returncode == 0


def run(command: list[str]) -> None:
    result = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if result.returncode:
        raise PipError(
            f"`{' '.join(command)}` failed with exit code {result.returncode}; it said:\n"
            f"{result.stdout.strip()}"
        )
