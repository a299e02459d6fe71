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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from inferdash.up import pip

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
    except (InstallError, pip.PipError) as error:
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
    wanted = _fingerprint(ROOT / "requirements.txt")
    wanted_dev = _fingerprint(ROOT / "requirements-dev.txt")
    stamp, dev_stamp = VENV / "requirements.stamp", VENV / "requirements-dev.stamp"
    done = _text(dev_stamp) == wanted_dev if dev else _text(stamp) == wanted
    if done and is_new_enough(PYTHON):
        return
    if not is_new_enough(PYTHON):
        _say("making .venv")
        pip.make_venv(VENV)
    requirements = "requirements-dev.txt" if dev else "requirements.txt"
    _say(f"installing the packages of {requirements} into .venv (once, about a minute)")
    pip.install(VENV, ROOT / requirements)
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
    wanted = _fingerprint(ROOT / "package.json", ROOT / "package-lock.json")
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
        pip.install(VENV, NODE_REQUIREMENTS)
    return [str(bundled)]


def _major_version(program: str) -> int:
    result = subprocess.run(
        [program, "--version"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    major = result.stdout.strip().split(".")[0]
    return int(major) if major.isdecimal() else 0


def _fingerprint(*files: Path) -> str:
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


if __name__ == "__main__":
    sys.exit(main())
