"""PostgreSQL of a hub: the distribution's programs on files of inferdash's own.

`folder` is DATA/postgres: `data` in it is PostgreSQL's, `socket` has its Unix socket. Both belong
to the account that PostgreSQL runs as, and nobody else may look into them.
"""

import os
import pwd
import re
import secrets
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psycopg

DATABASE = "inferdash"
# The only account of the server that may everything; the hub's own processes use it.
SUPERUSER = "inferdash"
OLDEST = 15  # what Django 6.1 asks for
# SIGTERM lets clients finish for as long as they like; this one ends their sessions.
STOP_SIGNAL = signal.SIGINT
# Seconds.
START_WITHIN = 180.0  # with recovery after a crash, on a busy disk
END_WITHIN = 60.0

_PLACES = ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin")
_SOCKET_PATH_LIMIT = 107  # bytes, of the kernel's sockaddr_un

# Boxes come by 127.0.0.1, through the hub's sshd: to our database, and never as the superuser.
_ACCESS = f"""\
local all {SUPERUSER} scram-sha-256
host {DATABASE} {SUPERUSER} 127.0.0.1/32 reject
host {DATABASE} all 127.0.0.1/32 scram-sha-256
"""
# Small: beside it engines want the memory. synchronous_commit is off as SQLite's
# synchronous=NORMAL is: a power cut can take the last moment, and damages nothing.
_SETTINGS = """
# inferdash's
shared_buffers = 64MB
maintenance_work_mem = 32MB
max_connections = 200
max_worker_processes = 4
max_parallel_workers_per_gather = 0
autovacuum_max_workers = 2
max_wal_size = 256MB
wal_level = minimal
max_wal_senders = 0
synchronous_commit = off
password_encryption = scram-sha-256
jit = off
log_destination = stderr
logging_collector = off
log_line_prefix = ''
log_checkpoints = off
# What people wrote does not go into a log.
log_min_error_statement = panic
log_parameter_max_length_on_error = 0
"""
_MAKE_DATABASE = f"""\
CREATE DATABASE {DATABASE}
REVOKE ALL ON DATABASE {DATABASE} FROM PUBLIC
REVOKE ALL ON DATABASE postgres FROM PUBLIC
REVOKE ALL ON DATABASE template1 FROM PUBLIC
"""


class PostgresError(Exception):
    """Why there is no PostgreSQL, and what to do."""


@dataclass(frozen=True, kw_only=True)
class PostgresPrograms:
    folder: Path
    major: int  # version

    def find(self, name: str) -> str:
        return str(self.folder / name)


@dataclass(frozen=True, kw_only=True)
class PostgresAccount:
    """As whom PostgreSQL runs, on this machine."""

    name: str
    uid: int
    gid: int
    home: Path
    is_other: bool  # than that of this process


def list_programs() -> list[PostgresPrograms]:
    """Every installed server that can be used, the newest first."""
    folders = [found for place in _PLACES for found in Path("/").glob(place)]
    if in_path := shutil.which("postgres"):
        folders.append(Path(in_path).resolve().parent)
    found: dict[int, PostgresPrograms] = {}
    for folder in folders:
        if os.access(folder / "initdb", os.X_OK) and os.access(folder / "postgres", os.X_OK):
            major = _read_major(folder / "postgres")
            if major >= OLDEST:
                found.setdefault(major, PostgresPrograms(folder=folder, major=major))
    return [found[major] for major in sorted(found, reverse=True)]


def find_programs(folder: Path | None = None) -> PostgresPrograms:
    """Those that can run the cluster in `folder`; the newest where there is none yet.

    Raises PostgresError.
    """
    programs = list_programs()
    if not programs:
        raise PostgresError(
            f"there is no PostgreSQL {OLDEST} or newer on this machine. Install the distribution's: "
            "sudo apt install postgresql (Fedora, RHEL: sudo dnf install postgresql-server). "
            "inferdash runs a server of its own with it; the one that the package may start is not "
            "used."
        )
    major = find_version(folder) if folder is not None else None
    if major is None:
        return programs[0]
    for each in programs:
        if each.major == major:
            return each
    raise PostgresError(
        f"the database in {folder} was made by PostgreSQL {major}, and this machine has "
        f"{programs[0].major}. Install {major} beside it (sudo apt install postgresql-{major}) and "
        f"start inferdash again. {_tell_upgrade(major, programs[0].major)}"
    )


def find_version(folder: Path) -> int | None:
    """The major version that made the cluster; None where there is none yet."""
    try:
        return int((folder / "data" / "PG_VERSION").read_text())
    except FileNotFoundError:
        return None


