"""The tests' own Docker Engine: own socket, folder and network; the system's is never touched.

By hand: `eval "$(python -m tests.docker_engine up)"` starts it and lets `docker` use it; it then
stays until `python -m tests.docker_engine down`. What its containers publish is reached from
inside its network alone: `python -m tests.namespace make up`.
"""

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from docker import APIClient

from tests import base_images, namespace

FOLDER = namespace.FOLDER
START_WITHIN = 90.0  # seconds
STOP_WITHIN = 90.0
SYSTEM_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin:/usr/libexec/docker:/usr/lib/docker"
HOOK = "nvidia-container-runtime-hook"
# What dockerd and containerd call by name.
PROGRAMS = (
    "containerd-shim-runc-v2",
    "docker-init",
    "docker-proxy",
    "ip6tables",
    "iptables",
    "modprobe",
    "ps",
    "runc",
    "tini",
)


class DockerEngineError(Exception):
    """The tests' engine does not come up; the text says why."""


@dataclass(frozen=True, kw_only=True)
class PrivateDockerEngine:
    folder: Path
    bridge: str = ""  # without one, containers have no network
    address: str = ""  # of the bridge
    gives_gpus: bool = True
    live_restore: bool = False  # containers go on while dockerd is restarted
    prefix: tuple[str, ...] = ()  # words before its commands, by which they run elsewhere

    @property
    def socket(self) -> Path:
        return self.folder / "docker.sock"

    @property
    def host(self) -> str:
        return f"unix://{self.socket}"

    def answers(self) -> bool:
        return _pings(self.socket)

    def up(self) -> str:
        """Start it unless it runs, and return DOCKER_HOST. Raises DockerEngineError."""
        # One in another namespace was left by a session that was killed.
        if namespace.holds(self._pid("dockerd")) and (
            # On a busy machine one that others use may take its time to answer.
            self.answers() or (self._is_up("dockerd") and _within(START_WITHIN, self.answers))
        ):
            return self.host
        self.folder.mkdir(parents=True, exist_ok=True)
        self.down()  # what a crash may have left
        bin_folder = self._bin()
        # An own containerd: dockerd would otherwise take the system's, where one runs, and
        # find the containers of the system's dockerd in it.
        containerd = self.folder / "containerd.sock"
        config = self.folder / "containerd.toml"
        config.write_text(
            f'version = 2\nroot = "{self.folder / "containerd"}"\n'
            f'state = "{self.folder / "containerd-state"}"\n'
            f'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n[grpc]\naddress = "{containerd}"\n'
        )
        self._start("containerd", bin_folder, [f"--config={config}"], containerd.is_socket)
        self.start_dockerd()
        self._empty()
        return self.host

    def _empty(self) -> None:
        """Remove what tests that were killed have left: Docker starts some of it again by itself,
        on the ports and with the files that another test is given."""
        with closing(APIClient(self.host, version="auto")) as client:
            for container in client.containers(all=True):
                client.remove_container(container["Id"], force=True, v=True)
            for volume in client.volumes()["Volumes"] or []:
                client.remove_volume(volume["Name"], force=True)
            client.prune_networks()  # type: ignore[no-untyped-call]

    def start_dockerd(self) -> None:
        """Start it beside its containerd, which runs."""
        self._start(
            "dockerd",
            self.folder / "bin",
            [
                f"--host={self.host}",
                f"--containerd={self.folder / 'containerd.sock'}",
                f"--data-root={self.folder / 'data'}",
                f"--exec-root={self.folder / 'exec'}",
                f"--pidfile={self.folder / 'docker.pid'}",
                f"--bridge={self._make_bridge()}",
                # Ports are published by docker-proxy; the rules of the system's Docker stay.
                "--iptables=false",
                "--ip6tables=false",
                "--ip-masq=false",
                *(["--live-restore"] if self.live_restore else []),
            ],
            self.answers,
        )

    def end_dockerd(self, how: signal.Signals) -> None:
        _end("dockerd", self._pid("dockerd"), how)
        self.socket.unlink(missing_ok=True)

    def down(self) -> None:
        """End it and what it runs. Images stay for the next time."""
        for program in ("dockerd", "containerd"):
            if self._is_up(program):
                _end(program, self._pid(program))
            (self.folder / f"{program}.started").unlink(missing_ok=True)
        self._unmount()
        for left in ("docker.sock", "docker.pid", "containerd.sock"):
            (self.folder / left).unlink(missing_ok=True)

    def _unmount(self) -> None:
        """What a dockerd that crashed has left mounted; one that ends in peace leaves nothing."""
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for mount in reversed(mounts):
            if Path(mount).is_relative_to(self.folder):
                subprocess.run(["umount", "--lazy", mount], check=True)

    def _pid(self, program: str) -> int:
        """The one that was started last; 0 when none was."""
        pidfile = self.folder / f"{program}.started"
        return int(pidfile.read_text() or 0) if pidfile.exists() else 0

    def _is_up(self, program: str) -> bool:
        return _is(program, self._pid(program))

    def _start(
        self, program: str, bin_folder: Path, arguments: list[str], is_up: Callable[[], bool]
    ) -> None:
        found = shutil.which(program, path=SYSTEM_PATH)
        if found is None:
            raise DockerEngineError(f"{program} is missing: apt-get install docker.io")
        log = self.folder / f"{program}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*self.prefix, found, *arguments],
                stdout=output,
                stderr=output,
                start_new_session=True,
                env=os.environ | {"PATH": str(bin_folder)},
            )
        _children[process.pid] = process
        (self.folder / f"{program}.started").write_text(str(process.pid))
        _within(START_WITHIN, lambda: is_up() or process.poll() is not None)
        if not is_up():
            end = "\n".join(log.read_text(errors="replace").splitlines()[-10:])
            raise DockerEngineError(f"{program} did not start; the end of {log}:\n{end}")

    def _bin(self) -> Path:
        """The daemons' PATH: what they need, and the hook by which Docker accepts --gpus."""
        folder = self.folder / "bin"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name in PROGRAMS:
            program = shutil.which(name, path=SYSTEM_PATH)
            if program:
                (folder / name).symlink_to(program)
        if self.gives_gpus:
            hook = folder / HOOK
            hook.write_text("#!/bin/sh\nexit 0\n")
            hook.chmod(0o755)
        return folder

    def _make_bridge(self) -> str:
        if not self.bridge:
            return "none"
        # /sys shows the interfaces of the machine, not those of the tests' namespace.
        if self._ip("link", "show", self.bridge).returncode:
            for words in (
                ("link", "add", self.bridge, "type", "bridge"),
                ("addr", "add", self.address, "dev", self.bridge),
                ("link", "set", self.bridge, "up"),
            ):
                self._ip(*words).check_returncode()
        return self.bridge

    def _ip(self, *words: str) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            [*self.prefix, "ip", *words],
            env=os.environ | {"PATH": SYSTEM_PATH},
            capture_output=True,
            check=False,
        )


