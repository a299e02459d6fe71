"""The only module that connects to Docker Engine: client, socket, requests, events; its errors become our own."""

import base64
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import docker
import requests
from docker.auth import get_config_header, resolve_repository_name
from docker.errors import APIError, DockerException, NotFound

from servers.host.docker.facts import Event, translate
from servers.launch.spec import Port, Spec

_RECEIVE = 1 << 18  # bytes; more than a Unix socket holds
_SUCCESS = (b"200", b"201", b"204")
_ANSWER_WITHIN = 120.0  # seconds; from then on silence is normal


class DockerSocketError(Exception):
    """Docker refused or broke off; the text is Docker's own or the kernel's."""


class DockerResponse:
    """The body of Docker's answer. close() ends it at once, also from another thread.

    Docker does what was asked for as long as somebody listens: a pull ends with its answer.
    Raises DockerSocketError when Docker does not answer with success.
    """

    def __init__(
        self,
        host: str,
        path: str,
        *,
        method: str = "GET",
        headers: dict[str, str] | None = None,
        body: bytes = b"",
        content_type: str = "application/json",
        silence: float | None = None,
    ) -> None:
        """`silence`: seconds without a byte after which it breaks off; None: that is normal."""
        self._lock = threading.Lock()
        self._is_receiving = False
        self.is_closed = False
        try:
            self._socket = _connect(host)
        except OSError as error:
            raise DockerSocketError(str(error)) from error
        try:
            # HTTP/1.0: no chunks around the stream.
            lines = [f"{method} {path} HTTP/1.0", "Host: docker"]
            lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
            if body:
                lines += [f"Content-Type: {content_type}", f"Content-Length: {len(body)}"]
            self._socket.sendall("\r\n".join([*lines, "", ""]).encode() + body)
            self._first = self._head()
            self._socket.settimeout(silence)
        except OSError as error:
            self._socket.close()
            raise DockerSocketError(str(error)) from error
        except DockerSocketError:
            self._socket.close()
            raise

    def receive(self) -> bytes:
        """The next bytes; empty at the end, and when it was closed."""
        if self._first:
            first, self._first = self._first, b""
            return first
        with self._lock:
            if self.is_closed:
                return b""
            self._is_receiving = True
        try:
            return self._socket.recv(_RECEIVE)
        except OSError as error:
            raise DockerSocketError(str(error)) from error
        finally:
            with self._lock:
                self._is_receiving = False
                if self.is_closed:
                    self._socket.close()

    def read(self) -> bytes:
        """All that is still to come."""
        return b"".join(iter(self.receive, b""))

    def lines(self) -> Iterator[bytes]:
        """Line by line, without the empty ones."""
        buffer = b""
        while received := self.receive():
            *lines, buffer = (buffer + received).split(b"\n")
            yield from filter(bytes.strip, lines)
        if buffer.strip():
            yield buffer

    def close(self) -> None:
        with self._lock:
            self.is_closed = True
            if self._is_receiving:
                # The number of a closed socket could be given to another one under recv():
                # whoever receives is woken, and closes.
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)
            else:
                self._socket.close()

    def _head(self) -> bytes:
        """Read the head; returns what came after it."""
        received = bytearray()
        while b"\r\n\r\n" not in received:
            more = self._socket.recv(_RECEIVE)
            if not more:
                raise DockerSocketError("Docker closed the connection without an answer.")
            received += more
        head, _blank, body = bytes(received).partition(b"\r\n\r\n")
        if head.split(b" ", 2)[1] not in _SUCCESS:
            while more := self._socket.recv(_RECEIVE):
                body += more
            raise DockerSocketError(_message(body) or head.decode())
        return body


def _message(body: bytes) -> str:
    text = body.decode(errors="replace").strip()
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text


def _connect(host: str) -> socket.socket:
    parts = urlsplit(host)
    if parts.scheme in ("unix", "http+unix"):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(_ANSWER_WITHIN)
        try:
            connection.connect(parts.path or parts.netloc)
        except OSError:
            connection.close()
            raise
        return connection
    return socket.create_connection(
        (parts.hostname or "", parts.port or 2375), timeout=_ANSWER_WITHIN
    )


__all__ = [
    "APIError",
    "DockerClient",
    "RegistryAuth",
    "NotFound",
    "server_address",
    "translate_errors",
]

DEFAULT_HOST = "unix:///var/run/docker.sock"
TIMEOUT = 60  # seconds; creating a container of a large image takes a while


@dataclass(frozen=True, kw_only=True)
class RegistryAuth:
    """Who is let in at a registry, which is called as in references: docker.io, ghcr.io."""

    registry: str
    username: str
    password: str = field(repr=False)

    def to_json(self) -> dict[str, str]:
        return {
            "username": self.username,
            "password": self.password,
            "serveraddress": server_address(self.registry),
        }

    @property
    def header(self) -> str:
        """What Docker takes as X-Registry-Auth."""
        return base64.urlsafe_b64encode(json.dumps(self.to_json()).encode()).decode()


def server_address(registry: str) -> str:
    """How Docker calls a registry where it keeps log-ins."""
    return "https://index.docker.io/v1/" if registry == "docker.io" else registry


