"""Facts around starts from rows and Redis, for one start or a whole list."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.db.models import Max
from django.utils import timezone

from servers.judge.memory import room
from servers.judge.memory.room import GpuRoom
from servers.judge.profiles.facts import LaunchFacts, LintFinding, Subject
from servers.judge.profiles.preflight import OtherWorkload
from servers.judge.weights.fit.estimate import estimate as judged
from servers.judge.weights.fit.result import Estimate, PastMeasurement, on_this_box
from servers.launch.engines import ENGINES, parameters
from servers.launch.engines.change import LaunchChange, compare_launches
from servers.launch.engines.launch import Launch
from servers.lifecycle.profiles import path_reports
from servers.lifecycle.runs import gpu_assignment, port_holders
from servers.lifecycle.weights import checkpoints
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
from servers.state import answers, box_samples


@dataclass(frozen=True, kw_only=True)
class LaunchOnBox:
    """A launch, with its parameters filled in, on a box: of a profile and one of its servers."""

    launch: Launch
    box: Box
    profile: Profile | None = None
    server: Server | None = None


class Knowledge:
    """Each answer is read when it is first wanted, for all of the starts at once."""

    def __init__(self, starts: Sequence[LaunchOnBox]) -> None:
        self._starts = starts
        self._boxes = {each.box.pk for each in starts}
        self._samples: dict[str, dict[str, Any] | None] = {}
        self._neighbours: dict[int, list[tuple[Run, OtherWorkload]]] = {}
        self._busy: dict[int, set[int]] = {}

    def sample(self, box: Box) -> dict[str, Any] | None:
        if box.slug not in self._samples:
            self._samples[box.slug] = box_samples.newest(box.slug)
        return self._samples[box.slug]

    def active(self, box: Box) -> list[Run]:
        """What runs or is about to, with its server and version."""
        return self._active[box.pk]

    def find_replaced(self, start: LaunchOnBox) -> list[Run]:
        """What this start would take the place of."""
        return [run for run in self.active(start.box) if _is_of(run, start)]

    def other_workloads(self, box: Box) -> list[tuple[Run, OtherWorkload]]:
        """The same as a check of another start sees it."""
        if box.pk not in self._neighbours:
            self._neighbours[box.pk] = [(run, _neighbour(run, box)) for run in self.active(box)]
        return self._neighbours[box.pk]

    def busy(self, box: Box) -> set[int]:
        """GPUs that a start by nobody in particular finds taken or claimed."""
        if box.pk not in self._busy:
            self._busy[box.pk] = gpu_assignment.busy(box, self.active(box), self._claims[box.pk])
        return self._busy[box.pk]

    def image(self, start: LaunchOnBox) -> ImageFacts | None:
        return self._images.get((start.box.pk, start.launch.image, start.launch.engine))

    def checkpoint(self, start: LaunchOnBox) -> CheckpointFacts | None:
        """What the watcher has written down, or the box has answered a moment ago."""
        name = checkpoints.source(start.launch, start.box)
        if not name:
            return None
        found = self._checkpoints.get((start.box.pk, name))
        if found is not None:
            return found
        said = self._answers.get(checkpoints.question(name, start.box))
        return checkpoints.build_facts(name, start.box, said)

    def folders(self, start: LaunchOnBox) -> list[path_reports.PathReport] | None:
        """What the box has said of its paths in the last minute; None: it has to be asked."""
        wanted = path_reports.list_needed_paths(start.launch, start.box)
        if not wanted:
            return []
        said = self._answers.get(path_reports.question(start.box, wanted))
        return (
            None
            if said is None
            else path_reports.merge(wanted, said, start.box, self.list_stored(start.box))
        )

    def last_good(self, start: LaunchOnBox) -> list[Run]:
        """Of the profile's servers on this box, the newest first."""
        if start.profile is None:
            return []
        return self._good[start.profile.pk, start.box.pk]

    def last_ended(self, start: LaunchOnBox) -> Run | None:
        """Of the server, else of the profile on any box."""
        if start.profile is None:
            return None
        if start.server is not None:
            return self._ended.get(start.server.pk)
        found = (self._ended.get(pk) for pk, of, _box in self._servers if of == start.profile.pk)
        return max(filter(None, found), key=lambda run: run.pk, default=None)

    def download_total(self, start: LaunchOnBox) -> int | None:
        """What the last download of this checkpoint to this box was in all."""
        return self._downloads.get((start.box.pk, start.launch.checkpoint))

    def host_resources(self, box: Box) -> HostResources | None:
        return self._supplies.get(box.pk)

    def port_holders(self, box: Box) -> dict[int, str]:
        """ "the container speech-llm-1" by the port; of engines that others started."""
        return port_holders.by_port(self._sightings[box.pk])

    @cached_property
    def boxes(self) -> list[Box]:
        """All that there are, with what they have."""
        return list(Box.objects.select_related("host_resources"))

    @cached_property
    def _supplies(self) -> dict[int, HostResources]:
        return {
            each.pk: each.host_resources for each in self.boxes if hasattr(each, "host_resources")
        }

    @cached_property
    def _active(self) -> dict[int, list[Run]]:
        runs = Run.objects.active().filter(server__box__in=self._boxes)
        found: dict[int, list[Run]] = defaultdict(list)
        for run in runs.select_related("server", "version", "plan"):
            found[run.server.box_id].append(run)
        return found

    @cached_property
    def _claims(self) -> dict[int, list[Claim]]:
        found: dict[int, list[Claim]] = defaultdict(list)
        for each in Claim.objects.active().filter(box__in=self._boxes):
            found[each.box_id].append(each)
        return found

    @cached_property
    def _images(self) -> dict[tuple[int, str, str], ImageFacts]:
        named = {each.launch.image for each in self._starts}
        found = ImageFacts.objects.filter(box__in=self._boxes, reference__in=named).defer("flags")
        return {(each.box_id, each.reference, each.engine): each for each in found}

    @cached_property
    def _checkpoints(self) -> dict[tuple[int, str], CheckpointFacts]:
        named = {checkpoints.source(each.launch, each.box) for each in self._starts}
        found = CheckpointFacts.objects.filter(box__in=self._boxes, source__in=named)
        return {(each.box_id, each.source): each for each in found}

    @cached_property
    def _answers(self) -> dict[str, Any]:
        asked = set()
        for each in self._starts:
            if name := checkpoints.source(each.launch, each.box):
                asked.add(checkpoints.question(name, each.box))
            asked.add(
                path_reports.question(
                    each.box, path_reports.list_needed_paths(each.launch, each.box)
                )
            )
        return answers.all_kept(asked)

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
        found: dict[tuple[int, int], list[Run]] = defaultdict(list)
        for run in sorted(Run.objects.last_good(where).values(), key=lambda run: -run.pk):
            found[where[run.server_id]].append(run)
        return found

    @cached_property
    def _ended(self) -> dict[int, Run]:
        """The last of each server."""
        every = [pk for pk, _profile, _box in self._servers]
        ended = Run.objects.filter(server__in=every).exclude(ended_at=None).order_by()
        last = ended.values("server").annotate(last=Max("pk")).values("last")
        found = Run.objects.filter(pk__in=last).select_related("version", "plan", "start", "health")
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
        found: dict[int, list[ExternalEngine]] = defaultdict(list)
        for each in ExternalEngine.objects.filter(box__in=self._boxes, has_ended=False):
            found[each.box_id].append(each)
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


