"""The stop of an external container: once, by its name."""

from datetime import datetime

import requests

from servers.host.docker.client import APIError, NotFound, translate_errors
from servers.host.docker.errors import ContainerError
from servers.host.external.containers import DockerReader

GRACE = 60  # seconds between its stop signal and SIGKILL


class ExternalContainers(DockerReader):
    """Apart from Docker, which touches nothing without this install's label."""

    def __init__(self, install: str, host: str = "") -> None:
        super().__init__(host)
        self.install = install

    def stop(self, container_id: str, *, name: str, started_at: datetime | None) -> None:
        """As `docker stop` does; the container itself stays, with its log.

        `name` and `started_at` are what somebody has looked at and confirmed. Raises
        ContainerError, of the kind not_theirs where it is ours or something else by now.
        """
        found = self.other(container_id)
        if found is None or found.container.name != name or not found.is_life(started_at):
            raise ContainerError(
                f"{name} is not the container any more that was looked at: it was started anew, "
                "renamed or removed. Nothing was stopped.",
                kind="not_theirs",
            )
        with translate_errors(f"to stop {name}"):
            try:
                self._api.stop(container_id, timeout=GRACE)
            except NotFound:
                return
            except APIError as error:
                # It had ended by itself.
                if error.status_code != requests.codes.not_modified:
                    raise
