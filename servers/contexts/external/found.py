"""The page context of engines, other users of GPUs, models and images found on a box."""

import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db.models import Sum
from django.utils import timezone

from servers.contexts import alerts
from servers.contexts.external import workloads
from servers.contexts.external.workloads import ExternalEngineCard, held_by, list_cards
from servers.judge.external.engines import MissingPermission, Origin, together
from servers.judge.images.names import find_image_name
from servers.judge.memory.holders import memory_by_container, memory_by_pid
from servers.models import (
    Box,
    HostResources,
    Job,
    ModelInventory,
    OtherWorkloads,
    Run,
    Server,
    StoredImage,
    User,
)
from servers.models.jobs import TOLD_FOR, JobKind
from servers.state import samples

KINDS = (JobKind.WATCH, JobKind.PROFILE, JobKind.TAKE_OVER)
# After one of these something on the box is no longer as it was found.
_CHANGES = (
    JobKind.KILL,
    JobKind.UNLINK,
    JobKind.REMOVE,
    JobKind.RECLAIM,
    JobKind.PULL,
    JobKind.TAKE_OVER,
)
MOST_TOLD = 6
NO_TOOLKIT = (
    "NVIDIA's container toolkit is not installed",
    "Without it Docker gives no GPU to an engine. Install nvidia-container-toolkit, then: "
    "`sudo nvidia-ctk runtime configure --runtime=docker` and `sudo systemctl restart docker`.",
)


@dataclass(frozen=True, kw_only=True)
class GpuOccupant:
    """Who is on a GPU, or was given one, and is no engine."""

    name: str
    what: str  # its image, or its user and process
    held: int | None
    origin: Origin | None  # None of a process, of which nobody has asked for more
    began: datetime | None
    user: str = ""  # of a process
    ray: str = ""  # the head of Ray's that it has joined
    servers: tuple[Server, ...] = ()  # whose engines it works for


@dataclass(frozen=True, kw_only=True)
class ModelsSummary:
    """Models on the disks."""

    count: int
    size: int  # bytes
    incomplete: int
    folders: tuple[tuple[str, int], ...]  # path, how many
    looked_at: datetime | None
    is_looking: bool


@dataclass(frozen=True, kw_only=True)
class ExternalFindings:
    pk: int
    slug: str
    is_silent: bool
    seen_at: datetime | None
    is_known: bool  # its watcher has looked around
    trouble: str  # why Docker could not be asked; "" when it could
    is_untouched: bool  # inferdash has changed nothing on it so far
    engines: tuple[ExternalEngineCard, ...]
    others: tuple[GpuOccupant, ...]
    quiet: tuple[str, ...]  # names of containers that are on no GPU
    models: ModelsSummary
    images: Mapping[str, int]
    unseen: tuple[MissingPermission, ...]
    command: str  # that grants all of it; "" where each has its own
    told: tuple[Job, ...]
    missing: tuple[tuple[str, str], ...]  # what engines need and the box lacks, and its cure
    may_edit: bool

    @property
    def running(self) -> int:
        return sum(not each.found.has_ended for each in self.engines)

    @property
    def ended(self) -> int:
        return len(self.engines) - self.running

    @property
    def is_empty(self) -> bool:
        """Nobody has started anything that a person could take up."""
        return not (self.engines or self.others)

    @property
    def is_fresh(self) -> bool:
        """Whether it was looked at, and nothing is there to go on from."""
        return self.is_empty and self.is_known


def found_on(box: Box, person: User) -> ExternalFindings:
    samples.note_look(box.slug)
    around = OtherWorkloads.objects.find(box)
    sample = samples.newest(box.slug) or {}
    since = timezone.now() - TOLD_FOR
    told = list(box.jobs.filter(kind__in=KINDS, asked_at__gt=since).select_related("asked_by")[:50])
    names = StoredImage.objects.names(box)
    engines = tuple(list_cards(box, sample, told, names))
    missing = _list_missing(box)
    blind = _unseen(box, around, [cure for _what, cure in missing])
    return ExternalFindings(
        pk=box.pk,
        slug=box.slug,
        is_silent=box.is_silent,
        seen_at=box.seen_at,
        is_known=around is not None,
        trouble=around.trouble if around else "",
        is_untouched=_is_untouched(box),
        engines=engines,
        others=tuple(_others(around, sample, engines, names)),
        quiet=_quiet(around, sample),
        models=_summarize_models(box),
        images=around.images if around else {},
        unseen=blind,
        command=together(blind),
        told=tuple(told[:MOST_TOLD]),
        missing=missing,
        may_edit=person.may_edit,
    )


