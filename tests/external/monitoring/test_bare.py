"""Engines in no container are found by their command lines, with who would bring them back."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.host.kernel.proc import Kernel
from servers.host.kernel.processes import ProcessId, unit
from servers.judge.external.engines import DiscoveredEngine, Origin
from servers.watcher.external.processes import BareEngines

# Says that it is there, and forks as engines do.
PROGRAM = """
import os, sys
if os.fork() == 0:
    open('/proc/self/comm', 'w').write('VLLM::EngineCore')
print(os.getpid(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def venv(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    script = tmp_path / "bin" / "vllm"
    script.parent.mkdir()
    script.write_text(PROGRAM)
    words = [
        sys.executable,
        str(script),
        "serve",
        "Qwen/Qwen3-8B",
        "--port",
        "8123",
        "--api-key",
        "hush",
    ]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdin is not None
    process.stdout.readline()
    process.stdout.readline()
    yield process
    process.stdin.close()
    process.wait()
    process.stdout.close()


def of(pid: int) -> DiscoveredEngine:
    return next(each for each in BareEngines().find() if each.pid == pid)


def test_a_process_of_a_venv_is_found_with_its_descendants(
    venv: "subprocess.Popen[bytes]",
) -> None:
    found = of(venv.pid)

    assert (found.engine, found.models, found.port) == ("vllm", ("Qwen/Qwen3-8B",), 8123)
    assert found.name == f"process {venv.pid}"
    assert len(found.pids) == 2, "its worker is part of it, and not a second engine"
    assert "hush" not in found.command
    assert "--api-key •••" in found.command
    assert found.origin.user == Path(f"/proc/{venv.pid}").owner()
    assert DiscoveredEngine.from_json(found.to_json()) == found


def test_what_only_speaks_of_an_engine_is_none(tmp_path: Path) -> None:
    process = subprocess.Popen(["sleep", "600"])
    try:
        assert all(each.pid != process.pid for each in BareEngines().find())
        assert all(each.pid != os.getpid() for each in BareEngines().find())
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("cgroup", "told"),
    [
        ("0::/system.slice/vllm.service", "vllm.service"),
        ("12:pids:/x\n1:name=systemd:/system.slice/vllm.service/sub", "vllm.service"),
        ("0::/user.slice/user-1000.slice/session-3.scope", "session"),
        (
            "0::/user.slice/user-1000.slice/user@1000.service/app.slice/llm.service",
            "user: llm.service",
        ),
        ("0::/user.slice/user-1000.slice/user@1000.service/tmux-spawn-1.scope", "session"),
        ("0::/", ""),
    ],
)
def test_the_unit_is_read_from_the_cgroup(cgroup: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "proc/7").mkdir(parents=True)
    (tmp_path / "proc/7/cgroup").write_text(f"{cgroup}\n")

    assert unit(Kernel(root=tmp_path), 7) == told


def test_who_would_bring_a_process_back_is_told() -> None:
    by_unit = Origin(unit="vllm.service", user="svc")
    assert by_unit.started_by == "systemd unit vllm.service"
    assert by_unit.revived_by.endswith("systemctl disable --now vllm.service prevents that")
    own = Origin(unit="user: llm.service", user="ada")
    assert "systemctl --user disable --now llm.service" in own.revived_by
    by_hand = Origin(unit="session", user="ada")
    assert (by_hand.started_by, by_hand.revived_by) == (
        "ada, logged in",
        "Nothing starts it again by itself",
    )


def test_a_worker_of_ray_is_told_with_its_head(tmp_path: Path) -> None:
    script = tmp_path / "ray"
    script.write_text("import sys\nprint(flush=True)\nsys.stdin.read()")
    words = [sys.executable, str(script), "start", "--address=10.0.0.1:6379", "--block"]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdin is not None
    process.stdout.readline()
    bare = BareEngines()
    try:
        assert all(each.pid != process.pid for each in bare.find()), "it is no engine"
        (worker,) = (each for each in bare.workers if each.pid == process.pid)
        assert worker.head == "10.0.0.1:6379"
        assert ProcessId.parse(worker.key) is not None
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()
