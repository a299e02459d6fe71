"""The only module that connects to Docker Engine by its library; its errors become our own."""

import base64
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import docker
import requests
from docker.auth import get_config_header, resolve_repository_name
from docker.errors import APIError, DockerException, NotFound

from servers.host.docker.errors import translate
from servers.host.docker.socket import DockerSocketError

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
            client = self._clients.client = self._connect()
        return client

    def _connect(self) -> docker.APIClient:
        return docker.APIClient(base_url=self.host, version="auto", timeout=TIMEOUT)

    def close(self) -> None:
        """Close this thread's connections; the next call opens new ones."""
        client: docker.APIClient | None = getattr(self._clients, "client", None)
        if client is not None:
            client.close()
            del self._clients.client

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
