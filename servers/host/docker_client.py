"""The only module that connects to Docker Engine by its library; its errors become our own."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import docker
import requests
from docker.auth import get_config_header, resolve_repository_name
from docker.errors import APIError, DockerException, NotFound

from servers.host.docker_errors import translate
from servers.host.docker_socket import DockerSocketError

__all__ = ["APIError", "Client", "NotFound", "translated"]

DEFAULT_HOST = "unix:///var/run/docker.sock"
TIMEOUT = 60  # seconds; creating a container of a large image takes a while


class Client:
    """A connection a thread, made on first use."""

    def __init__(self, host: str = "") -> None:
        self.host = host or os.environ.get("DOCKER_HOST") or DEFAULT_HOST
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
        """What `docker login` has stored for the registry."""
        registry, _name = resolve_repository_name(repository)
        header = get_config_header(self._api, registry)
        return {"X-Registry-Auth": header.decode()} if header else {}


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raises ContainerError for what the library raises; see docker_errors."""
    try:
        yield
    except APIError as error:
        raise translate(str(error.explanation or error), doing=doing) from error
    except (DockerException, DockerSocketError, requests.RequestException) as error:
        raise translate(str(error), doing=doing) from error
