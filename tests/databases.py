"""Both databases that inferdash runs on, each empty, migrated and of the tests' own."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import migrated
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
        yield environment
        return
    with _postgres() as socket_folder:
        environment["DATABASE_URL"] = f"postgresql://tests@/postgres?host={socket_folder}"
        migrate = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
        subprocess.run(migrate, cwd=ROOT, env=environment, check=True)
        yield environment


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
    """What the code prints, with Django set up and the models at hand."""
    code = f"import django\ndjango.setup()\nfrom servers.models import *\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE
    )
    return done.stdout.decode()


@contextmanager
def _postgres() -> Iterator[Path]:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    postgres = str(found[-1] if found else shutil.which("postgres"))
    bin_folder = Path(postgres).resolve().parent
    # Not below pytest's own folder: each pytest that begins shuts that to everybody but root.
    with tempfile.TemporaryDirectory(prefix="inferdash-postgres-") as name:
        folder = Path(name)
        data, sockets, said = folder / "data", folder / "sockets", folder / "said"
        data.mkdir()
        sockets.mkdir()
        # It refuses to run as root.
        as_other: list[str] = []
        if os.geteuid() == 0:
            as_other = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
            for each in (data, sockets):
                shutil.chown(each, "postgres", "postgres")
            folder.chmod(0o711)
        initdb = [str(bin_folder / "initdb"), "-D", str(data), "-U", "tests", "-A", "trust"]
        subprocess.run(
            [*as_other, *initdb, "-E", "UTF8"], check=True, stdout=subprocess.DEVNULL, cwd="/"
        )
        with said.open("wb") as output:
            server = subprocess.Popen(
                [*as_other, postgres, "-D", str(data), "-k", str(sockets), "-h", "", "-F"],
                stdout=output,
                stderr=output,
                cwd="/",
            )
        try:
            _wait(bin_folder, sockets, server, said)
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
