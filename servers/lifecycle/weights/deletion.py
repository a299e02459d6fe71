"""Deleting a model from a box's disks: who would miss it, what it frees, and the deed."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any

from django.conf import settings
from django.utils import timezone

from servers import events
from servers.host.files.box_files import BoxFiles
from servers.host.files.paths import PathError
from servers.host.weights import deletion
from servers.host.weights.deletion import DeletionPlan, DiscardError
from servers.judge.runs.limits import LimitsError
from servers.launch.engines.launch import Launch
from servers.launch.engines.placement import VolumeError
from servers.launch.numbers import gib
from servers.lifecycle.runs import creation
from servers.lifecycle.weights import downloads, inventory
from servers.lifecycle.weights.inventory import ModelUse
from servers.models import Box, Download, Job, Run, StoredCheckpoint, User
from servers.models.jobs import TOLD_FOR, JobKind, JobState
from servers.state import store

SHOWN = 12  # names of files


@dataclass(frozen=True, kw_only=True)
class ModelUsers:
    """Who would miss a model. `refused` says why it may not be deleted now; "" when it may."""

    uses: list[ModelUse]
    hidden: int  # private profiles of others that name it, too
    refused: str


def missers(stored: StoredCheckpoint, person: User) -> ModelUsers:
    uses = inventory.uses(stored.box, person).get(stored.pk, [])
    every = inventory.names_it(stored)
    seen = {use.profile.pk for use in uses}
    return ModelUsers(
        uses=uses,
        hidden=sum(1 for each in every if each.pk not in seen),
        refused=refusal(stored),
    )


def refusal(stored: StoredCheckpoint) -> str:
    """Why nobody may delete it now, as far as rows tell; "" when nothing speaks against it."""
    servers = sorted({str(run.server) for run in _list_running(stored)})
    if servers:
        runs = "runs" if len(servers) == 1 else "run"
        return f"{', '.join(servers)} {runs} with it. Stop {servers[0]} first."
    for each in Download.objects.open().filter(box=stored.box):
        if _is_of(each, stored):
            return f"{each} is being downloaded there. Cancel the download first."
    return ""


def _list_running(stored: StoredCheckpoint) -> Iterable[Run]:
    active = Run.objects.active().filter(server__box=stored.box)
    for run in active.select_related("server__box", "version", "plan"):
        if inventory.names(run.launch, stored, stored.box) or _mentions(run.launch, stored):
            yield run


def _mentions(launch: Launch, stored: StoredCheckpoint) -> bool:
    """Beside the checkpoint itself: a draft model, an adapter, a tokenizer."""
    words = [*launch.flags, *launch.env.values()]
    folder = stored.path.rstrip("/")
    wanted = [folder, stored.name] if "/" in stored.name else [folder]
    return any(each in word for word in words for each in wanted)


def _is_of(download: Download, stored: StoredCheckpoint) -> bool:
    if not download.folder:
        return False
    if stored.is_hub:
        return download.repository.casefold() == stored.name.casefold()
    return PurePosixPath(stored.path).is_relative_to(download.folder) or PurePosixPath(
        download.folder
    ).is_relative_to(stored.path)


# What follows is done on the box.


def question(stored: StoredCheckpoint, nonce: str) -> str:
    return f"discard:{stored.box.slug}:{nonce}"


def answer(asked: str, stored: StoredCheckpoint) -> None:
    """Look here, on the box, and tell who asked. Raises redis.RedisError."""
    try:
        made = plan(stored)
        said: dict[str, Any] = asdict(made) | {"shown": _format_names(made), "users": _users(made)}
    except DiscardError as error:
        said = {"says": str(error)}
    store.give(asked, said)


def _format_names(made: DeletionPlan) -> list[str]:
    top = PurePosixPath(made.top)
    names = [str(PurePosixPath(each).relative_to(top)) for each in made.files]
    return names[:SHOWN] or [f"everything in {each}" for each in made.trees]


def _users(made: DeletionPlan) -> list[str]:
    return deletion.users(made, _box_files(), proc=settings.KERNEL_ROOT / "proc")


def _box_files() -> BoxFiles:
    """Raises DiscardError."""
    try:
        return creation.box_files()
    except (OSError, LimitsError, PathError) as error:
        raise DiscardError(f"What this box allows cannot be read: {error}") from error


def plan(stored: StoredCheckpoint) -> DeletionPlan:
    """What goes with it. Only below the folders with models of this box. Raises DiscardError."""
    path = PurePosixPath(stored.path)
    try:
        roots = [each for each in inventory.roots(stored.box) if not each.refused]
    except (OSError, LimitsError, VolumeError) as error:
        raise DiscardError(f"What this box allows cannot be read: {error}") from error
    if not any(
        path.is_relative_to(each.path) and path != PurePosixPath(each.path) for each in roots
    ):
        raise DiscardError(
            f"{path} lies in none of the folders with models of {stored.box}, or is one of them: "
            "nothing is deleted there."
        )
    inside = _others_inside(stored)
    if inside:
        raise DiscardError(
            f"Other models lie in {path}: {', '.join(inside[:3])}. Delete those first, or move them."
        )
    return deletion.plan(stored.path, _box_files())


def _others_inside(stored: StoredCheckpoint) -> list[str]:
    """Models below a plain folder; a cache knows by itself what is whose."""
    if stored.is_hub or stored.format == "gguf":
        return []
    rows = StoredCheckpoint.objects.filter(box=stored.box).exclude(pk=stored.pk)
    below = rows.filter(path__startswith=stored.path.rstrip("/") + "/")
    return list(below.values_list("path", flat=True))


def delete(box: Box, job: Job) -> str:
    """Do what a job asks for, if nothing speaks against it now; what came of it.

    Raises DiscardError.
    """
    path = str(job.params.get("path"))
    stored = box.checkpoints.select_related("box").filter(path=path).first()
    if stored is None:
        raise DiscardError(f"{path} is not among the models of {box} any more.")
    if refused := refusal(stored):
        raise DiscardError(f"{stored} was not deleted: {refused}")
    made = plan(stored)
    if users := _users(made):
        raise DiscardError(
            f"{stored} was not deleted: {', '.join(users[:3])} has files of it open. End that first."
        )
    files = _box_files()
    deletion.carry_out(made, files)
    deletion.tidy(
        made, files, below=[each.path for each in inventory.roots(box) if not each.refused]
    )
    stored.delete()
    _note_on_downloads(stored, files, by=job.asked_by)
    kept = f" {gib(made.kept)} stay: other models share them." if made.kept else ""
    return f"{job.what} is deleted: {gib(made.freed)} are free again.{kept}"


def _note_on_downloads(stored: StoredCheckpoint, files: BoxFiles, *, by: User | None) -> None:
    """Those that ended well say that all is there: not any more."""
    done = Download.objects.filter(box=stored.box, state=JobState.DONE)
    gone = [
        each.pk for each in done if _is_of(each, stored) and not downloads.is_there(each, files)
    ]
    who = f" by {by.username}" if by else ""
    said = f"It was downloaded whole, and deleted{who} since."
    if Download.objects.filter(pk__in=gone).update(said=said):
        events.publish_change("downloads")


def list_deletions(box: Box) -> Iterable[Job]:
    """Deletions that go on, and those of the last day that were refused."""
    since = timezone.now() - TOLD_FOR
    asked = box.jobs.filter(kind=JobKind.DELETE, asked_at__gt=since)
    return asked.exclude(state=JobState.DONE).select_related("asked_by")[:5]
