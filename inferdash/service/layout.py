"""The layout of an installation: folders and the account."""

import json
import os
import pwd
from dataclasses import asdict, dataclass
from pathlib import Path

NAME = "inferdash"
CODE = Path("/opt/inferdash")
RELEASES = CODE / "releases"
CURRENT = CODE / "current"
RECORD = CODE / "installed.json"
DATA = Path("/var/lib/inferdash")
SNAPSHOTS = DATA / "snapshots"
SETTINGS = Path("/etc/inferdash")
ENV_FILE = SETTINGS / "inferdash.env"
BOX_FILE = SETTINGS / "box.toml"
UNITS = Path("/etc/systemd/system")
MANAGE = Path("/usr/local/sbin/inferdash-manage")
SOCKET = Path("/var/run/docker.sock")
TARGET = "inferdash.target"

# What a login has; pyenv's and the like live in homes that services cannot read.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class ServiceError(Exception):
    """What could not be done, and what to do about it."""


@dataclass(frozen=True, kw_only=True)
class Account:
    """Who inferdash runs as."""

    user: str
    group: str
    is_ours: bool  # made by the installer, and taken away with everything else
    docker_group: str  # "": there is no socket of Docker's yet

    @property
    def home(self) -> Path:
        return Path(pwd.getpwnam(self.user).pw_dir)


@dataclass(frozen=True, kw_only=True)
class InstallRecord:
    """What is installed; kept beside the code."""

    account: Account
    release: str
    previous: str = ""  # "": there is nothing to roll back to
    snapshot: str = ""  # of the database, as the previous release left it


def read_record() -> InstallRecord | None:
    """None where nothing is installed."""
    try:
        found = json.loads(RECORD.read_text())
    except FileNotFoundError:
        return None
    return InstallRecord(**found | {"account": Account(**found["account"])})


def record(what: InstallRecord) -> None:
    draft = RECORD.with_suffix(".draft")
    draft.write_text(json.dumps(asdict(what), indent=2) + "\n")
    draft.replace(RECORD)


def environment() -> dict[str, str]:
    """Of every program of ours. People's settings stand in ENV_FILE, which wins nothing here."""
    return {
        "DJANGO_SETTINGS_MODULE": "inferdash.settings",
        "INFERDASH_SETTINGS": str(ENV_FILE),
        "INFERDASH_DATA": str(DATA),
        "INFERDASH_BOX_FILE": str(BOX_FILE),
        "INFERDASH_MANAGE": MANAGE.name,
        "PYTHONUNBUFFERED": "1",
        # Python's threads otherwise make glibc keep an arena each: tens of MiB for nothing.
        "MALLOC_ARENA_MAX": "2",
    }


def is_root() -> bool:
    return os.geteuid() == 0


def say(sentence: str) -> None:
    print(f"inferdash: {sentence}", flush=True)
