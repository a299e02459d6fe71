"""Docker's events as they happen."""

import json
from collections.abc import Iterator
from contextlib import closing

from servers.host.docker.errors import translate
from servers.host.docker.facts import Event
from servers.host.docker.socket import DockerResponse, DockerSocketError


class EventStream:
    """An iterator over events, without end. close() ends it, also from another thread.

    Raises ContainerError when Docker goes away.
    """

    def __init__(self, answer: DockerResponse) -> None:
        self._answer = answer

    def close(self) -> None:
        self._answer.close()

    def __iter__(self) -> Iterator[Event]:
        with closing(self._answer):
            try:
                for line in self._answer.lines():
                    yield Event.from_docker(json.loads(line))
            except DockerSocketError as error:
                raise translate(str(error), doing="its events") from error
            if not self._answer.is_closed:
                raise translate("Remote end closed connection", doing="its events")
