"""The layout of an installation: its folders, and as whom it runs."""

import grp
import json
import os
import pwd
import subprocess
from dataclasses import asdict, dataclass, replace
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
WIRE_ACCOUNT = "inferdash-wire"
NO_HOME = "/nonexistent"

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
    part: str = ""  # hub, or box of another machine's; "": one box


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


def choose(name: str, before: Account | None) -> Account:
    """`name`: who it is to be; "": as before, else a system user. Raises ServiceError."""
    if before is not None and name in ("", before.user):
        return replace(before, docker_group=docker_group() or before.docker_group)
    if before is not None:
        raise ServiceError(
            f"inferdash runs as {before.user} here, and its data are that user's. Say "
            "make uninstall first, which keeps them; then chown -R them and install again."
        )
    if name == "root":
        raise ServiceError("inferdash does not run as root. Leave RUN_AS= out, or name a person.")
    is_ours = not name
    if is_ours:
        _make_system_user()
    try:
        found = pwd.getpwnam(name or NAME)
    except KeyError as error:
        raise ServiceError(f"There is no user {name} on this machine.") from error
    return Account(
        user=found.pw_name,
        group=grp.getgrgid(found.pw_gid).gr_name,
        is_ours=is_ours,
        docker_group=docker_group(),
    )


def docker_group() -> str:
    """The group that may use Docker, by its socket or its usual name; "": there is none."""
    try:
        gid = SOCKET.stat().st_gid
    except OSError:
        names = {each.gr_name for each in grp.getgrall()}
        return "docker" if "docker" in names else ""
    if gid == 0:
        return ""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def _make_system_user() -> None:
    try:
        pwd.getpwnam(NAME)
    except KeyError:
        words = ["--system", "--user-group", "--home-dir", str(DATA), "--no-create-home"]
        run(["useradd", *words, "--shell", "/usr/sbin/nologin", NAME])


def remove_system_user() -> None:
    """Ours, if there is one: nobody else's home is the data folder."""
    try:
        found = pwd.getpwnam(NAME)
    except KeyError:
        return
    if found.pw_dir == str(DATA):
        run(["userdel", NAME])


def remove_wire_account() -> None:
    """Ours, if there is one."""
    try:
        found = pwd.getpwnam(WIRE_ACCOUNT)
    except KeyError:
        return
    if found.pw_dir == NO_HOME:
        run(["userdel", WIRE_ACCOUNT])


LAST_LINES = 15  # of what a program said before it failed; why stands at the end


def run(command: list[str], *, shown: str = "") -> str:
    """What it printed. Raises ServiceError, which calls the command `shown`."""
    try:
        done = subprocess.run(
            command,
            env=os.environ | {"PATH": PATH},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise ServiceError(f"{command[0]} is missing on this machine.") from error
    if done.returncode:
        said = "\n".join(done.stdout.strip().splitlines()[-LAST_LINES:])
        raise ServiceError(
            f"`{shown or ' '.join(command)}` failed with exit code {done.returncode}; it said:\n{said}"
        )
    return done.stdout


def as_service(account: Account, release: str, *words: str) -> str:
    """Run a release's Python as the services would. Raises ServiceError."""
    home = RELEASES / release
    variables = [f"{name}={value}" for name, value in environment().items()]
    who = ["runuser", "-u", account.user, "-g", account.group]
    if account.docker_group:
        who += ["-G", account.docker_group]
    python = str(home / ".venv/bin/python")
    command = [*who, "--", "env", "-C", str(home), *variables, python, *words]
    return run(command, shown=" ".join(["python", *words]))


def run_in_front(account: Account, release: str, *words: str, **more: str) -> None:
    """The same, with what it says for whoever installs; `more`: of its environment. Raises ServiceError."""
    home = RELEASES / release
    who = ["runuser", "-u", account.user, "-g", account.group]
    command = [*who, "--", str(home / ".venv/bin/python"), *words]
    whole = os.environ | environment() | {"PATH": PATH} | more
    if subprocess.run(command, cwd=home, env=whole, check=False).returncode:
        raise ServiceError("It was not done; the lines above say why.")


def make_wire_account(owner: Account) -> None:
    """Of the links of boxes: it owns nothing. The services' own runs what asks to join, by a shell."""
    try:
        pwd.getpwnam(WIRE_ACCOUNT)
    except KeyError:
        words = ["--system", "--no-create-home", "--home-dir", NO_HOME]
        # A password that nothing matches; without one sshd takes the account for a locked one.
        run(["useradd", *words, "--shell", "/usr/sbin/nologin", "--password", "*", WIRE_ACCOUNT])
    if owner.is_ours:
        run(["usermod", "--shell", "/bin/sh", "--password", "*", owner.user])