ENGINE = PrivateDockerEngine(folder=FOLDER / "docker", bridge="ifdt0", address="172.29.241.1/24")
# Whose dockerd a test may end.
RESTARTED = PrivateDockerEngine(
    folder=FOLDER / "docker-restarted", bridge="ifdt1", address="172.29.242.1/24"
)
WITHOUT_GPUS = PrivateDockerEngine(folder=FOLDER / "docker-without-gpus", gives_gpus=False)
_children: dict[int, subprocess.Popen[bytes]] = {}
# A file: started by hand, so no test session ends it. In it, who keeps its namespace.
_KEPT = "kept"


@contextmanager
def lease(engine: PrivateDockerEngine = ENGINE) -> Iterator[str]:
    """DOCKER_HOST of a running engine with its images; the last one to leave ends it.

    Sessions of several people may share it.
    """
    namespace.enter()
    engine.folder.mkdir(parents=True, exist_ok=True)
    with (engine.folder / "users.lock").open("w") as users:
        with _alone(engine):
            fcntl.flock(users, fcntl.LOCK_SH)
            prepare(engine)
        try:
            yield engine.host
        finally:
            with _alone(engine):
                fcntl.flock(users, fcntl.LOCK_UN)
                if not namespace.holds(_keeper(engine)) and _is_unused(engine):
                    engine.down()


def _keeper(engine: PrivateDockerEngine) -> int:
    """Who keeps the namespace of one that was started by hand; 0 where it was not."""
    kept = engine.folder / _KEPT
    return int(kept.read_text() or 0) if kept.exists() else 0


def prepare(engine: PrivateDockerEngine) -> None:
    engine.up()
    if engine.folder == RESTARTED.folder:
        with lease() as host:
            base_images.copy_engine(host, engine.host)
    elif engine.bridge:
        base_images.build_engine(engine.host)


@contextmanager
def _alone(engine: PrivateDockerEngine) -> Iterator[None]:
    """Only one at a time starts or ends it."""
    with (engine.folder / "change.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_unused(engine: PrivateDockerEngine) -> bool:
    with (engine.folder / "users.lock").open("w") as users:
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _pings(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        try:
            client.connect(str(path))
            client.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return b"200 OK" in client.recv(64)
        except OSError:
            return False


def _end(program: str, pid: int, how: signal.Signals = signal.SIGTERM) -> None:
    os.kill(pid, how)
    if not _within(STOP_WITHIN, lambda: not _is(program, pid)):
        raise DockerEngineError(f"{program} (pid {pid}) does not end")
    if pid in _children:
        _children.pop(pid).wait()


def _within(seconds: float, is_so: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _is(program: str, pid: int) -> bool:
    """Whether this process runs, and is not another program that was given its number."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    name, _, rest = stat.partition("(")[2].rpartition(")")
    # A zombie has ended; nobody of ours need reap it.
    return name == program[:15] and rest.split()[0] != "Z"


def main(words: list[str]) -> None:
    match words:
        case ["up"]:
            namespace.enter()
            ENGINE.folder.mkdir(parents=True, exist_ok=True)
            with _alone(ENGINE):
                prepare(ENGINE)
                if not namespace.holds(_keeper(ENGINE)):
                    (ENGINE.folder / _KEPT).write_text(str(namespace.keep()))
            print(f"export DOCKER_HOST={ENGINE.host}")
        case ["down"]:
            with _alone(ENGINE):
                ENGINE.down()
                if _is("sleep", keeper := _keeper(ENGINE)):
                    os.kill(keeper, signal.SIGTERM)
                (ENGINE.folder / _KEPT).unlink(missing_ok=True)
        case ["env"] if ENGINE.answers():
            print(f"export DOCKER_HOST={ENGINE.host}")
        case ["env"]:
            sys.exit("It is not up: python -m tests.docker_engine up")
        case _:
            sys.exit("python -m tests.docker_engine up|down|env")


if __name__ == "__main__":
    main(sys.argv[1:])
