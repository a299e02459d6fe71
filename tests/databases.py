"""Both databases that inferdash runs on, each empty, migrated and of the tests' own."""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import migrated
from tests.docker_engine import FOLDER
from tests.shell import Shell
from tests.terminal import ROOT
from tests.waiting import PATIENCE, wait_until

SQLITE, POSTGRESQL = "sqlite", "postgresql"


@contextmanager
def database(kind: str, folder: Path) -> Iterator[dict[str, str]]:
    """The environment of processes that use it."""
    environment = os.environ | {
        "INFERDASH_DATA": str(folder / "var"),
        "DJANGO_SETTINGS_MODULE": "inferdash.settings",
        "REDIS_URL": "",
        "DATABASE_URL": "",
        "LOG_LEVEL": "ERROR",
    }
    if kind == SQLITE:
        migrated.put_into(folder / "var")
        with _shells_of(folder / "var"):
            yield environment
        return
    with _postgres(_template(environment)) as socket_folder, _shells_of(folder / "var"):
        yield environment | {"DATABASE_URL": _url(socket_folder)}


def _url(socket_folder: Path) -> str:
    return f"postgresql://tests@/postgres?host={socket_folder}"


def move(environment: dict[str, str], folder: Path) -> None:
    """All tables of a PostgreSQL of database() to a disk that may get full: its own log stays."""
    space = folder / "tables"
    space.mkdir()
    if os.geteuid() == 0:
        shutil.chown(space, "postgres", "postgres")
    code = f"""
import psycopg
address = {environment["DATABASE_URL"]!r}
with psycopg.connect(address.replace("/postgres?", "/template1?"), autocommit=True) as connection:
    connection.execute("CREATE TABLESPACE small LOCATION '{space}'")
    connection.execute("ALTER DATABASE postgres SET TABLESPACE small")
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def run(code: str, environment: dict[str, str]) -> str:
    """What the code prints, with Django set up and the models at hand, in a process of its own."""
    key = tuple(sorted(environment.items()))
    if key not in _shells:
        _shells[key] = Shell(environment)
    return _shells[key].run(code)


# By all of an environment, as tests add to that of a database.
_shells: dict[tuple[tuple[str, str], ...], Shell] = {}


@contextmanager
def _shells_of(data: Path) -> Iterator[None]:
    try:
        yield
    finally:
        for key in [each for each in _shells if ("INFERDASH_DATA", str(data)) in each]:
            _shells.pop(key).close()


def _template(environment: dict[str, str]) -> Path:
    """The folder of a PostgreSQL that is migrated and not running, made once for all tests."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"postgres-{_bin().parent.name}-{migrated.fingerprint()}"
    with (FOLDER / "postgres.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            for old in sorted(FOLDER.glob("postgres-*"), key=os.path.getmtime)[:-2]:
                shutil.rmtree(old)
            with _postgres(None) as socket_folder:
                migrate = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
                url = {"DATABASE_URL": _url(socket_folder)}
                subprocess.run(migrate, cwd=ROOT, env=environment | url, check=True)
                data = socket_folder.parent / "data"
                stop = [str(_bin() / "pg_ctl"), "stop", "-D", str(data), "-s"]
                subprocess.run([*_AS_OTHER, *stop], check=True, cwd="/")
                part = path.with_suffix(".part")
                shutil.rmtree(part, ignore_errors=True)
                _copy(data, part)
                part.rename(path)
    return path


def _copy(source: Path, target: Path) -> None:
    """With its owners, whom shutil.copytree leaves behind."""
    subprocess.run(["cp", "--archive", "--reflink=auto", source, target], check=True)


def _bin() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return Path(str(found[-1] if found else shutil.which("postgres"))).resolve().parent


# It refuses to run as root.
_AS_OTHER = (
    ("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups")
    if os.geteuid() == 0
    else ()
)


@contextmanager
def _postgres(template: Path | None) -> Iterator[Path]:
    """The folder of its sockets, beside that of its data; `template` None: an empty one."""
    # Not below pytest's own folder: each pytest that begins shuts that to everybody but root.
    with tempfile.TemporaryDirectory(prefix="inferdash-postgres-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        data, sockets, said = folder / "data", folder / "sockets", folder / "said"
        sockets.mkdir()
        if template is not None:
            _copy(template, data)
        else:
            data.mkdir()
        if os.geteuid() == 0:
            for each in (data, sockets):
                shutil.chown(each, "postgres", "postgres")
        if template is None:
            make = [
                str(_bin() / "initdb"),
                "-D",
                str(data),
                "-U",
                "tests",
                "-A",
                "trust",
                "-E",
                "UTF8",
            ]
            # Little is written: smaller files of its log are copied sooner.
            command = [*_AS_OTHER, *make, "--wal-segsize=1"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/")
        with said.open("wb") as output:
            server = subprocess.Popen(
                [*_AS_OTHER, _bin() / "postgres", "-D", data, "-k", sockets, "-h", "", "-F"],
                stdout=output,
                stderr=output,
                cwd="/",
            )
        try:
            _wait(_bin(), sockets, server, said)
            yield sockets
        finally:
            server.terminate()
            server.wait(timeout=PATIENCE)


def _wait(bin_folder: Path, sockets: Path, server: "subprocess.Popen[bytes]", said: Path) -> None:
    ask = [str(bin_folder / "pg_isready"), "-h", str(sockets), "-q"]

    def answers() -> bool:
        assert server.poll() is None, f"PostgreSQL ended while it started: {said.read_text()}"
        return subprocess.run(ask, check=False).returncode == 0

    wait_until(answers, lambda: f"PostgreSQL answers: {said.read_text()}")
