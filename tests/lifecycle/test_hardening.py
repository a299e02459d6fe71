"""What an engine's container can no longer do, and what becomes of a Docker that cannot do that."""

from collections.abc import Callable
from typing import Any

import pytest

from servers.host.docker import throwaway
from servers.host.docker.containers import ContainerError, DockerContainers, Spec
from servers.judge.runs.limits import DROPPED, NO_NEW_PRIVILEGES, PIDS
from servers.lifecycle.runs import creation, starts
from servers.models.runs.run import ManagedRun, ManagedServer, RunState
from tests.lifecycle.starts import started

pytestmark = [pytest.mark.docker, pytest.mark.django_db(transaction=True)]

# What an editor's profile may run, and each line that it prints is something it got.
ATTACKS = r"""
import os, socket, subprocess
def attack(name, do):
    try:
        do()
        print("GOT", name)
    except OSError as error:
        print("refused", name, error.strerror)
attack("packets", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x300))
attack("device", lambda: os.mknod("/tmp/null", 0o020600, os.makedev(1, 3)))
attack("chroot", lambda: os.chroot("/tmp"))
open("/tmp/f", "w").close()
attack("file capability", lambda: os.setxattr("/tmp/f", "security.capability",
    bytes.fromhex("0100000200200000000000000000000000000000")))
os.chown("/tmp/f", 5, 5); os.chmod("/tmp/f", 0o4755); os.kill(os.getpid(), 0)
print("kept what engines need")
for line in open("/proc/self/status"):
    if line.startswith("NoNewPrivs"):
        print(line.replace("\t", " ").strip())
for path in ("/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max"):
    if os.path.exists(path):
        print("pids", open(path).read().strip())
"""


def attacker(server: Callable[..., ManagedServer], **launch: Any) -> ManagedServer:
    return server(entrypoint=("python3", "-c", ATTACKS), **launch)


def test_an_editors_container_reads_no_packets_and_gains_no_rights(
    server: Callable[..., ManagedServer], ended: Callable[[ManagedRun], ManagedRun], settings: Any
) -> None:
    """As root in it, with box.toml's defaults: what a log-in on loopback was sniffed with."""
    settings.BOX_FILE.write_text("pids_limit = 512\n")

    run = ended(started(attacker(server)))
    said = "\n".join(run.log.last_lines)

    assert "kept what engines need" in said, run.failure
    assert "GOT" not in said, said
    assert said.count("refused") >= 4
    assert "NoNewPrivs: 1" in said
    assert "pids 512" in said


def test_a_profile_may_ask_for_more_and_box_toml_decides(
    server: Callable[..., ManagedServer], ended: Callable[[ManagedRun], ManagedRun], settings: Any
) -> None:
    asked = {"cap_add": ("NET_RAW",), "security_opt": ("no-new-privileges:false",)}

    run = started(attacker(server, name="asks", **asked))
    assert run.state == RunState.FAILED
    assert "allow capability NET_RAW`" in run.failure
    assert "allow security_opt no-new-privileges:false`" in run.failure

    settings.BOX_FILE.write_text(
        'cap_add = ["NET_RAW"]\nsecurity_opt = ["no-new-privileges:false"]\npids_limit = 0\n'
    )
    said = "\n".join(ended(started(attacker(server, name="gets", **asked))).log.last_lines)

    assert "GOT packets" in said
    assert "refused device" in said
    assert "NoNewPrivs: 0" in said
    assert "pids max" in said


def test_what_docker_refuses_is_left_out_and_named(
    docker: DockerContainers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under snap's Docker, where no program starts with no-new-privileges."""
    tried: list[Spec] = []
    real = throwaway.read_trial_status

    def refuses(at: DockerContainers, spec: Spec, **more: Any) -> dict[str, str]:
        tried.append(spec)
        if NO_NEW_PRIVILEGES in spec.security_opt:
            raise ContainerError("It was not started.", detail="operation not permitted")
        return real(at, spec, **more)

    monkeypatch.setattr(throwaway, "read_trial_status", refuses)
    monkeypatch.setattr(starts, "_known", {})

    found = starts.list_unsupported(docker)
    once = len(tried)
    spec = starts.harden(docker, Spec(image="x"), creation.read_limits())

    assert found == {"no-new-privileges": "operation not permitted"}
    assert len(tried) == once, "it is tried once"
    assert spec.security_opt == ()
    assert spec.cap_drop == DROPPED
    assert spec.pids_limit == PIDS
    assert (
        docker._api.containers(
            all=True,
            filters={"label": [f"inferdash.install={docker.install}", "inferdash.question"]},
        )
        == []
    )


def test_a_docker_that_cannot_be_asked_is_asked_again(
    docker: DockerContainers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starts, "_known", {})

    def away(*_: Any, **__: Any) -> dict[str, str]:
        raise ContainerError("Docker does not answer.", kind="timeout")

    with monkeypatch.context() as gone:
        gone.setattr(throwaway, "read_trial_status", away)
        with pytest.raises(ContainerError):
            starts.list_unsupported(docker)

    assert starts.list_unsupported(docker) == {}


def test_a_right_that_docker_only_says_to_take_is_told(
    docker: DockerContainers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starts, "_known", {})
    all_rights = {"CapBnd": "00000000a80425fb", "NoNewPrivs": "0"}
    monkeypatch.setattr(throwaway, "read_trial_status", lambda *_args, **_more: all_rights)

    assert set(starts.list_unsupported(docker)) == {"capabilities", "no-new-privileges"}


def test_a_box_whose_own_shell_runs_in_no_container_is_tried_without_a_program(
    docker: DockerContainers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where programs lie in a place of the distribution's own."""
    monkeypatch.setattr(starts, "_known", {})
    monkeypatch.setattr(throwaway, "PROGRAMS", ())

    assert starts.list_unsupported(docker) == {}
