import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from servers import lifecycle
from servers.host.docker.containers import DockerContainers
from servers.lifecycle.runs import starts
from servers.models import Secret
from servers.models.runs.run import ManagedRun, ManagedServer, RunState
from tests import ports
from tests.lifecycle.starts import started

pytestmark = [pytest.mark.docker, pytest.mark.django_db(transaction=True)]


def test_a_folder_outside_the_boxs_limits_is_refused_also_behind_a_link(
    server: Callable[..., ManagedServer], docker: DockerContainers, tmp_path: Path
) -> None:
    (tmp_path / "innocent").symlink_to("/etc")

    run = started(server(volumes=(f"{tmp_path}/innocent:/x:ro",)))

    assert run.state == RunState.FAILED
    assert "leads to /etc" in run.failure
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
    server: Callable[..., ManagedServer],
    docker: DockerContainers,
    launch: dict[str, Any],
    says: str,
) -> None:
    run = started(server(**launch))

    assert run.state == RunState.FAILED
    assert says in run.failure
    assert docker.list_ours() == []


def test_a_volume_of_others_is_not_mounted(
    server: Callable[..., ManagedServer], docker: DockerContainers, settings: Any
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
    assert run.state == RunState.STARTING


def test_a_volume_is_made_for_profiles_and_used_again(
    server: Callable[..., ManagedServer], docker: DockerContainers
) -> None:
    for name in ("writes", "reads"):
        run = started(server(name=name, volumes=(f"shared-{docker.install}:/x",)))
        assert run.state == RunState.STARTING, run.failure


def test_the_data_folder_is_mounted_by_nobody(
    server: Callable[..., ManagedServer], settings: Any, tmp_path: Path
) -> None:
    settings.DATA = tmp_path / "inferdash"
    settings.DATA.mkdir()

    for name, source in (("one", settings.DATA), ("two", tmp_path)):
        run = started(server(name=name, volumes=(f"{source}:/x:ro",)))
        assert "inferdash's own" in run.failure


def test_a_network_without_ports_leads_nowhere_a_person_typed(
    server: Callable[..., ManagedServer], docker: DockerContainers
) -> None:
    """The cloud's metadata service answers on such an address, and Redis on such a port."""
    run = started(server(network="none", host_address="169.254.169.254", host_port=80))

    assert "publishes no ports" in run.failure
    assert starts.find_endpoint(run) is None
    assert docker.list_ours() == []


def test_the_address_is_the_one_that_docker_has_bound(
    server: Callable[..., ManagedServer], settings: Any
) -> None:
    run = started(server(host_address="0.0.0.0", env={"ENGINE_SECONDS": "30"}))

    assert run.state == RunState.STARTING
    assert run.address == "127.0.0.1"
    assert run.port in settings.ENGINE_PORTS


def test_on_the_boxs_network_nobody_else_passes_for_the_engine(
    server: Callable[..., ManagedServer], docker: DockerContainers
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        run = started(server(network="host", flags=("--port", str(port))))

    assert f"Port {port} of this box is taken by" in run.failure
    assert docker.list_ours() == []


def test_a_running_engine_keeps_the_hosts_network_and_the_next_start_is_told_the_line(
    server: Callable[..., ManagedServer], docker: DockerContainers, settings: Any
) -> None:
    """An older box.toml goes on to allow it; whoever tightens it stops nobody."""
    settings.MANAGE = "inferdash-manage"
    settings.BOX_FILE.write_text("# without a word on networks, as before\n")
    wanted = {"network": "host", "env": {"ENGINE_SECONDS": "30"}}

    run = started(server(name="old", flags=("--port", str(ports.free_port())), **wanted))
    assert run.state == RunState.STARTING, run.failure
    call_command("forbid", "host_network")
    lifecycle.observe(run)
    run.refresh_from_db()
    later = started(server(name="new", flags=("--port", str(ports.free_port())), **wanted))

    assert run.state == RunState.STARTING
    assert docker.inspect(run.container_id).state == "running"  # type: ignore[union-attr]
    assert "`inferdash-manage allow host_network`" in later.failure

    call_command("allow", "host_network")
    again = started(server(name="newer", flags=("--port", str(ports.free_port())), **wanted))
    assert again.state == RunState.STARTING, again.failure


def test_secrets_reach_the_container_and_nothing_else(
    server: Callable[..., ManagedServer], ended: Callable[[ManagedRun], ManagedRun]
) -> None:
    secret = Secret.seal("MY_TOKEN", "hunter2-value", None)
    run = started(
        server(
            secret_env={"MY_TOKEN": secret.pk},
            entrypoint=("/bin/sh", "-c", "echo the token is $MY_TOKEN; exit 3"),
        )
    )

    run = ended(run)

    assert any("the token is ••••••••" in line for line in run.log.last_lines)
    assert "hunter2-value" not in " ".join(run.start.command) + run.start.docker_run
    assert "-e MY_TOKEN " in run.start.docker_run
