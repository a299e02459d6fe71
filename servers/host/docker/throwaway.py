"""Throwaway containers and trials: a command run in an image, by default without network, mounts or GPUs."""

import json
import os
import struct
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, urlencode

from servers.host.docker.client import DockerResponse, DockerSocketError, translate_errors
from servers.host.docker.containers import QUESTION, ContainerError, DockerContainers, Mount, Spec
from servers.host.docker.facts import translate
from servers.host.logs import LogStreamError

_HEADER = struct.Struct(">BxxxL")
_LOOK_EVERY = 0.5  # seconds
# It comes after everything else on the box: while others want all processors, 13 s take minutes.
_TIMES_LONGER_WHILE_BUSY = 6
_ENV = {
    "HOME": "/tmp",  # noqa: S108 - the only folder that the container may write to
    # One line a paragraph: a wrapped one would be put together again with its hyphens apart.
    "COLUMNS": "100000",
    # A Docker whose own runtime is NVIDIA's would give its GPUs to every CUDA image.
    "NVIDIA_VISIBLE_DEVICES": "void",
    # Libraries start a thread a core, and the box may have hundreds.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}

type End = Literal["ended", "late", "long", "memory", "given_up"]


@dataclass(frozen=True, kw_only=True)
class ContainerCommand:
    image: str  # a reference or an id
    words: tuple[str, ...]  # program and arguments, instead of the image's own
    # On a box that is not busy. From a cold disk, an engine's libraries take minutes to load.
    seconds: float = 300
    memory: int = 4 << 30  # bytes
    pids: int = 1024
    longest: int = 1 << 20  # bytes of output
    # Whoever may write to /proc/sys has the box: only for what the box itself holds.
    sets_kernel: bool = False
    reads: tuple[str, ...] = ()  # folders of the box, at the same place and read only


@dataclass(frozen=True, kw_only=True)
class ContainerOutput:
    """How it ended: by itself, or killed for the time, the output or the memory it took."""

    end: End
    exit_code: int | None = None  # None unless it ended by itself
    output: str = ""
    errors: str = ""
    took: float = field(default=0.0, compare=False)  # seconds


def ask(
    docker: DockerContainers,
    question: ContainerCommand,
    *,
    go_on: Callable[[], bool] = lambda: True,
) -> ContainerOutput:
    """Run the words and return what they said. Ends early when `go_on` returns False.

    Without network, GPUs and capabilities, with no mounts but those it reads, on a read-only
    root, with limits; nothing is pulled and nothing is left. Raises ContainerError when Docker refuses.
    """
    return _listen_to(docker, _create(docker, question), question.seconds, question.longest, go_on)


def ask_beside(
    docker: DockerContainers,
    spec: Spec,
    *,
    of: str,
    seconds: float,
    longest: int = 1 << 20,
    go_on: Callable[[], bool] = lambda: True,
) -> ContainerOutput:
    """Run a container as it is asked for, and return what it said. `seconds` and `longest` (bytes
    of output) as of a ContainerCommand; `of` is what drop_leftovers() knows it by.

    Whoever calls has checked it against what the box allows. Nothing is left. Raises ContainerError
    when Docker refuses.
    """
    labels = {"inferdash.install": docker.install, QUESTION: of}
    made = docker.create(replace(spec, name="", labels=labels))
    return _listen_to(docker, made, seconds, longest, go_on)


def _listen_to(
    docker: DockerContainers,
    container_id: str,
    seconds: float,
    longest: int,
    go_on: Callable[[], bool],
) -> ContainerOutput:
    try:
        with closing(_Listener(docker.host, container_id, longest)) as listener:
            docker.start(container_id)
            listener.start()
            started = time.monotonic()
            said = _follow(docker, container_id, listener, seconds, go_on)
            return replace(said, took=time.monotonic() - started)
    finally:
        docker.remove(container_id)


def drop_leftovers(docker: DockerContainers, of: str = "yes") -> int:
    """Remove what a killed process of this install has left; how many. Raises ContainerError."""
    labels = [f"inferdash.install={docker.install}", f"{QUESTION}={of}"]
    query = urlencode({"all": "1", "filters": json.dumps({"label": labels})})
    found = _json(docker.host, f"/containers/json?{query}", doing="a list of containers")
    for each in found:
        docker.remove(each["Id"])
    return len(found)


def _create(docker: DockerContainers, question: ContainerCommand) -> str:
    image = docker.image(question.image)
    if image is None:
        raise ContainerError(f"{question.image} is not on this box.", kind="no_image")
    body: dict[str, Any] = {
        "Image": question.image,
        "Entrypoint": list(question.words),
        "Cmd": [],
        "Env": [f"{name}={value}" for name, value in _ENV.items()],
        "Labels": {"inferdash.install": docker.install, QUESTION: "yes"},
        "NetworkDisabled": True,
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": {
            "NetworkMode": "none",
            "ReadonlyRootfs": True,
            # In the container's own memory. A volume of the image's would be the box's disk.
            "Tmpfs": dict.fromkeys(("/tmp", *image.volumes), "size=64m,mode=1777"),  # noqa: S108
            "Binds": [f"{folder}:{folder}:ro" for folder in question.reads],
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "Memory": question.memory,
            "MemorySwap": question.memory,  # together: no swap
            "PidsLimit": question.pids,
            "ShmSize": 16 << 20,
            "CpuShares": 64,  # of 1024: whatever else runs comes first
            "Ulimits": [{"Name": "core", "Soft": 0, "Hard": 0}],
            # Read from the socket alone: no output, however long, reaches the disk.
            "LogConfig": {"Type": "none"},
        },
    }
    if question.sets_kernel:
        # Docker's usual list without /proc/sys; the kernel asks for user 0 there, and no more.
        host: dict[str, Any] = body["HostConfig"]
        host["ReadonlyPaths"] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sysrq-trigger"]
        body["User"] = "0"
    made = _json(docker.host, "/containers/create", body, doing="to create the container")
    return str(made["Id"])