def tell_newer(folder: Path) -> str:
    """What to do where a newer version than the cluster's is installed, too; "" elsewhere."""
    major, programs = find_version(folder), list_programs()
    if major is None or not programs or programs[0].major <= major:
        return ""
    newest = programs[0].major
    return f"the database runs on PostgreSQL {major}, and {newest} is installed, too. " + (
        _tell_upgrade(major, newest)
    )


def _tell_upgrade(old: int, new: int) -> str:
    return (
        f"To change to {new}: while inferdash runs, python -m inferdash.service.snapshot take "
        f"FILE; stop inferdash and rename the folder data in it to data.{old}; start inferdash, "
        "then python -m inferdash.service.snapshot bring-back FILE, and start it anew. See "
        "docs/boxes.md."
    )


def choose_account() -> PostgresAccount:
    """Ours; where we are root, whom PostgreSQL refuses, its own. Raises PostgresError."""
    if os.geteuid() != 0:
        return _read_account(pwd.getpwuid(os.geteuid()), is_other=False)
    try:
        found = pwd.getpwnam("postgres")
    except KeyError as error:
        raise PostgresError(
            "PostgreSQL refuses to run as root, and this machine has no account postgres, which the "
            "distribution's package makes. Install it (sudo apt install postgresql), or run "
            "inferdash as another user."
        ) from error
    return _read_account(found, is_other=True)


def initialise(folder: Path, *, account: PostgresAccount, password: str) -> None:
    """Make the cluster with our superuser and an empty database, whole or not at all.

    What is there already is left alone. Raises PostgresError.
    """
    folder = _make_folder(folder, account)
    if (folder / "data").exists():
        return
    programs = find_programs(folder)
    draft, secret = folder / "data.part", folder / "password"
    # What an earlier try has left, which was cut short.
    shutil.rmtree(draft, ignore_errors=True)
    secret.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(secret, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(password)
        os.chown(secret, account.uid, account.gid)
        words = ["--pgdata", str(draft), "--username", SUPERUSER, "--pwfile", str(secret)]
        words += ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8"]
        _run([programs.find("initdb"), *words], account)
    finally:
        secret.unlink(missing_ok=True)
    _write(draft / "pg_hba.conf", _ACCESS)
    _write(draft / "pg_ident.conf", "")
    with (draft / "postgresql.conf").open("a") as file:
        file.write(_SETTINGS)
    single = [programs.find("postgres"), "--single", "-D", str(draft), "postgres"]
    said = _run(single, account, given=_MAKE_DATABASE)
    if "ERROR:" in said:
        raise PostgresError(f"PostgreSQL could not make the database {DATABASE}; it said: {said}")
    draft.rename(folder / "data")
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_command(
    folder: Path, *, port: int, account: PostgresAccount, is_open: bool = True
) -> list[str]:
    """The server, for a supervisor: it runs in the foreground, logs to standard error, and ends
    with its supervisor. STOP_SIGNAL ends it at once.

    `is_open`: whether it listens on 127.0.0.1, besides its socket. Raises PostgresError.
    """
    programs = find_programs(folder)
    options = {
        "listen_addresses": "127.0.0.1" if is_open else "",
        "port": str(port),
        "unix_socket_directories": str(find_socket_folder(folder)),
        "unix_socket_permissions": "0700",
    }
    words = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
    # A change of account takes away the signal that a supervisor had set; and PostgreSQL ends
    # where it may not look into its working directory.
    end = ["setpriv", "--pdeathsig", STOP_SIGNAL.name.removeprefix("SIG")]
    who = ["env", "-C", "/", *end, *_list_account_words(account)]
    return [*who, programs.find("postgres"), "-D", str((folder / "data").resolve()), *words]


def find_socket_folder(folder: Path) -> Path:
    return folder.resolve() / "socket"


def make_url(folder: Path, *, port: int, password: str) -> str:
    """DATABASE_URL of the hub's own processes, by the Unix socket."""
    place = quote(str(find_socket_folder(folder)), safe="/")
    return f"postgresql://{SUPERUSER}:{quote(password, safe='')}@:{port}/{DATABASE}?host={place}"


@contextmanager
def run_server(
    folder: Path, *, port: int, account: PostgresAccount, password: str, is_open: bool = False
) -> Iterator[str]:
    """Its DATABASE_URL while it runs: for what has to be done before a supervisor runs it.

    Raises PostgresError.
    """
    command = make_command(folder, port=port, account=account, is_open=is_open)
    url = make_url(folder, port=port, password=password)
    with tempfile.TemporaryFile() as said:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said)

        def find_end() -> str | None:
            if server.poll() is None:
                return None
            said.seek(0)
            return said.read().decode(errors="replace").strip()

        try:
            wait_until_ready(url, find_end=find_end)
            yield url
        finally:
            server.send_signal(STOP_SIGNAL)
            try:
                server.wait(timeout=END_WITHIN)
            except subprocess.TimeoutExpired:
                server.send_signal(signal.SIGQUIT)
                server.wait()