class DockerClient:
    """A connection a thread, made on first use.

    `logins` are those that inferdash itself keeps, asked for anew each time.
    """

    def __init__(
        self, host: str = "", logins: Callable[[], list[RegistryAuth]] | None = None
    ) -> None:
        self.host = host or os.environ.get("DOCKER_HOST") or DEFAULT_HOST
        self.logins: Callable[[], list[RegistryAuth]] = logins or list
        self._clients = threading.local()

    @property
    def _api(self) -> docker.APIClient:
        client: docker.APIClient | None = getattr(self._clients, "client", None)
        if client is None:
            client = docker.APIClient(base_url=self.host, version="auto", timeout=TIMEOUT)
            self._clients.client = client
        return client

    def close(self) -> None:
        """Close this thread's connections; the next call opens new ones."""
        client: docker.APIClient | None = getattr(self._clients, "client", None)
        if client is not None:
            client.close()
            del self._clients.client

    def _inspect(self, container: str) -> dict[str, Any] | None:
        """By its id or name, as Docker says it; None when there is none."""
        with translate_errors("a look at the container"):
            try:
                found: dict[str, Any] = self._api.inspect_container(container)
            except NotFound:
                return None
        return found

    def _login(self, repository: str) -> dict[str, str]:
        """What inferdash keeps for the registry, else what `docker login` has stored."""
        registry, _name = resolve_repository_name(repository)
        for login in self.logins():
            if login.registry == registry:
                return {"X-Registry-Auth": login.header}
        header = get_config_header(self._api, registry)
        return {"X-Registry-Auth": header.decode()} if header else {}


@contextmanager
def translate_errors(doing: str) -> Iterator[None]:
    """Raises ContainerError for what the library raises; see docker_errors."""
    try:
        yield
    except APIError as error:
        raise translate(str(error.explanation or error), doing=doing) from error
    except (DockerException, DockerSocketError, requests.RequestException) as error:
        raise translate(str(error), doing=doing) from error


def creation(spec: Spec) -> dict[str, Any]:
    """What docker-py's create_container() takes."""
    return {
        "image": spec.image,
        "command": list(spec.command),
        "name": spec.name or None,
        "hostname": spec.hostname or None,
        "entrypoint": list(spec.entrypoint) if spec.entrypoint else None,
        "environment": spec.env,
        "labels": spec.labels,
        "ports": [port.container_port for port in spec.ports],
        "user": spec.user or None,
        "working_dir": spec.workdir or None,
        "stop_signal": spec.stop_signal or None,
        "host_config": _host_config(spec),
    }


def _host_config(spec: Spec) -> dict[str, Any]:
    """Binds go as mounts: Docker then refuses a source that is missing, and creates none."""
    return {
        "PortBindings": _bindings(spec.ports),
        "Mounts": [
            {
                "Type": mount.kind,
                "Source": mount.source,
                "Target": mount.target,
                "ReadOnly": mount.read_only,
            }
            for mount in spec.mounts
        ],
        "NetworkMode": spec.network,
        "IpcMode": spec.ipc,
        "PidMode": spec.pid,
        "ShmSize": spec.shm_size or 0,
        "Memory": spec.memory or 0,
        "PidsLimit": spec.pids_limit,
        "Ulimits": [{"Name": name, "Soft": n, "Hard": n} for name, n in spec.ulimits.items()],
        "DeviceRequests": _gpus(spec),
        "Runtime": spec.runtime,
        "CapAdd": list(spec.cap_add),
        "CapDrop": list(spec.cap_drop),
        "Privileged": spec.privileged,
        "CpusetCpus": spec.cpuset_cpus,
        "Devices": [_device(text) for text in spec.devices],
        "SecurityOpt": list(spec.security_opt),
        "GroupAdd": list(spec.group_add),
        "ExtraHosts": list(spec.extra_hosts),
        "Tmpfs": dict(folder.partition(":")[::2] for folder in spec.tmpfs),
        "Init": spec.init,
        "RestartPolicy": {"Name": spec.restart},
        "LogConfig": {
            "Type": "json-file",
            "Config": {"max-size": spec.log_max_size, "max-file": str(spec.log_max_files)},
        },
    }


def _bindings(ports: tuple[Port, ...]) -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = {}
    for port in ports:
        address = {"HostIp": port.host_ip, "HostPort": str(port.host_port or "")}
        found.setdefault(f"{port.container_port}/tcp", []).append(address)
    return found


def _gpus(spec: Spec) -> list[dict[str, Any]]:
    if spec.gpus == "none":
        return []
    request: dict[str, Any] = {"Capabilities": [list(spec.gpu_capabilities)]}
    if spec.gpus == "all":
        return [request | {"Count": -1}]
    if spec.gpu_count:
        return [request | {"Count": spec.gpu_count}]
    return [request | {"DeviceIDs": spec.gpus.split(",")}]


def _device(text: str) -> dict[str, str]:
    """host[:container[:permissions]], as `docker run --device` takes it."""
    host, _, rest = text.partition(":")
    container, _, permissions = rest.partition(":")
    return {
        "PathOnHost": host,
        "PathInContainer": container or host,
        "CgroupPermissions": permissions or "rwm",
    }


class EventStream:
    """An iterator over events, without end. close() ends it, also from another thread.

    Raises ContainerError when Docker goes away.
    """

    def __init__(self, answer: DockerResponse) -> None:
        self._answer = answer

    def close(self) -> None:
        self._answer.close()

    def __iter__(self) -> Iterator[Event]:
        with translate_errors("its events"), closing(self._answer):
            for line in self._answer.lines():
                yield Event.from_docker(json.loads(line))
            if not self._answer.is_closed:
                raise translate("Remote end closed connection", doing="its events")