def _list_missing(box: Box) -> tuple[tuple[str, str], ...]:
    found = alerts.problems(box)
    host_resources = HostResources.objects.find(box)
    known = host_resources.found if host_resources else {}
    lacks = known.get("toolkit") is False and "nvidia" not in known.get("runtimes", ())
    return (*found, NO_TOOLKIT) if lacks and box.gpus else found


def _is_untouched(box: Box) -> bool:
    has_acted = box.jobs.filter(kind__in=_CHANGES, state=Job.State.DONE).exists()
    return not has_acted and not Run.objects.filter_managed().filter(server__box=box).exists()


def _others(
    around: OtherWorkloads | None,
    sample: Mapping[str, Any],
    engines: tuple[ExternalEngineCard, ...],
    names: Mapping[str, str],
) -> Iterator[GpuOccupant]:
    held = memory_by_container(sample)
    workers: set[int] = set()
    for each in around.containers if around else ():
        ray, pids = each.get("ray", ""), each.get("pids", ())
        workers |= set(pids)
        if each["wants_gpus"] or each["container"] in held or ray:
            yield GpuOccupant(
                name=each["name"],
                what=each["image"] if pids else find_image_name(each["image"], names),
                held=held_by(pids, sample) if pids else held.get(each["container"]),
                ray=ray,
                servers=tuple(workloads.of_ray(ray)) if ray else (),
                origin=Origin.from_json(each["origin"]),
                began=_moment(each["started_at"]),
            )
    known = {pid for engine in engines for pid in engine.found.pids} | workers
    yield from _processes(sample, known)


def _processes(sample: Mapping[str, Any], known: set[int]) -> Iterator[GpuOccupant]:
    """Those on a GPU, in no container, that belong to no engine that was found."""
    held = memory_by_pid(sample)
    for process in sample.get("processes") or []:
        pid = process["pid"]
        if pid in held and pid not in known and not process.get("container"):
            yield GpuOccupant(
                name=f"{process.get('name') or 'process'} ({pid})",
                what=process.get("title") or "",
                held=held[pid],
                origin=None,
                user=process.get("user") or "",
                began=_moment(process.get("started_at")),
            )


def _quiet(around: OtherWorkloads | None, sample: Mapping[str, Any]) -> tuple[str, ...]:
    held = memory_by_container(sample)
    return tuple(
        each["name"]
        for each in (around.containers if around else ())
        if not each["wants_gpus"] and each["container"] not in held and "ray" not in each
    )


def _summarize_models(box: Box) -> ModelsSummary:
    inventory = ModelInventory.objects.find(box)
    stored = box.checkpoints.all()
    roots = inventory.roots if inventory else []
    return ModelsSummary(
        count=stored.count(),
        size=stored.aggregate(size=Sum("size"))["size"] or 0,
        incomplete=stored.filter(state="partial").count(),
        folders=tuple((each["path"], each["found"]) for each in roots if each["found"]),
        looked_at=inventory.looked_at if inventory else None,
        is_looking=inventory is not None and bool(inventory.looking_since),
    )


def _unseen(
    box: Box, around: OtherWorkloads | None, told: Collection[str]
) -> tuple[MissingPermission, ...]:
    reported = [MissingPermission(**each) for each in (around.unseen if around else ())]
    known = [each for each in reported if each.command or each.why not in told]
    inventory = ModelInventory.objects.find(box)
    hidden = [path for root in (inventory.roots if inventory else ()) for path in root["hidden"]]
    folders = [
        MissingPermission(
            what=f"Models in {path}",
            why="The folder may not be read by inferdash. Its owner, or root, can allow it.",
            command=f"sudo chmod o+rx {shlex.quote(path)}",
        )
        for path in hidden
    ]
    return (*known, *folders)


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