def _is_of(run: Run, start: LaunchOnBox) -> bool:
    if start.server is not None:
        return run.server_id == start.server.pk
    return start.profile is not None and run.server.profile_id == start.profile.pk


RULE = "memory-fit"  # the name by which a page asks for one of its changes

# What a launch may say differently and take the same memory.
_NO_MATTER = (
    "reasons", "hardware", "expected", "served_name", "port", "host_address", "host_port",
    "network", "digests", "drop_cache", "free_memory", "grace", "ready_path", "ready_limit",
    "restart", "restart_tries", "start_with_box", "log_must", "log_must_not", "parameters",
    "pass_hf_token", "dockerfile", "build_files", "aliases", "start_on_request", "hold_requests",
    "stop_idle", "when_idle",
)  # fmt: skip


def gather_rooms(start: LaunchOnBox, knowledge: Knowledge) -> tuple[GpuRoom, ...]:
    """What each GPU has for this start, which replaces what runs of its server."""
    own = {run.container_id for run in knowledge.find_replaced(start) if run.container_id}
    return room.rooms(knowledge.sample(start.box), start.box.gpus or (), own=own)


def estimate_fit(subject: Subject, start: LaunchOnBox, knowledge: Knowledge) -> Estimate | None:
    """None for a launch without GPUs or models. `subject` holds the rooms."""
    if not subject.launch.serves_models:
        return None
    return judged(subject, _past(subject, start, knowledge))


def list_fit_findings(found: Estimate | None) -> list[LintFinding]:
    """Its changes as what a page's buttons ask for; `about` tells them apart."""
    return [
        LintFinding(
            rule=RULE,
            severity="warning",
            says=found.says if found else "",
            about=describe_fix(fix),
            fix=fix,
        )
        for fix in (found.fixes if found else ())
    ]


def describe_fix(fix: LaunchChange) -> str:
    return " ".join(sorted(fix.set_flags)) or "gpus"


def _past(subject: Subject, start: LaunchOnBox, knowledge: Knowledge) -> PastMeasurement | None:
    """What the latest good start of the very same launch held; None without one."""
    server, box = start.server, start.box
    for run in knowledge.last_good(start):
        if server is not None and run.server_id != server.pk:
            continue
        if run.health.peak_memory and run.ready_at and _is_same(run.launch, subject.launch):
            count = _count(run, subject, box)
            if count:
                day = timezone.localdate(run.ready_at)
                return PastMeasurement(peak=run.health.peak_memory // count, day=day, run=run.pk)
    return None


def _is_same(ran: Launch, launch: Launch) -> bool:
    launch = parameters.fill(launch)
    return all(
        each.name in _NO_MATTER or each.before == each.after
        for each in compare_launches(ran, launch)
    )


def _count(run: Run, subject: Subject, box: Box) -> int:
    """Over how many GPUs of the box its memory was spread; 0 where that is not known."""
    said = run.gpus or run.version.launch.gpus
    given = len(said.split(",")) if said.replace(",", "").isdigit() else len(box.gpus or ())
    return min(given, on_this_box(LaunchFacts(subject)) or given)
