"""The moves of a run, against Docker and Redis; the web's wishes and the worker's obedience."""

import gc
import socket
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from django.db import connections
from django.utils import timezone

from servers import lifecycle
from servers.host.containers import Docker
from servers.lifecycle import creation
from servers.models import Box, Run, Secret, Server
from servers.models.run import State, Wanted
from tests import factories
from tests.images import ENGINE

pytestmark = [pytest.mark.docker, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def _worker(
    docker: Docker,
    own_redis: redis.Redis,
    settings: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """This process is the worker of a box that allows tmp_path to be mounted."""
    settings.INSTALL = docker.install
    settings.BOX_FILE = tmp_path / "box.toml"
    settings.BOX_FILE.write_text(f'mount_roots = ["{tmp_path}"]\n')
    monkeypatch.setattr(creation, "docker", lambda: docker)


@pytest.fixture
def box() -> Box:
    return factories.box("rtx8", home="/home/ada")


@pytest.fixture
def server(box: Box) -> Callable[..., Server]:
    def make(**launch: Any) -> Server:
        values = {"image": ENGINE, "env": {"ENGINE_SECONDS": "0.1"}, "gpus": "none", **launch}
        return factories.server(box, **values)

    return make


def started(server: Server) -> Run:
    run = lifecycle.start(server, by=factories.person())
    assert run is not None
    lifecycle.advance(run)
    run.refresh_from_db()
    return run


def wait_until_ended(docker: Docker, run: Run) -> None:
    for _line in docker.logs(run.container_id, follow=True):
        pass


@pytest.fixture
def ended(docker: Docker) -> Callable[[Run], Run]:
    """Let the container end, and observe it as the watcher does."""

    def observe(run: Run) -> Run:
        wait_until_ended(docker, run)
        lifecycle.observe(run)
        run.refresh_from_db()
        return run

    return observe


def test_a_start_makes_a_container_with_what_a_tag_cannot_say(
    server: Callable[..., Server], docker: Docker
) -> None:
    run = started(server())

    assert run.state == State.STARTING
    container = docker.inspect(run.container_id)
    assert container is not None
    assert container.labels["inferdash.run"] == str(run.pk)
    assert container.name == f"inferdash-{docker.install[:8]}-{run.pk}"
    assert run.image_id == container.image_id
    assert run.address == "127.0.0.1"
    assert run.port in creation.HOST_PORTS


def test_a_second_start_starts_nothing(server: Callable[..., Server]) -> None:
    one = server()
    started(one)

    assert lifecycle.start(one, by=factories.person()) is None
    assert one.runs.count() == 1


def test_worker_and_watcher_at_once_make_one_container(
    server: Callable[..., Server], docker: Docker
) -> None:
    run = lifecycle.start(server(), by=factories.person())
    assert run is not None
    gate = threading.Barrier(4)

    def advance() -> None:
        mine = Run.objects.select_related("server__box", "version").get(pk=run.pk)
        gate.wait()
        lifecycle.advance(mine)
        connections.close_all()
        docker.close()

    threads = [threading.Thread(target=advance) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    run.refresh_from_db()
    assert run.state == State.STARTING
    assert len(docker.list_ours()) == 1


def test_a_worker_that_died_while_creating_is_taken_over(
    server: Callable[..., Server], docker: Docker
) -> None:
    run = lifecycle.start(server(), by=factories.person())
    assert run is not None
    long_ago = timezone.now() - timedelta(minutes=5)
    Run.objects.filter(pk=run.pk).update(state=State.CREATING, moved_at=long_ago)
    run.refresh_from_db()

    lifecycle.advance(run)

    run.refresh_from_db()
    assert run.state == State.STARTING
    assert len(docker.list_ours()) == 1


def test_a_stop_before_the_container_makes_none(
    server: Callable[..., Server], docker: Docker
) -> None:
    run = lifecycle.start(server(), by=factories.person())
    assert run is not None
    lifecycle.stop(run, by=factories.person("ben"))
    run.refresh_from_db()

    lifecycle.advance(run)

    run.refresh_from_db()
    assert run.state == State.STOPPED
    assert docker.list_ours() == []


def test_a_stop_sends_sigterm_and_says_how_it_ended(
    server: Callable[..., Server], ended: Callable[[Run], Run]
) -> None:
    run = started(server())
    lifecycle.stop(run, by=factories.person())
    run.refresh_from_db()

    lifecycle.advance(run)

    run.refresh_from_db()
    assert run.state in (State.STOPPING, State.STOPPED)
    assert ended(run).state == State.STOPPED
    assert run.failure == ""
    assert run.time_to_stop is not None


def test_a_drained_stop_waits_for_the_requests(server: Callable[..., Server]) -> None:
    run = started(server())
    Run.objects.filter(pk=run.pk).update(state=State.READY, requests_running=2)
    lifecycle.stop(run, by=factories.person(), after_requests=True)
    run.refresh_from_db()

    lifecycle.advance(run)
    run.refresh_from_db()
    assert run.state == State.READY

    Run.objects.filter(pk=run.pk).update(requests_running=0)
    run.refresh_from_db()
    lifecycle.advance(run)
    run.refresh_from_db()
    assert run.state in (State.STOPPING, State.STOPPED)


def test_stop_now_overrides_a_drained_stop_and_not_the_reverse(
    server: Callable[..., Server],
) -> None:
    run = started(server())
    by = factories.person()

    assert lifecycle.stop(run, by=by, after_requests=True)
    assert lifecycle.stop(run, by=by)
    assert not lifecycle.stop(run, by=by, after_requests=True)

    run.refresh_from_db()
    assert run.wanted == Wanted.STOPPED


def test_an_end_that_nobody_wanted_is_a_failure_with_its_last_lines(
    server: Callable[..., Server], ended: Callable[[Run], Run]
) -> None:
    run = ended(started(server(env={"ENGINE_SCRIPT": "crash"})))

    assert run.state == State.FAILED
    assert run.exit_code == 1
    assert "before it was ready" in run.failure
    assert run.last_lines


def test_a_container_that_somebody_removed_is_told(
    server: Callable[..., Server], docker: Docker
) -> None:
    run = started(server())
    docker.remove(run.container_id)

    lifecycle.observe(run)

    run.refresh_from_db()
    assert run.state == State.FAILED
    assert "removed by somebody outside" in run.failure


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_nothing_is_claimed_while_docker_is_away(
    server: Callable[..., Server], docker: Docker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = started(server())
    away = Docker(docker.install, f"unix://{tmp_path}/none.sock")
    monkeypatch.setattr(creation, "docker", lambda: away)

    lifecycle.observe(run)

    run.refresh_from_db()
    assert run.state == State.STARTING
    # docker-py leaves the socket of a failed connection to the collector.
    gc.collect()


def test_a_folder_outside_the_boxs_limits_is_refused_also_behind_a_link(
    server: Callable[..., Server], docker: Docker, tmp_path: Path
) -> None:
    (tmp_path / "innocent").symlink_to("/etc")

    run = started(server(volumes=(f"{tmp_path}/innocent:/x:ro",)))

    assert run.state == State.FAILED
    assert "in truth /etc" in run.failure
    assert docker.list_ours() == []


@pytest.mark.parametrize(
    ("launch", "says"),
    [
        ({"privileged": True}, "privileged"),
        ({"pid": "host"}, "pid: host"),
        ({"devices": ("/dev/sda",)}, "/dev/sda"),
        ({"cap_add": ("SYS_ADMIN",)}, "SYS_ADMIN"),
        ({"network": "container:other"}, "network namespace"),
        ({"security_opt": ("seccomp=unconfined",)}, "seccomp"),
    ],
)
def test_what_the_box_does_not_allow_is_refused_whatever_the_database_says(
    server: Callable[..., Server], docker: Docker, launch: dict[str, Any], says: str
) -> None:
    run = started(server(**launch))

    assert run.state == State.FAILED
    assert says in run.failure
    assert docker.list_ours() == []


def test_a_volume_of_others_is_not_mounted(
    server: Callable[..., Server], docker: Docker, settings: Any
) -> None:
    name = f"of-postgres-{docker.install}"
    docker._api.create_volume(name)
    kernels = docker.keep_kernels("sha256:" + "a" * 64)
    bound = f"bound-{docker.install}"
    options = {"type": "none", "o": "bind", "device": "/etc"}
    labels = {"inferdash.install": docker.install, "inferdash.volume": bound}
    docker._api.create_volume(bound, driver_opts=options, labels=labels)

    for other in (name, kernels, bound):
        run = started(server(name=f"mounts-{other}"[:60], volumes=(f"{other}:/x",)))
        assert f"The Docker volume {other} was not made for a profile" in run.failure

    settings.BOX_FILE.write_text(f'volumes = ["{name}"]')
    run = started(server(name="mounts-what-the-box-allows", volumes=(f"{name}:/x",)))
    assert run.state == State.STARTING


def test_a_volume_is_made_for_profiles_and_used_again(
    server: Callable[..., Server], docker: Docker
) -> None:
    for name in ("writes", "reads"):
        run = started(server(name=name, volumes=(f"shared-{docker.install}:/x",)))
        assert run.state == State.STARTING, run.failure


def test_the_data_folder_is_mounted_by_nobody(
    server: Callable[..., Server], settings: Any, tmp_path: Path
) -> None:
    settings.DATA = tmp_path / "inferdash"
    settings.DATA.mkdir()

    for name, source in (("one", settings.DATA), ("two", tmp_path)):
        run = started(server(name=name, volumes=(f"{source}:/x:ro",)))
        assert "inferdash's own" in run.failure


def test_a_network_without_ports_leads_nowhere_a_person_typed(
    server: Callable[..., Server], docker: Docker
) -> None:
    """The cloud's metadata service answers on such an address, and Redis on such a port."""
    run = started(server(network="none", host_address="169.254.169.254", host_port=80))

    assert "publishes no ports" in run.failure
    assert run.endpoint is None
    assert docker.list_ours() == []


def test_the_address_is_the_one_that_docker_has_bound(server: Callable[..., Server]) -> None:
    run = started(server(host_address="0.0.0.0", env={"ENGINE_SECONDS": "30"}))

    assert run.state == State.STARTING
    assert run.address == "127.0.0.1"
    assert run.port in creation.HOST_PORTS


def test_on_the_boxs_network_nobody_else_passes_for_the_engine(
    server: Callable[..., Server], docker: Docker
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        run = started(server(network="host", flags=("--port", str(port))))

    assert f"Port {port} of this box is taken by" in run.failure
    assert docker.list_ours() == []


def test_secrets_reach_the_container_and_nothing_else(
    server: Callable[..., Server], ended: Callable[[Run], Run]
) -> None:
    secret = Secret.seal("MY_TOKEN", "hunter2-value", None)
    run = started(
        server(
            secret_env={"MY_TOKEN": secret.pk},
            entrypoint=("/bin/sh", "-c", "echo the token is $MY_TOKEN; exit 3"),
        )
    )

    run = ended(run)

    assert any("the token is ••••••••" in line for line in run.last_lines)
    assert "hunter2-value" not in " ".join(run.command)


def test_a_restart_is_followed_by_the_next_run(
    server: Callable[..., Server], ended: Callable[[Run], Run]
) -> None:
    one = server()
    first = started(one)
    lifecycle.restart(one, by=factories.person("ben"))
    first.refresh_from_db()
    lifecycle.advance(first)

    ended(first)

    one.refresh_from_db()
    assert one.run_id != first.pk
    assert one.run is not None
    assert one.run.state == State.STARTING
    assert str(one.run.started_by) == "ben"


def test_a_start_past_its_profiles_limit_is_stopped_and_has_failed(
    server: Callable[..., Server], ended: Callable[[Run], Run]
) -> None:
    run = started(server(ready_limit=1200, env={"ENGINE_SECONDS": "600"}))
    lifecycle.check_limit(run)
    assert run.wanted == Wanted.RUNNING, "it has time"

    long_ago = timezone.now() - timedelta(minutes=21)
    Run.objects.filter(pk=run.pk).update(started_at=long_ago)
    run.refresh_from_db()
    lifecycle.advance(run)
    Run.objects.filter(pk=run.pk).update(kill_at=timezone.now())
    run.refresh_from_db()
    lifecycle.advance(run)

    run = ended(run)
    assert run.state == State.FAILED
    assert run.failure.startswith("It was not ready within 20m")


def test_a_start_may_take_for_ever_unless_its_profile_says_otherwise(
    server: Callable[..., Server],
) -> None:
    run = started(server(env={"ENGINE_SECONDS": "600"}))
    Run.objects.filter(pk=run.pk).update(started_at=timezone.now() - timedelta(days=1))
    run.refresh_from_db()

    lifecycle.advance(run)

    run.refresh_from_db()
    assert (run.state, run.wanted) == (State.STARTING, Wanted.RUNNING)


def test_a_running_server_cannot_be_removed(server: Callable[..., Server]) -> None:
    one = server()
    started(one)

    assert not lifecycle.remove(one, by=factories.person())


def test_removing_clears_the_container(
    server: Callable[..., Server], docker: Docker, ended: Callable[[Run], Run]
) -> None:
    one = server(env={"ENGINE_SCRIPT": "crash"})
    ended(started(one))

    assert lifecycle.remove(one, by=factories.person())
    lifecycle.clear(one.box)
    assert len(docker.list_ours()) == 1, "its log was not read to the end yet"

    one.runs.update(log_complete=True)
    lifecycle.clear(one.box)
    assert docker.list_ours() == []
    assert one.runs.count() == 1


def test_no_message_is_needed_while_redis_is_away(
    server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path
) -> None:
    one = server()
    gone = redis.Redis(unix_socket_path=f"{tmp_path}/none.sock")
    monkeypatch.setattr("servers.live.store.client", gone)

    assert started(one).state == State.STARTING
