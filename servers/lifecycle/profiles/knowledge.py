"""Launch contexts: facts around starts from rows and Redis, for one start or a whole list."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

from django.db.models import Max

from servers.judge.external.engines import DiscoveredEngine
from servers.judge.memory import holders, pools
from servers.judge.memory.pools import GpuRoom
from servers.judge.profiles.facts import BoxKind, Subject, TargetGpu
from servers.judge.profiles.preflight import OtherWorkload
from servers.launch.engines import ENGINES
from servers.launch.engines.launch import Launch, fill_parameters
from servers.launch.engines.placement import Place
from servers.lifecycle.profiles import path_reports
from servers.lifecycle.runs import creation
from servers.lifecycle.weights import inventory
from servers.models import (
    Box,
    CheckpointFacts,
    Claim,
    ExternalEngine,
    HostResources,
    ImageFacts,
    Profile,
    Run,
    Server,
    StoredCheckpoint,
)
from servers.models.runs.run import RunState
from servers.state import samples, store


class LaunchContext:
    """A launch, with its parameters filled in, on a box: of a profile and one of its servers.

    Made once for a request or a step and handed down: each fact around it is read when it is first
    wanted, and stays what it was.
    """

    def __init__(
        self, launch: Launch, box: Box, profile: Profile | None = None, server: Server | None = None
    ) -> None:
        self.launch = fill_parameters(launch)
        self.box, self.profile, self.server = box, profile, server
        self.knowledge = Knowledge([self])

    @classmethod
    def of_server(cls, server: Server, launch: Launch | None = None) -> Self:
        """Of a start of the server, by default with what its profile says now."""
        filled = fill_parameters(launch or server.profile.launch, server.values)
        return cls(filled, server.box, server.profile, server)

    @property
    def sample(self) -> dict[str, Any] | None:
        return self.knowledge.sample(self.box)

    @property
    def active(self) -> list[Run]:
        """What runs or is about to on the box, with its server, version and who started it."""
        return self.knowledge.active(self.box)

    @property
    def replaced(self) -> list[Run]:
        """What a start would take the place of: of the server, else of the whole profile."""
        if self.server is None:
            return self.of_profile
        return [run for run in self.active if run.server_id == self.server.pk]

    @property
    def of_profile(self) -> list[Run]:
        profile = self.profile
        return [
            run
            for run in self.active
            if profile is not None and run.server.profile_id == profile.pk
        ]

    def choose_gpus(self) -> str:
        """As a start by nobody in particular gets them. Raises CardsError."""
        return creation.choose_gpus(self.launch, self.box, busy=self.knowledge.busy(self.box))

    @cached_property
    def rooms(self) -> tuple[GpuRoom, ...]:
        """What each GPU has for this start, which replaces what runs of its server."""
        own = {run.container_id for run in self.replaced if run.container_id}
        return pools.rooms(self.sample, self.box.gpus or (), own=own)

    @property
    def image(self) -> ImageFacts | None:
        return self.knowledge.image(self)

    @cached_property
    def source(self) -> str:
        """The name of its checkpoint's facts; "" for one that inferdash cannot find on a box."""
        return inventory.source(self.launch, self.box)

    @property
    def checkpoint(self) -> CheckpointFacts | None:
        """What the watcher has written down, or the box has answered a moment ago."""
        if not self.source:
            return None
        found = self.knowledge.checkpoint(self)
        if found is not None:
            return found
        said = self.knowledge.answers.get(self.checkpoint_question)
        return inventory.build_facts(self.source, self.box, said)

    def find_stored(self) -> StoredCheckpoint | None:
        """What of the disks' inventory its checkpoint leads to."""
        stored = self.knowledge.list_stored(self.box)
        return next((each for each in stored if inventory.names(self.launch, each, self.box)), None)

    @property
    def checkpoint_question(self) -> str:
        return inventory.question(self.source, self.box)

    @property
    def lacks_checkpoint_facts(self) -> bool:
        """Whether nobody has looked for it: the watcher does so for profiles that are saved."""
        if not self.source or self.box.is_silent or self.knowledge.checkpoint(self) is not None:
            return False
        return self.checkpoint_question not in self.knowledge.answers

    @cached_property
    def needed_paths(self) -> tuple[Place, ...]:
        return path_reports.list_needed_paths(self.launch, self.box)

    @property
    def paths_question(self) -> str:
        return path_reports.question(self.box, self.needed_paths)

    @property
    def folders(self) -> list[path_reports.PathReport] | None:
        """What the box has said of its paths in the last minute; None: it has to be asked."""
        wanted = self.needed_paths
        said = self.knowledge.answers.get(self.paths_question) if wanted else []
        if said is None:
            return None
        return path_reports.merge(wanted, said, self.box, self.knowledge.list_stored(self.box))

    @property
    def mounts_to_ask(self) -> tuple[Place, ...]:
        """What to ask the box before a start; empty where it is silent, or has said so."""
        if self.box.is_silent or not path_reports.are_unsure(self.needed_paths, self.box):
            return ()
        return () if self.folders is not None else self.needed_paths

    def wait_for_answer(self, question: str, *, seconds: float) -> None:
        """Take in what the box says, once it was asked, if that is in time."""
        said = store.wait_for_answer(question, seconds=seconds)
        if said is not None:
            self.knowledge.answers[question] = said

    @property
    def last_good(self) -> list[Run]:
        """Of the profile's servers on this box, the newest first."""
        return self.knowledge.last_good(self)

    @cached_property
    def subject(self) -> Subject:
        """What rules look at, whatever memory is free now."""
        return replace(self.subject_alone, others=self._name_others())

    @cached_property
    def subject_alone(self) -> Subject:
        """Without a look at who else is on the box."""
        return describe_subject(self.launch, self.box, self.image, self.checkpoint)

    def _name_others(self) -> tuple[str, ...] | None:
        """Who holds GPU memory beside the profile's own servers, which a start would replace."""
        if self.sample is None:
            return None
        return holders.others(self.sample, {run.container_id for run in self.of_profile})


