"""The hub's part of the wire: PostgreSQL, a Redis with users, and the keeper with its sshd."""

import getpass
import os
import pwd
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

from inferdash.up import redis
from inferdash.up.plan import Program
from servers.host.links import postgres, redis_users
from servers.host.links.files import WireFiles
from servers.host.links.keys import KeyFileError, keep_key, keep_text
from servers.host.links.sshd import ACCOUNT, SshdError, find_sshd


class HubSetupError(Exception):
    """Why this inferdash cannot take in further boxes, and what to do about it."""


def set_up(settings: ModuleType) -> None:
    """Make of an inferdash of one box a hub; what is done already is left alone. Raises HubSetupError.

    Its rows move from SQLite to PostgreSQL, and the old file is kept.
    """
    files = WireFiles(settings.DATA)
    if settings.WIRE == "hub":
        return
    if settings.WIRE == "box":
        raise HubSetupError(
            "this machine has joined another hub as a box, and cannot be a hub itself."
        )
    if os.environ.get("DATABASE_URL") or os.environ.get("REDIS_URL"):
        raise HubSetupError(
            "BOXES=1 brings a PostgreSQL and a Redis of its own, which let in a box each under its "
            "own name. Take DATABASE_URL and REDIS_URL out of the settings first."
        )
    try:
        find_sshd()
        keep_key(files.host_key)
        account = postgres.choose_account()
        password = _keep_password(files.folder / "postgres.password")
        _say(f"PostgreSQL runs as {account.name}, with its files in {files.postgres}")
        postgres.initialise(files.postgres, account=account, password=password)
        port = settings.HUB_DATABASE_PORT
        with postgres.run_server(
            files.postgres, port=port, account=account, password=password
        ) as url:
            _move_rows(settings.DATA, url)
    except (SshdError, KeyFileError, postgres.PostgresError) as error:
        raise HubSetupError(str(error)) from error
    redis_password = secrets.token_urlsafe(24)
    _write_redis_users(files, redis_password)
    socket = settings.DATA / "redis" / "redis.sock"
    lines = [
        "# Made by make up BOXES=1; docs/boxes.md says how to go back to one box.",
        "INFERDASH_WIRE=hub",
        f"DATABASE_URL={url}",
        f"REDIS_URL=unix://{redis_users.HUB}:{redis_password}@{socket}",
        f"INFERDASH_HUB_ACCOUNT={_choose_account()}",
    ]
    keep_text(files.env, "".join(f"{line}\n" for line in lines))
    (files.folder / "postgres.password").unlink()
    _say(f"further boxes can join now, at port {settings.HUB_PORT} (Settings, Boxes)")


@contextmanager
def run_database(settings: ModuleType) -> Iterator[None]:
    """For what has to be done before the supervisor runs it. Raises HubSetupError."""
    files, url = WireFiles(settings.DATA), urlsplit(os.environ["DATABASE_URL"])
    try:
        with postgres.run_server(
            files.postgres,
            port=url.port or settings.HUB_DATABASE_PORT,
            account=postgres.choose_account(),
            password=unquote(url.password or ""),
        ):
            yield
    except postgres.PostgresError as error:
        raise HubSetupError(str(error)) from error


def list_programs(settings: ModuleType) -> list[Program]:
    """What a hub runs besides the programs of one box. Raises HubSetupError."""
    files = WireFiles(settings.DATA)
    try:
        database = postgres.make_command(
            files.postgres, port=settings.HUB_DATABASE_PORT, account=postgres.choose_account()
        )
    except postgres.PostgresError as error:
        raise HubSetupError(str(error)) from error
    users = files.redis_users
    messages = redis.make_command(
        settings.DATA,
        {"port": str(settings.HUB_REDIS_PORT), "bind": "127.0.0.1", "aclfile": str(users)},
    )
    keeper = [sys.executable, str(settings.FILES / "manage.py"), "keep_links"]
    return [
        Program(name="postgres", command=database, descriptors=[], is_last_to_stop=True,
                stop_signal=postgres.STOP_SIGNAL),
        Program(name="redis", command=messages, descriptors=[], is_last_to_stop=True,
                untold=redis.GREETINGS, grace=redis.GRACE),
        Program(name="keeper", command=keeper, descriptors=[]),
    ]  # fmt: skip


def write_enrol_program(settings: ModuleType) -> None:
    """What sshd runs for a box that asks to join, with our settings: it starts without any."""
    files = WireFiles(settings.DATA)
    # Those of the wire it reads itself, where nobody else sees their passwords.
    names = ("PATH", "TZ", "HOST", "PORT", "TLS", "TLS_CERT", "TLS_KEY", "TLS_DATA")
    kept = {
        name: value
        for name, value in os.environ.items()
        if value and (name in names or name.startswith("INFERDASH_"))
    }
    kept["INFERDASH_DATA"] = str(settings.DATA)
    python, manage = Path(sys.executable), settings.FILES / "manage.py"
    lines = ["#!/bin/sh", *(f"export {name}={_quote(value)}" for name, value in kept.items())]
    lines.append(f'exec {_quote(str(python))} {_quote(str(manage))} enrol "$1"')
    keep_text(files.enrol_program, "\n".join(lines) + "\n")
    files.enrol_program.chmod(0o700)


def _write_redis_users(files: WireFiles, password: str) -> None:
    rules = redis_users.make_hub_rules(password)
    keep_text(files.redis_users, redis_users.write_file([(redis_users.HUB, rules)]))


def _keep_password(path: Path) -> str:
    """The same one when a set-up that was cut short is taken up again."""
    if not path.exists():
        keep_text(path, secrets.token_urlsafe(24))
    return path.read_text()


def _choose_account() -> str:
    """Of the links: the one that is named, else one that owns nothing, where we may make it."""
    if named := os.environ.get("INFERDASH_HUB_ACCOUNT", "").strip():
        return named
    if os.geteuid() != 0:
        return getpass.getuser()
    try:
        pwd.getpwnam(ACCOUNT)
    except KeyError:
        words = ["--system", "--no-create-home", "--home-dir", "/nonexistent"]
        # A password that nothing matches; without one sshd takes the account for a locked one.
        words += ["--shell", "/usr/sbin/nologin", "--password", "*", ACCOUNT]
        done = subprocess.run(["useradd", *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise HubSetupError(
                f"the account {ACCOUNT}, which the links of boxes log in as, cannot be made: "
                f"{done.stderr.strip()}"
            ) from None
        _say(f"made the account {ACCOUNT}, which the links of boxes log in as; it owns nothing")
    return ACCOUNT


def _move_rows(data: Path, url: str) -> None:
    """Raises HubSetupError."""
    if not (data / "inferdash.sqlite3").exists():
        return
    manage = [sys.executable, "-m", "django", "move-database", "--is-claimed", "--to", url]
    done = subprocess.run(
        manage, env=os.environ | {"DJANGO_SETTINGS_MODULE": "inferdash.settings"}, check=False
    )
    if done.returncode:
        raise HubSetupError("the rows were not moved to PostgreSQL; its lines above say why.")


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _say(sentence: str) -> None:
    print(f"inferdash: {sentence}", flush=True)
