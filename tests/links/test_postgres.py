"""The hub's own PostgreSQL, on files of its own."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
import pytest
from django.db.backends.postgresql.features import DatabaseFeatures

from servers.host.links import postgres
from servers.host.links.postgres import PostgresAccount, PostgresError
from tests.cases import Cases
from tests.ports import free_port
from tests.waiting import wait_until

PASSWORD = "p w/&ü"


@dataclass(frozen=True, kw_only=True)
class HubPostgres:
    folder: Path
    account: PostgresAccount
    port: int

    def run(self, *, is_open: bool) -> AbstractContextManager[str]:
        return postgres.run_server(
            self.folder, port=self.port, account=self.account, password=PASSWORD, is_open=is_open
        )


@pytest.fixture(scope="module")
def cluster() -> Iterator[HubPostgres]:
    """In a data folder that only its owner may look into, as inferdash's is."""
    # Not below pytest's own folder, which only root may look into.
    with tempfile.TemporaryDirectory(prefix="inferdash-hub-") as name:
        place = Path(name)
        place.chmod(0o711)
        account = replace(postgres.choose_account(), home=place / "home")
        account.home.mkdir()
        os.chown(account.home, account.uid, account.gid)
        data = place / "var"
        data.mkdir(mode=0o700)
        folder = data / "postgres"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(postgres, "_run", _die)
            with pytest.raises(KeyboardInterrupt):
                postgres.initialise(folder, account=account, password="another")
        assert not (folder / "data").exists()
        postgres.initialise(folder, account=account, password=PASSWORD)
        yield HubPostgres(folder=folder, account=account, port=free_port())


def _die(command: list[str], account: PostgresAccount) -> None:
    """As initdb that is killed in the middle."""
    part = Path(command[command.index("--pgdata") + 1])
    part.mkdir()
    (part / "PG_VERSION").write_text("15")
    assert (part.parent / "password").stat().st_mode & 0o777 == 0o600
    assert (part.parent / "password").stat().st_uid == account.uid
    raise KeyboardInterrupt


def test_a_cluster_is_its_accounts_alone_and_keeps_no_password(cluster: HubPostgres) -> None:
    whole = cluster.folder.resolve()
    left = sorted(each.name for each in whole.iterdir())
    before = (whole / "data" / "PG_VERSION").stat().st_ino
    postgres.initialise(cluster.folder, account=cluster.account, password="ignored")

    assert left == ["data", "socket"]
    assert (whole / "data" / "PG_VERSION").stat().st_ino == before
    for each in (whole, whole / "data", whole / "socket"):
        assert each.stat().st_mode & 0o777 == 0o700
        assert each.stat().st_uid == cluster.account.uid


def test_our_superuser_comes_by_the_socket_and_boxes_by_loopback(cluster: HubPostgres) -> None:
    with cluster.run(is_open=True) as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE ROLE box_1 LOGIN PASSWORD 'of a box'")
            connection.execute("GRANT CONNECT ON DATABASE inferdash TO box_1")
            row = connection.execute(
                "SELECT pg_encoding_to_char(encoding), datcollate, current_setting"
                "('listen_addresses') FROM pg_database WHERE datname = 'inferdash'"
            ).fetchone()
            stored = connection.execute(
                "SELECT rolpassword FROM pg_authid WHERE rolcanlogin"
            ).fetchall()
        with Cases() as cases:
            for user, password, database, answer in (
                ("box_1", "of a box", "inferdash", ""),
                ("box_1", "wrong", "inferdash", "password authentication failed"),
                ("box_1", "of a box", "postgres", "no pg_hba.conf entry"),
                ("inferdash", PASSWORD, "inferdash", "rejects connection"),
                ("postgres", "", "inferdash", "no password supplied"),
            ):
                with cases.named(f"{user} {password} {database}"):
                    said = _try(cluster.port, user, password, database)
                    assert answer in said, said
                    assert bool(answer) == bool(said)
    assert row == ("UTF8", "C.UTF-8", "127.0.0.1")
    assert len(stored) == 2
    assert all(verifier.startswith("SCRAM-SHA-256$") for (verifier,) in stored)


def _try(port: int, user: str, password: str, database: str) -> str:
    try:
        psycopg.connect(
            host="127.0.0.1", port=port, user=user, password=password, dbname=database
        ).close()
    except psycopg.OperationalError as error:
        return str(error)
    return ""


def test_it_ends_with_its_supervisor(cluster: HubPostgres) -> None:
    command = postgres.make_command(
        cluster.folder, port=cluster.port, account=cluster.account, is_open=False
    )
    code = f"import subprocess; subprocess.run({command!r})"
    supervisor = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    url = postgres.make_url(cluster.folder, port=cluster.port, password=PASSWORD)
    pid_file = cluster.folder / "data" / "postmaster.pid"
    try:
        postgres.wait_until_ready(url)
        with pytest.raises(PostgresError, match="another password"):
            postgres.wait_until_ready(
                postgres.make_url(cluster.folder, port=cluster.port, password="wrong")
            )
    finally:
        supervisor.send_signal(signal.SIGKILL)
        supervisor.wait()

    wait_until(lambda: not pid_file.exists(), "PostgreSQL has ended in good order")


def test_a_machine_without_the_right_programs_is_told_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = postgres.find_programs().major
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "PG_VERSION").write_text("9\n")

    with pytest.raises(PostgresError, match=f"made by PostgreSQL 9, and this machine has {newest}"):
        postgres.find_programs(tmp_path)
    assert f"runs on PostgreSQL 9, and {newest} is installed" in postgres.tell_newer(tmp_path)
    (tmp_path / "data" / "PG_VERSION").write_text(f"{newest}\n")
    assert postgres.tell_newer(tmp_path) == ""
    assert postgres.find_programs(tmp_path).major == newest
    monkeypatch.setattr(postgres, "_PLACES", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PostgresError, match="sudo apt install postgresql"):
        postgres.find_programs()
    assert DatabaseFeatures.minimum_database_version == (postgres.OLDEST,)


def test_a_cluster_whose_files_are_gone_is_not_made_anew(tmp_path: Path) -> None:
    folder = tmp_path / "postgres"
    folder.symlink_to(tmp_path / "elsewhere")
    account = postgres.choose_account()
    with pytest.raises(PostgresError, match="files are gone"):
        postgres.initialise(folder, account=account, password=PASSWORD)
    deep = tmp_path / ("long" * 40) / "postgres"
    deep.parent.mkdir()
    with pytest.raises(PostgresError, match="too long"):
        postgres.initialise(deep, account=replace(account, is_other=False), password=PASSWORD)
    shutil.rmtree(deep)