def _follow(
    docker: DockerContainers,
    container_id: str,
    listener: "_Listener",
    seconds: float,
    go_on: Callable[[], bool],
) -> ContainerOutput:
    started = time.monotonic()
    while True:
        listener.join(_LOOK_EVERY)
        if listener.is_cut:
            return listener.build_output("long")
        if not listener.is_alive():
            container = docker.inspect(container_id)
            if container is None:
                raise ContainerError("The container was removed by somebody.", kind="no_container")
            end: End = "memory" if container.oom_killed else "ended"
            return listener.build_output(end, exit_code=container.exit_code)
        if _is_late(time.monotonic() - started, seconds):
            return listener.build_output("late")
        if not go_on():
            return listener.build_output("given_up")


def _is_late(took: float, limit: float) -> bool:
    is_busy = os.getloadavg()[0] > (os.cpu_count() or 1)
    return took > limit * (_TIMES_LONGER_WHILE_BUSY if is_busy else 1)


class _Listener(threading.Thread):
    """Takes in what the container says, up to a limit, and lives until the container has ended.

    What is over the limit is not read. A program may close its output long before it ends.
    """

    def __init__(self, host: str, container_id: str, longest: int) -> None:
        super().__init__(name="throwaway", daemon=True)
        self.longest = longest
        self.is_cut = False
        self._text = {1: bytearray(), 2: bytearray()}
        self._error: DockerSocketError | None = None
        self._is_closed = False
        self._host = host
        self._path = f"/containers/{quote(container_id)}"
        path = f"{self._path}/attach?stream=1&stdout=1&stderr=1"
        with translate_errors("to listen to the container"):
            self._answer = DockerResponse(host, path, method="POST")

    def run(self) -> None:
        buffer = bytearray()
        received = 0
        try:
            while more := self._answer.receive():
                received += len(more)
                buffer += more
                self._take_frames(buffer)
                if received > self.longest:
                    self.is_cut = True
                    return
            self._await_end()
        except DockerSocketError as error:
            self._error = error

    def _await_end(self) -> None:
        self._answer.close()
        if self._is_closed:
            return
        with closing(DockerResponse(self._host, f"{self._path}/wait", method="POST")) as waiting:
            self._answer = waiting
            if not self._is_closed:  # or else close() may have met the one before
                while waiting.receive():
                    pass

    def _take_frames(self, buffer: bytearray) -> None:
        while len(buffer) >= _HEADER.size:
            stream, length = _HEADER.unpack_from(buffer)
            end = _HEADER.size + length
            if len(buffer) < end:
                return
            self._text[2 if stream == 2 else 1] += buffer[_HEADER.size : end]
            del buffer[:end]

    def build_output(self, end: End, *, exit_code: int | None = None) -> ContainerOutput:
        if self._error is not None:
            raise translate(str(self._error), doing="to listen to the container")
        output, errors = (_text(self._text[n]) for n in (1, 2))
        return ContainerOutput(
            end=end,
            exit_code=exit_code if end == "ended" else None,
            output=output,
            errors=errors,
        )

    def close(self) -> None:
        self._is_closed = True
        self._answer.close()
        if self.ident is not None:
            self.join()