def wait_until_ready(
    url: str, *, patience: float = START_WITHIN, find_end: Callable[[], str | None] = lambda: None
) -> None:
    """Until it takes connections; `patience` in seconds. `find_end` says what a server printed
    that has ended, None while it runs. Raises PostgresError.
    """
    until = time.monotonic() + patience
    while True:
        try:
            psycopg.connect(url, connect_timeout=5).close()
            return
        except psycopg.OperationalError as error:
            if (said := find_end()) is not None:
                raise PostgresError(
                    f"PostgreSQL ended while it started; it said: {said}"
                ) from error
            if "password authentication failed" in str(error):
                raise PostgresError(
                    "PostgreSQL has another password than DATABASE_URL for the account "
                    f"{SUPERUSER}. Put back the wire.env that belongs to this database."
                ) from error
            if time.monotonic() > until:
                raise PostgresError(
                    f"PostgreSQL does not answer since {patience:.0f} s: {str(error).strip()}"
                ) from error
        time.sleep(0.05)


def _make_folder(folder: Path, account: PostgresAccount) -> Path:
    """It, with the socket's in it; where the account may not come to it, one in its own home."""
    if folder.is_symlink() and not folder.exists():
        raise PostgresError(
            f"the database's files are gone: {folder} points to {folder.readlink()}, which is not "
            "there. Bring that folder back from a copy, or remove the link to begin with an empty "
            "database."
        )
    if not folder.exists():
        if account.is_other and not _may_reach(folder.parent, account):
            place = account.home / f"inferdash-{secrets.token_hex(4)}"
            if not _may_reach(account.home, account):
                raise PostgresError(
                    f"the account {account.name} can open neither {folder.parent} nor its own home "
                    f"{account.home}. Make its home, or run inferdash as another user."
                )
            _own(place, account)
            folder.symlink_to(place)
        else:
            _own(folder, account)
    folder = folder.resolve()
    _own(folder, account)
    socket = folder / "socket"
    # The longest name that PostgreSQL gives its socket, with its lock file's end.
    if len(os.fsencode(socket / ".s.PGSQL.65535.lock")) > _SOCKET_PATH_LIMIT:
        raise PostgresError(
            f"the path of the data folder is too long for a socket in it ({socket}). Name a shorter "
            "one: INFERDASH_DATA=/path."
        )
    _own(socket, account)
    return folder


def _own(folder: Path, account: PostgresAccount) -> None:
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if account.is_other:
        os.chown(folder, account.uid, account.gid)
    folder.chmod(0o700)


def _may_reach(folder: Path, account: PostgresAccount) -> bool:
    """Whether the account may open what lies in a folder, by the modes of the way there."""
    whole = folder.resolve()
    for each in (whole, *whole.parents):
        try:
            found = each.stat()
        except OSError:
            return False
        bits = stat.S_IXOTH
        if found.st_uid == account.uid:
            bits = stat.S_IXUSR
        elif found.st_gid == account.gid:
            bits = stat.S_IXGRP
        if not found.st_mode & bits:
            return False
    return True


def _read_account(found: pwd.struct_passwd, *, is_other: bool) -> PostgresAccount:
    return PostgresAccount(
        name=found.pw_name,
        uid=found.pw_uid,
        gid=found.pw_gid,
        home=Path(found.pw_dir),
        is_other=is_other,
    )


def _read_major(program: Path) -> int:
    """0 where it does not say."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    match = re.search(r"\(PostgreSQL\) (\d+)", said.stdout)
    return int(match[1]) if match else 0


def _list_account_words(account: PostgresAccount) -> list[str]:
    """Options of setpriv."""
    if not account.is_other:
        return []
    return [f"--reuid={account.uid}", f"--regid={account.gid}", "--clear-groups"]


def _run(command: list[str], account: PostgresAccount, *, given: str = "") -> str:
    """What it said to standard error. Raises PostgresError."""
    who = _list_account_words(account)
    whole = ["setpriv", *who, *command] if who else command
    done = subprocess.run(whole, input=given, capture_output=True, text=True, check=False, cwd="/")
    if done.returncode:
        said = f"{done.stdout}\n{done.stderr}".strip()
        raise PostgresError(f"{command[0]} failed as the account {account.name}; it said:\n{said}")
    return done.stderr


def _write(path: Path, text: str) -> None:
    """Into a file that is there, which keeps its owner and mode."""
    with path.open("w") as file:
        file.write(text)