def share_knowledge(contexts: Sequence[LaunchContext]) -> None:
    """Have a list of them read everything with no more questions than one."""
    knowledge = Knowledge(contexts)
    for each in contexts:
        each.knowledge = knowledge


class Knowledge:
    """Each answer is read when it is first wanted, for all of the starts at once."""

    def __init__(self, starts: Sequence[LaunchContext]) -> None:
        self._starts = starts
        self._boxes = {each.box.pk for each in starts}
        self._samples: dict[str, dict[str, Any] | None] = {}
        self._neighbours: dict[int, list[tuple[Run, OtherWorkload]]] = {}
        self._busy: dict[int, set[int]] = {}

    def sample(self, box: Box) -> dict[str, Any] | None:
        if box.slug not in self._samples:
            self._samples[box.slug] = samples.newest(box.slug)
        return self._samples[box.slug]

    def active(self, box: Box) -> list[Run]:
        """What runs or is about to, with its server and version."""
        return self._active[box.pk]

    def other_workloads(self, box: Box) -> list[tuple[Run, OtherWorkload]]:
        """The same as a check of another start sees it."""
        if box.pk not in self._neighbours:
            self._neighbours[box.pk] = [(run, _neighbour(run, box)) for run in self.active(box)]
        return self._neighbours[box.pk]

    def busy(self, box: Box) -> set[int]:
        """GPUs that a start by nobody in particular finds taken or claimed."""
        if box.pk not in self._busy:
            self._busy[box.pk] = creation.find_busy_gpus(
                box, self.active(box), self._claims[box.pk]
            )
        return self._busy[box.pk]

    def image(self, start: LaunchContext) -> ImageFacts | None:
        return self._images.get((start.box.pk, start.launch.image, start.launch.engine))

    def checkpoint(self, start: LaunchContext) -> CheckpointFacts | None:
        """What the watcher has written down."""
        return self._checkpoints.get((start.box.pk, start.source))

    def last_good(self, start: LaunchContext) -> list[Run]:
        if start.profile is None:
            return []
        return self._good[start.profile.pk, start.box.pk]

    def last_ended(self, start: LaunchContext) -> Run | None:
        """Of the server, else of the profile on any box."""
        if start.profile is None:
            return None
        if start.server is not None:
            return self._ended.get(start.server.pk)
        found = (self._ended.get(pk) for pk, of, _box in self._servers if of == start.profile.pk)
        return max(filter(None, found), key=lambda run: run.pk, default=None)

    def download_total(self, start: LaunchContext) -> int | None:
        """What the last download of this checkpoint to this box was in all."""
        return self._downloads.get((start.box.pk, start.launch.checkpoint))

    def host_resources(self, box: Box) -> HostResources | None:
        return self._supplies.get(box.pk)

    def port_holders(self, box: Box) -> dict[int, str]:
        """ "the container speech-llm-1" by the port; of engines that others started."""
        return by_port(self._sightings[box.pk])

    @cached_property
    def boxes(self) -> list[Box]:
        """All that there are, with what they have."""
        return list(Box.objects.all())

    @cached_property
    def _supplies(self) -> dict[int, HostResources]:
        return HostResources.objects.by_box()

    @cached_property
    def _active(self) -> dict[int, list[Run]]:
        runs = Run.objects.active().filter(server__box__in=self._boxes)
        parts = runs.select_related("server", "version", "started_by", "plan")
        return _group(parts, lambda run: run.server.box_id)

    @cached_property
    def _claims(self) -> dict[int, list[Claim]]:
        claims = Claim.objects.active().filter(box__in=self._boxes)
        return _group(claims, lambda claim: claim.box_id)

    @cached_property
    def _images(self) -> dict[tuple[int, str, str], ImageFacts]:
        named = {each.launch.image for each in self._starts}
        found = ImageFacts.objects.filter(box__in=self._boxes, reference__in=named).defer("flags")
        return {(each.box_id, each.reference, each.engine): each for each in found}

    @cached_property
    def _checkpoints(self) -> dict[tuple[int, str], CheckpointFacts]:
        named = {each.source for each in self._starts}
        found = CheckpointFacts.objects.filter(box__in=self._boxes, source__in=named)
        return {(each.box_id, each.source): each for each in found}

    @cached_property
    def answers(self) -> dict[str, Any]:
        """What boxes have answered in the last minute, by the question."""
        asked = {each.paths_question for each in self._starts}
        asked |= {each.checkpoint_question for each in self._starts if each.source}
        return store.all_kept(asked)

    def list_stored(self, box: Box) -> list[StoredCheckpoint]:
        return [each for each in self._stored if each.box_id == box.pk]

    @cached_property
    def _stored(self) -> list[StoredCheckpoint]:
        return list(StoredCheckpoint.objects.filter(box__in=self._boxes).defer("texts", "config"))

    @cached_property
    def _servers(self) -> list[tuple[int, int, int]]:
        """The profiles' on all boxes: each one's key, its profile's, its box's."""
        wanted = {each.profile.pk for each in self._starts if each.profile is not None}
        return list(Server.objects.filter(profile__in=wanted).values_list("pk", "profile", "box"))

    @cached_property
    def _good(self) -> "dict[tuple[int, int], list[Run]]":
        """By profile and box."""
        where = {pk: (profile, box) for pk, profile, box in self._servers}
        newest = sorted(Run.objects.last_good(where).values(), key=lambda run: -run.pk)
        return _group(newest, lambda run: where[run.server_id])

    @cached_property
    def _ended(self) -> dict[int, Run]:
        """The last of each server."""
        every = [pk for pk, _profile, _box in self._servers]
        ended = Run.objects.filter(server__in=every).exclude(ended_at=None).order_by()
        last = ended.values("server").annotate(last=Max("pk")).values("last")
        parts = ("plan", "start", "log", "health")
        found = Run.objects.filter(pk__in=last).select_related("version", *parts)
        return {run.server_id: run for run in found}

    @cached_property
    def _downloads(self) -> dict[tuple[int, str], int]:
        named = {each.launch.checkpoint for each in self._starts}
        found = Run.objects.filter(
            server__box__in=self._boxes,
            start__download_total__isnull=False,
            version__spec__checkpoint__in=named,
        ).order_by("created_at", "pk")
        rows = found.values_list(
            "server__box", "version__spec__checkpoint", "start__download_total"
        )
        return {(box, checkpoint): size for box, checkpoint, size in rows if size is not None}

    @cached_property
    def _sightings(self) -> dict[int, list[ExternalEngine]]:
        there = ExternalEngine.objects.filter(box__in=self._boxes, has_ended=False)
        return _group(there, lambda engine: engine.box_id)