def _json(host: str, path: str, body: dict[str, Any] | None = None, *, doing: str) -> Any:
    content = json.dumps(body).encode() if body is not None else b""
    try:
        with closing(
            DockerResponse(host, path, method="POST" if body is not None else "GET", body=content)
        ) as answer:
            received = answer.read()
    except DockerSocketError as error:
        raise translate(str(error), doing=doing) from error
    try:
        return json.loads(received)
    except ValueError as error:
        told = "Docker closed the connection without an answer."
        raise translate(told, doing=doing) from error


def _text(received: bytearray) -> str:
    # No database keeps a NUL in a text.
    return received.decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")


# Where a shell and its libraries are. The one of an image might say anything.
PROGRAMS = ("/bin", "/lib", "/lib64", "/usr")
_SAYS = 'while read -r line; do echo "$line"; done < /proc/self/status'
_OUR_FAULT = ("daemon_down", "no_permission", "timeout")


def list_program_folders(root: Path) -> tuple[str, ...]:
    """The box's folders in which a shell and its libraries are. `root` is where its "/" is seen."""
    return tuple(each for each in PROGRAMS if (root / each.lstrip("/")).exists())


def read_trial_status(
    docker: DockerContainers, spec: Spec, *, root: Path = Path("/")
) -> dict[str, str]:
    """What the kernel says of a program in a container with these options: /proc/self/status.

    The box's own shell is run, read only, without network; nothing is left. Creating and starting
    an empty image would not do: runtimes set some options only once there is a program to run.
    `root` is where this process sees the box's "/". Raises ContainerError: of the kinds
    daemon_down, no_permission and timeout when the box cannot be asked, else when its Docker
    refuses the options. Rule: proc_pid_status(5).
    """
    folders = list_program_folders(root)
    trial = replace(
        spec,
        image=docker.ensure_empty_image(),
        entrypoint=("/bin/sh", "-c", _SAYS),
        network="none",
        mounts=tuple(Mount(source=each, target=each, read_only=True) for each in folders),
        labels={"inferdash.install": docker.install, QUESTION: "yes"},
    )
    container = docker.run(trial)
    try:
        # Followed to its end, which is the container's.
        log = list(docker.logs(container.id, follow=True, with_rest=True))
    except LogStreamError as error:
        raise ContainerError(f"Docker broke off: {error}", kind="daemon_down") from error
    finally:
        docker.remove(container.id)
    lines = (text.decode(errors="replace").partition(":") for _at, _stream, text in log)
    return {name: value.strip() for name, _colon, value in lines}


def can_be_asked(error: ContainerError) -> bool:
    """Whether an error of status() says something of the options, and not of the moment."""
    return error.kind not in _OUR_FAULT
