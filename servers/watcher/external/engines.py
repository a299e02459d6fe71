"""External engines on the box, and the monitored ones among them."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from servers import events
from servers.host.docker.containers import ContainerError, Event
from servers.host.external.containers import NO_WISH, ExternalContainer
from servers.host.kernel import processes
from servers.host.kernel.proc import Kernel
from servers.judge.external.engines import DiscoveredEngine, Origin
from servers.launch import numbers
from servers.launch.commandline import engine_words
from servers.launch.commandline.engine_words import split_engine_words
from servers.launch.commandline.inspect import command_of
from servers.launch.commandline.tokens import LaunchCommand
from servers.launch.engines import ENGINES
from servers.lifecycle import external
from servers.lifecycle.external import (
    ContainerWorkload,
    ExternalWorkload,
    ProcessWorkload,
    import_diff,
    monitoring,
)
from servers.lifecycle.runs import creation
from servers.lifecycle.runs.starts import find_key_in
from servers.models import Box, Run
from servers.models.runs.run import ENDED, RunState
from servers.watcher.external.discovery import (
    ContainerCache,
    DiscoveredLife,
    EngineDiscovery,
    EngineIdentity,
    ExternalUsage,
    Life,
)
from servers.watcher.external.other_workloads import (
    NOBODY,
    OtherWorkloadsMonitor,
    SystemdOwner,
    SystemdOwners,
)
from servers.watcher.external.processes import BareEngines, EndedEngines, ProcessTree
from servers.watcher.logs import follower

log = logging.getLogger(__name__)

# Seconds that a round waits for answers; what comes later is the next one's.
HEAR_FOR = 3.0
# Ports of a container that are asked, and those that are certainly something else: some of these
# complain in their logs about a question in HTTP.
MOST_PORTS = 4
_NOT_HTTP = (
    22,
    25,
    53,
    111,
    1433,
    2379,
    2380,
    3306,
    4222,
    5432,
    5672,
    6379,
    6650,
    9092,
    11211,
    27017,
)


class ExternalEngines:
    def __init__(self, box: Box, *, wake: Callable[[], None] = lambda: None) -> None:
        """`wake` has this looked for anew: a process that is watched has ended."""
        self.box = box
        self.belonging = ProcessTree(wake)
        self._acquaintances = EngineDiscovery()
        self._images: dict[str, Mapping[str, Any] | None] = {}
        self._bare = BareEngines()
        self._looks = ContainerCache()
        self._ended = EndedEngines(box)
        self._unwatched = ExternalUsage(box)
        self._attending = SystemdOwners()
        self._around = OtherWorkloadsMonitor(box)
        self._units: dict[str, SystemdOwner] = {}
        self._others: list[ExternalContainer] = []
        self._processes: list[DiscoveredEngine] = []
        self._past: list[DiscoveredEngine] = []  # containers that have ended
        self._trouble = ""

    def look(self, sample: Mapping[str, Any] | None) -> None:
        """One round: the watched ones, then whatever else runs.

        While Docker does not answer, processes are looked after all the same, and what was known of
        containers stays.
        """
        self._processes = list(self._bare.find())
        trouble = self._list_containers()
        running = list(self._list_found(self._others))
        # Until this round has looked for them, too, those of the last one.
        external.saw([*running, *self._past])
        unmonitored = self._find_unmonitored([] if trouble else self._others, running)
        try:
            monitoring.step(self.box, unmonitored, sample)
        except ContainerError as error:
            trouble = trouble or error
        self._let_go()
        if trouble is not None and str(trouble) != self._trouble:
            log.warning("What others run in containers is not known: %s", trouble)
        self._trouble = str(trouble or "")
        self._acquaintances.ask()
        self._acquaintances.hear(until=time.monotonic() + HEAR_FOR)
        self._tell(sample, trouble)
        self.belonging.follow(self.box)

    def _list_containers(self) -> ContainerError | None:
        """Those that run; where Docker cannot be asked, why, and they are those of the last time."""
        try:
            others = self._looks.list_running()
            self._study(others)
            self._units = self._attending.units(others)
        except ContainerError as error:
            self._study(self._others)
            return error
        self._others = others
        return None

    def _find_unmonitored(
        self, others: list[ExternalContainer], running: list[DiscoveredEngine]
    ) -> list[ExternalWorkload]:
        processes = [ProcessWorkload(found) for found in running if found.is_process]
        return [*map(ContainerWorkload, others), *processes]

    def _tell(self, sample: Mapping[str, Any] | None, trouble: ContainerError | None) -> None:
        running = list(self._list_found(self._others))
        self._point_runs(running)
        try:
            if trouble is None:
                self._past = list(self._ended.find())
                engines = {each.container for each in running}
                workers = self._bare.workers
                self._around.note(self._others, engines, self._units, sample, workers=workers)
        except ContainerError as error:
            log.warning("What else is on the box is not known: %s", error)
            trouble = error
        if trouble is not None:
            self._around.note_trouble(trouble, sample)
        found = [*self._count_requests(running), *self._past]
        external.saw(found)
        import_diff.follow(self.box, running)
        if external.renew_rows(self.box, found):
            events.publish_change("box", self.box.pk)

    def _count_requests(self, running: list[DiscoveredEngine]) -> list[DiscoveredEngine]:
        """With their requests, of those that nobody watches, while somebody looks."""
        keys = {key: known.key for (key, _began), known in self._acquaintances.iterate_known()}
        asked = {
            each.container: (each, keys.get(each.container, "")) for each in running if each.address
        }
        counts = self._unwatched.counts(asked)
        found = []
        for each in running:
            runs, waits = counts.get(each.container, (None, None))
            found.append(replace(each, running=runs, waiting=waits))
        return found

    def listens_anew(self) -> None:
        """What happened until now was perhaps not heard."""
        self._looks.forget_all()

    def note_event(self, event: Event) -> None:
        """Somebody's container has begun or ended."""
        self._ended.forget(event.container_id)
        self._looks.forget(event.container_id)
        if event.action == "kill":  # "stop" comes after the end, perhaps when it runs again
            if event.signal not in NO_WISH:
                monitoring.note_wish_to_end(event.container_id)
        elif (run := monitoring.of_container(self.box, event.container_id)) is not None:
            monitoring.look_surely(run, exit_code=event.exit_code)

    def _let_go(self) -> None:
        """Logs of runs that nobody watches any more."""
        followed = follower.list_followed_runs()
        over = Run.objects.filter_external().filter(
            pk__in=followed, state__in=ENDED, container_id="", log__is_complete=True
        )
        for pk in over.values_list("pk", flat=True):
            follower.let_go(pk)

    def _study(self, others: list[ExternalContainer]) -> None:
        lives: dict[Life, Callable[[], DiscoveredLife]] = {
            _life(other): partial(self._surviving_look, other, others) for other in others
        }
        lives |= {_moment(each): partial(self._bare.first_look, each) for each in self._processes}
        self._acquaintances.keep(lives)
        used = {other.container.image_id for other in others}
        self._images = {key: said for key, said in self._images.items() if key in used}

    def _surviving_look(
        self, other: ExternalContainer, others: list[ExternalContainer]
    ) -> DiscoveredLife:
        """Whatever somebody has written there, all else goes on being looked after."""
        try:
            return self._first_look(other, others)
        except ContainerError:
            raise
        except Exception:
            log.exception("What runs in %s cannot be read", other.container.name)
            return DiscoveredLife(hint="")

    def _first_look(
        self, other: ExternalContainer, others: list[ExternalContainer]
    ) -> DiscoveredLife:
        image = other.container.image_id
        if image not in self._images:
            self._images[image] = creation.docker().made_from(image)
        command = command_of(other.inspected, self._images[image])
        words = engine_words.engine_words(command) if command.engine else None
        hint = command.engine if command.engine and words is not None else ""
        named = _ports(command, words or ()) if hint else ()
        wanted = [*named, *(port for port in other.exposed if port not in _NOT_HTTP)]
        carrier = _carrier(other, others)
        ways = [carrier.ways(port) for port in dict.fromkeys(wanted)]
        is_on_host = carrier.network == "host"
        return DiscoveredLife(
            hint=hint,
            ways=tuple(each for each in ways[:MOST_PORTS] if each),
            key=find_key_in(command.command, command.env),
            is_its=partial(_is_its, other.container.id, named) if is_on_host else lambda port: True,
        )

    def _list_found(self, others: list[ExternalContainer]) -> Iterator[DiscoveredEngine]:
        """Of all that run, with what they have answered; processes after the containers."""
        for found in self._processes:
            heard = self._acquaintances.find_life(_moment(found)).heard
            yield found if heard is None else _add_identity(found, heard)
        for other in others:
            known = self._acquaintances.find_life(_life(other))
            heard = known.heard or EngineIdentity()
            if heard.answer != "serves" and not known.hint:
                continue
            began = other.container.started_at
            yield DiscoveredEngine(
                container=other.container.id,
                name=other.container.name,
                image=other.image,
                engine=heard.engine or known.hint,
                answer=heard.answer,
                version=heard.version,
                models=heard.models,
                address=heard.address,
                port=heard.port,
                started_at=numbers.to_timestamp(began),
                removes_itself=other.removes_itself,
                origin=Origin.from_labels(
                    other.container.labels,
                    other.policy,
                    **self._units.get(other.container.id, NOBODY)._asdict(),
                ),
            )

    def _point_runs(self, running: list[DiscoveredEngine]) -> None:
        """Watched runs ask where an answer was heard, which may not be where it was expected."""
        heard = {found.container: found for found in running if found.address}
        mine = Run.objects.filter_external().filter(server__box=self.box)
        starting = mine.filter(state=RunState.STARTING).only("address", "port", "container_id")
        for run in starting:
            said = heard.get(run.container_id)
            if said and said.port and (said.address, said.port) != (run.address, run.port):
                Run.objects.filter(pk=run.pk).update(address=said.address, port=said.port)


