"""The installation of .venv and node_modules by the lock files, before `make up`.

It runs before anything is installed, so it imports the standard library only.
"""

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin/python"
NODE_MODULES = ROOT / "node_modules"
NODE_REQUIREMENTS = Path(__file__).with_name("node-requirements.txt")


class InstallError(Exception):
    """What could not be installed, and what to do about it."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make up", description=__doc__)
    parser.add_argument(
        "--dev", action="store_true", help="with what the tests need; start nothing"
    )
    parser.add_argument("--only", action="store_true", help="install, but start nothing")
    parser.add_argument(
        "--start", default="inferdash.up", metavar="PROGRAM", help="what is started then"
    )
    options = parser.parse_args()
    os.chdir(ROOT)
    try:
        with _alone():
            install_python_packages(dev=options.dev)
            install_front_end(dev=options.dev)
    except (InstallError, PipError) as error:
        print(f"inferdash: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("inferdash: stopped while installing; make up goes on from here", file=sys.stderr)
        return 130
    if not (options.dev or options.only):
        os.execv(PYTHON, [str(PYTHON), "-m", options.start])  # noqa: S606 - no shell wanted
    return 0


@contextmanager
def _alone() -> Iterator[None]:
    """Two installations into one folder, as of make up beside make test, wait for each other."""
    with (ROOT / "requirements.txt").open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("waiting for another installation into this folder")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def install_python_packages(*, dev: bool) -> None:
    wanted = fingerprint(ROOT / "requirements.txt")
    wanted_dev = fingerprint(ROOT / "requirements-dev.txt")
    stamp, dev_stamp = VENV / "requirements.stamp", VENV / "requirements-dev.stamp"
    done = _text(dev_stamp) == wanted_dev if dev else _text(stamp) == wanted
    if done and is_new_enough(PYTHON):
        return
    if not is_new_enough(PYTHON):
        _say("making .venv")
        make_venv(VENV)
    requirements = "requirements-dev.txt" if dev else "requirements.txt"
    _say(f"installing the packages of {requirements} into .venv (once, about a minute)")
    install_requirements(VENV, ROOT / requirements)
    # The development set contains the other one, at the same versions.
    stamp.write_text(wanted)
    if dev:
        dev_stamp.write_text(wanted_dev)


def is_new_enough(python: Path) -> bool:
    """False also where there is none, or its system's Python went away in an upgrade."""
    if not python.exists():
        return False
    check = "import sys; sys.exit(sys.version_info < (3, 12))"
    return subprocess.run([python, "-I", "-S", "-c", check], check=False).returncode == 0


def install_front_end(*, dev: bool) -> None:
    wanted = fingerprint(ROOT / "package.json", ROOT / "package-lock.json")
    stamp = NODE_MODULES / "inferdash.stamp"
    have = _text(stamp)
    # What the tests add to the front end does the pages no harm: it may stay.
    if have == f"{wanted} dev" or (have == wanted and not dev):
        return
    command = [*_npm(), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    if not dev:
        command.append("--omit=dev")
    _say("installing the front end's packages into node_modules")
    result = subprocess.run(
        command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if result.returncode:
        raise InstallError(
            f"npm could not install the front end's packages (exit code {result.returncode}); "
            f"it said:\n{result.stdout.strip()}\n"
            "Check that npm reaches its registry (npm ping), then say make up again."
        )
    stamp.write_text(f"{wanted} dev" if dev else wanted)


def environment() -> dict[str, str]:
    """For a program of Node.js: it may be the one in .venv that runs it."""
    return os.environ | {"PATH": f"{VENV / 'bin'}:{os.environ.get('PATH', '')}"}


def _npm() -> list[str]:
    """The machine's npm, or the one that a Python package brings along."""
    found = shutil.which("npm")
    if found and _major_version(found) >= 7:  # older ones cannot read our lock file
        return [found]
    bundled = VENV / "bin/npm"
    if not bundled.exists():
        _say("no npm here: installing Node.js into .venv (once)")
        install_requirements(VENV, NODE_REQUIREMENTS)
    return [str(bundled)]


def _major_version(program: str) -> int:
    result = subprocess.run(
        [program, "--version"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    major = result.stdout.strip().split(".")[0]
    return int(major) if major.isdecimal() else 0


def fingerprint(*files: Path) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _text(file: Path) -> str | None:
    try:
        return file.read_text()
    except FileNotFoundError:
        return None


def _say(sentence: str) -> None:
    print(f"inferdash: {sentence}", flush=True)


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


def install_requirements(venv: Path, requirements: Path) -> None:
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


if __name__ == "__main__":
    sys.exit(main())