def _group[Row, Key](rows: Iterable[Row], key: Callable[[Row], Key]) -> dict[Key, list[Row]]:
    """By that key; of one that no row has, none."""
    found: dict[Key, list[Row]] = defaultdict(list)
    for each in rows:
        found[key(each)].append(each)
    return found


def _neighbour(run: Run, box: Box) -> OtherWorkload:
    launch = run.version.launch
    wanted = ENGINES[launch.engine].port(launch) if launch.network == "host" else launch.host_port
    return OtherWorkload(
        name=run.server.slug,
        gpus=box.indices(run.gpus or launch.gpus),
        ports=frozenset(port for port in (run.port, wanted) if port),
        is_loading=run.state in (RunState.CREATING, RunState.STARTING),
    )


def describe_subject(
    launch: Launch, box: Box, image: ImageFacts | None, checkpoint: CheckpointFacts | None
) -> Subject:
    known = Subject(
        launch=launch,
        engine_version=image.version if image else "",
        flaglist=image.flaglist if image else None,
        checkpoint_config=checkpoint.config if checkpoint else None,
        weights=checkpoint.weights if checkpoint else None,
    )
    cards = box.gpus
    if cards is None:
        return known
    gpus = tuple(
        TargetGpu(
            index=card["index"],
            name=card["name"] or "",
            compute_capability=card["compute_capability"] or "",
            memory=card["total"],
        )
        for card in cards
    )
    return replace(
        known,
        gpus=gpus,
        box_kind=_kind({card["kind"] or "" for card in cards}),
        driver=box.facts.get("driver", ""),
    )


def _kind(kinds: set[BoxKind]) -> BoxKind:
    """The box's, where all of its cards are of one kind."""
    return kinds.pop() if len(kinds) == 1 else ""


def of_others(box: Box) -> dict[int, str]:
    """ "the container speech-llm-1" by the port; of engines that run and that others started."""
    return by_port(box.external_engines.filter(has_ended=False))


def by_port(external_engines: Iterable[ExternalEngine]) -> dict[int, str]:
    found = (DiscoveredEngine.from_json(each.found) for each in external_engines)
    return {each.port: f"the {each.what} {each.name}" for each in found if each.port}


def of_all(box: Box) -> dict[int, str]:
    """With "the server coder" for inferdash's own, which are named where both are."""
    mine = Run.objects.active().filter(server__box=box).values_list("port", "server__slug")
    own = {port: f"the server {slug}" for port, slug in mine if port}
    return of_others(box) | own