def _moment(found: DiscoveredEngine) -> Life:
    return found.container, str(found.started_at)


def _add_identity(found: DiscoveredEngine, heard: EngineIdentity) -> DiscoveredEngine:
    return replace(
        found,
        answer=heard.answer,
        version=heard.version,
        models=heard.models or found.models,
        address=heard.address,
        port=heard.port or found.port,
    )


def _life(other: ExternalContainer) -> Life:
    return other.container.id, str(other.container.started_at)


def _ports(command: LaunchCommand, words: tuple[str, ...]) -> tuple[int, ...]:
    """Where its engine listens by what it was told; where releases do that are told nothing."""
    assert command.engine is not None
    engine = ENGINES[command.engine]
    told = split_engine_words(command.engine, words, command.env).port_number
    return (told,) if told else tuple(filter(None, (engine.default_port, engine.newer_port)))


def _carrier(other: ExternalContainer, others: list[ExternalContainer]) -> ExternalContainer:
    """Whose network it uses: its own, or that of another container."""
    lender = other.network.removeprefix("container:")
    return next((each for each in others if each.container.id == lender), other)


def _is_its(container: str, named: tuple[int, ...], port: int) -> bool:
    """Whether it is this container that listens on a port of the box."""
    who = processes.container_on(port, Kernel())
    # Where the kernel does not tell, its own command is believed.
    return who == container or (who is None and port in named)
