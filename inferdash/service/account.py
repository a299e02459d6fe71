"""As whom inferdash runs: a system user of its own, or somebody who is there."""

import grp
import os
import pwd
import subprocess
from dataclasses import replace

from inferdash.service import layout
from inferdash.service.layout import Account, ServiceError


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
        found = pwd.getpwnam(name or layout.NAME)
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
        gid = layout.SOCKET.stat().st_gid
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
        pwd.getpwnam(layout.NAME)
    except KeyError:
        words = ["--system", "--user-group", "--home-dir", str(layout.DATA), "--no-create-home"]
        run(["useradd", *words, "--shell", "/usr/sbin/nologin", layout.NAME])


def remove_system_user() -> None:
    """Ours, if there is one: nobody else's home is the data folder."""
    try:
        found = pwd.getpwnam(layout.NAME)
    except KeyError:
        return
    if found.pw_dir == str(layout.DATA):
        run(["userdel", layout.NAME])


LAST_LINES = 15  # of what a program said before it failed; why stands at the end


def run(command: list[str], *, shown: str = "") -> str:
    """What it printed. Raises ServiceError, which calls the command `shown`."""
    try:
        done = subprocess.run(
            command,
            env=os.environ | {"PATH": layout.PATH},
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
    home = layout.RELEASES / release
    variables = [f"{name}={value}" for name, value in layout.environment().items()]
    who = ["runuser", "-u", account.user, "-g", account.group]
    if account.docker_group:
        who += ["-G", account.docker_group]
    python = str(home / ".venv/bin/python")
    command = [*who, "--", "env", "-C", str(home), *variables, python, *words]
    return run(command, shown=" ".join(["python", *words]))
