"""The page context of a box's GPUs as rows: each with who holds it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from servers.judge.memory.gpu_owners import GpuOwner, list_owners
from servers.judge.memory.holders import GpuMemory
from servers.models import Box, ExternalEngine, OtherWorkloads, Run, Server
from servers.models.runs.run import ACTIVE, RunState


@dataclass(frozen=True, kw_only=True)
class GpuRow:
    """A GPU and its owners, the largest first."""

    gpu: GpuMemory
    owners: tuple[GpuOwner, ...]


@dataclass(frozen=True, kw_only=True)
class LoadingRun:
    slug: str
    box: int
    gpus: str  # as the run was given them: "0,1"


@dataclass(frozen=True, kw_only=True)
class KnownOwners:
    """What is known of the owners of GPU memory on all boxes."""

    servers: Mapping[str, str] = field(default_factory=dict)  # container id -> slug
    containers: Mapping[str, str] = field(default_factory=dict)  # container id -> name
    ended: Mapping[str, str] = field(default_factory=dict)  # those of ended runs -> slug
    loading: tuple[LoadingRun, ...] = ()


def read_owners() -> KnownOwners:
    """In as many queries for fifty boxes as for one."""
    servers: dict[str, str] = {}
    loading: list[LoadingRun] = []
    for container, slug, box, state, gpus in Run.objects.active().values_list(
        "container_id", "server__slug", "server__box", "state", "gpus"
    ):
        if container:
            servers[container] = slug
        if state in (RunState.CREATING, RunState.STARTING):
            loading.append(LoadingRun(slug=slug, box=box, gpus=gpus))
    containers = {
        container: str(found.get("name") or "")
        for container, found in ExternalEngine.objects.values_list("container_id", "found")
    }
    runs = Server.objects.present().exclude(run__state__in=ACTIVE).exclude(run__container_id="")
    ended = dict(runs.values_list("run__container_id", "slug"))
    for around in OtherWorkloads.objects.all():
        containers |= {each["container"]: each["name"] for each in around.containers}
    return KnownOwners(servers=servers, containers=containers, ended=ended, loading=tuple(loading))


def build_rows(box: Box, gpus: Iterable[GpuMemory], known: KnownOwners) -> tuple[GpuRow, ...]:
    found = []
    for gpu in gpus:
        held = list_owners(gpu, known.containers, known.ended)
        found.append(GpuRow(gpu=gpu, owners=(*held, *_list_loading(box, gpu, known, held))))
    return tuple(found)


def _list_loading(
    box: Box, gpu: GpuMemory, known: KnownOwners, held: Iterable[GpuOwner]
) -> Iterator[GpuOwner]:
    """Servers that have the GPU and hold nothing of it yet."""
    names = {each.name for each in held if each.kind == "server"}
    for run in known.loading:
        has_it = run.box == box.pk and gpu.index in (box.indices(run.gpus) or ())
        if has_it and run.slug not in names:
            yield GpuOwner(kind="server", name=run.slug, is_loading=True)
