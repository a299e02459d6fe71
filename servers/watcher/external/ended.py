"""External containers that served an engine and have ended, with their logs."""

import logging
import time
from collections.abc import Iterator

from servers.host.docker.containers import ContainerError
from servers.host.external.containers import ExternalContainer
from servers.judge.external.engines import DiscoveredEngine
from servers.judge.external.origin import Origin
from servers.launch.commandline import engine_flags, engine_words
from servers.launch.commandline.inspect import command_of
from servers.launch.engines import ENGINES
from servers.lifecycle.external import ContainerWorkload
from servers.lifecycle.external.exit_diagnosis import Autopsies
from servers.lifecycle.runs import creation
from servers.models import Box

log = logging.getLogger(__name__)

# What has ended stays as it is, and whoever starts it is heard of; but a message may be lost.
EVERY = 60.0


class EndedEngines:
    def __init__(self, box: Box) -> None:
        self._autopsies = Autopsies(box)
        self._known: dict[str, ExternalContainer] = {}
        self._found: dict[str, DiscoveredEngine | None] = {}
        self._read_at = float("-inf")

    def forget(self, container_id: str) -> None:
        """Something has happened to it."""
        self._known.pop(container_id, None)
        self._found.pop(container_id, None)

    def find(self) -> Iterator[DiscoveredEngine]:
        """Those that named an engine in their command or image. Raises ContainerError."""
        if time.monotonic() - self._read_at >= EVERY:
            self._known, self._found = {}, {}
            self._read_at = time.monotonic()
        others = creation.docker().list_ended(self._known)
        self._known = {other.container.id: other for other in others}
        self._autopsies.begin(self._known)
        for other in others:
            key = other.container.id
            if key not in self._found:
                self._found[key] = _inspect_safely(other)
            if (each := self._found[key]) is not None:
                yield self._autopsies.add_reason(each, ContainerWorkload(other))


def _inspect_safely(other: ExternalContainer) -> DiscoveredEngine | None:
    """As foreign.ExternalEngines looks at what runs."""
    try:
        return _inspect(other)
    except ContainerError:
        raise
    except Exception:
        log.exception("What ran in %s cannot be read", other.container.name)
        return None


def _inspect(other: ExternalContainer) -> DiscoveredEngine | None:
    image = creation.docker().made_from(other.container.image_id)
    command = command_of(other.inspected, image)
    words = engine_words.engine_words(command) if command.engine else None
    if command.engine is None or words is None:
        return None
    container = other.container
    said = engine_flags.split(command.engine, words, command.env)
    return DiscoveredEngine(
        container=container.id,
        name=container.name,
        image=other.image,
        engine=command.engine,
        answer="ended",
        models=model(said.checkpoint),
        port=said.port_number or ENGINES[command.engine].default_port,
        started_at=container.started_at.timestamp() if container.started_at else None,
        ended_at=container.finished_at.timestamp() if container.finished_at else None,
        exit_code=container.exit_code,
        oom_killed=container.oom_killed,
        origin=Origin.from_labels(container.labels, other.policy),
    )


LONGEST_MODEL = 200


def model(said: str | None) -> tuple[str, ...]:
    """The model that an engine's words name, if they name one."""
    return (said[:LONGEST_MODEL],) if said else ()
