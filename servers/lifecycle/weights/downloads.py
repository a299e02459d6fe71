"""Models from the Hub onto a box's disks: what people want, and what the box makes of it."""

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction

from servers.host.files import paths
from servers.host.files.box_files import BoxFiles, RefusedFileError
from servers.host.weights.fetch import listing, places
from servers.host.weights.fetch.places import (
    REPOSITORY,
    REVISION,
    DownloadSpec,
    FetchError,
    Layout,
    RepositoryFile,
)
from servers.host.weights.inventory import Inventory
from servers.judge.runs.limits import LimitsError
from servers.launch.engines.placement import VolumeError, resolve
from servers.launch.numbers import size
from servers.lifecycle.jobs import commands
from servers.lifecycle.runs import creation
from servers.lifecycle.weights import inventory
from servers.lifecycle.weights.inventory import hub_token
from servers.models import AuditEntry, Box, Download, User
from servers.models.jobs import DesiredJobState, JobKind, JobState, key_of
from servers.state import store

log = logging.getLogger(__name__)

OFF = "INFERDASH_HUB is off: this inferdash asks no Hub and downloads nothing by itself."
# Seconds of a page's question: in which nothing comes, and for each answer.
LOOK_SILENCE, LOOK_WITHIN = 8.0, 20.0
MOST_PATTERNS = 5000


class DownloadRequestError(Exception):
    """A download that nobody can want so; the text says why."""


@dataclass(frozen=True, kw_only=True)
class DownloadTarget:
    """A place for models on a box. `refused` says why it takes none, `advice` what to do."""

    into: str  # "": the Hugging Face cache
    path: str  # of the box
    free: int | None = None
    refused: str = ""
    advice: str = ""


@dataclass(frozen=True, kw_only=True)
class DownloadRequest:
    repository: str
    revision: str = "main"
    patterns: tuple[str, ...] = ()
    into: str = ""
    limit: int = 0


def read_name(text: str) -> tuple[str, str]:
    """Repository and revision of what somebody has typed or pasted; the revision may be "".

    An id, an id with a quantization (llama.cpp's org/name:Q4_K_M) or the address of a page. Raises
    DownloadRequestError.
    """
    plain = text.strip().removeprefix(settings.HUB or "https://huggingface.co")
    plain = plain.removeprefix("https://").removeprefix("http://")
    for host in ("huggingface.co/", "hf.co/", "www.huggingface.co/"):
        plain = plain.removeprefix(host)
    parts = [part for part in plain.partition("?")[0].partition("#")[0].split("/") if part]
    if parts[:1] in (["datasets"], ["spaces"]):
        raise DownloadRequestError(f"{text} is no model: inferdash downloads models only.")
    revision = parts[3] if len(parts) > 3 and parts[2] in ("tree", "blob", "resolve") else ""
    name = "/".join(parts[:2])
    is_path = text.strip().startswith(("/", "~", "."))
    if is_path or not REPOSITORY.fullmatch(name.partition(":")[0]) or len(name) > 200:
        raise DownloadRequestError(
            f"“{text[:100]}” is not the id of a model. Write it as the Hub does, Qwen/Qwen3-8B, or "
            "paste its page's address."
        )
    return name, revision


def read_request(
    text: str, *, revision: str, patterns: Iterable[str], into: str, limit: int
) -> DownloadRequest:
    """What somebody has typed, with what they have chosen; "" and nothing: as it says itself.

    Raises DownloadRequestError.
    """
    name, found = read_name(text)
    repository, _colon, quantization = name.partition(":")
    return DownloadRequest(
        repository=repository,
        revision=revision or found or "main",
        patterns=tuple(patterns) or ((f":{quantization}",) if quantization else ()),
        into=into,
        limit=limit,
    )


def ask(box: Box, wish: DownloadRequest, *, by: User) -> tuple[Download, bool]:
    """The download of a wish, and whether it is new: the same is wanted once a box.

    Raises DownloadRequestError.
    """
    if not settings.HUB:
        raise DownloadRequestError(OFF)
    if not REPOSITORY.fullmatch(wish.repository):
        raise DownloadRequestError(f"“{wish.repository[:100]}” is not the id of a model.")
    if not REVISION.fullmatch(wish.revision) or ".." in wish.revision:
        raise DownloadRequestError(f"“{wish.revision[:100]}” is not the name of a revision.")
    if len(wish.patterns) > MOST_PATTERNS or wish.limit < 0:
        raise DownloadRequestError("That is more than one download can be asked for.")
    patterns = list(wish.patterns)
    key = key_of(wish.repository, wish.revision, patterns, wish.into)
    params = {
        "revision": wish.revision, "patterns": patterns, "into": wish.into, "limit": wish.limit,
    }  # fmt: skip
    made = commands.ask(
        Download, box, JobKind.DOWNLOAD, by=by, what=wish.repository, target=key, params=params,
        revision=wish.revision,
    )  # fmt: skip
    if made is not None:
        return made, True
    return Download.objects.open().get(box=box, target=key), False


def pause(download: Download, *, by: User) -> None:
    commands.want(download, DesiredJobState.PAUSED, "pause download", by=by)


def resume(download: Download, *, by: User) -> None:
    """Goes on with one that is paused, and tries again one that has failed or was cancelled."""
    if not download.is_over:
        commands.want(download, DesiredJobState.GO, "resume download", by=by)
        return
    if download.state == JobState.DONE:
        return
    try:
        with transaction.atomic():
            if download.move(
                JobState.ASKED, wanted=DesiredJobState.GO, said="", advice="", trouble="",
                ended_at=None, drops_parts=False, rate=None,
            ):  # fmt: skip
                AuditEntry.note(
                    by, "try download again", download.repository, box=download.box.slug
                )
    except IntegrityError:
        return  # the same is asked for by now
    commands.tell(download)


def cancel(download: Download, *, by: User, drop_parts: bool) -> None:
    cancelled, action = DesiredJobState.CANCELLED, "cancel download"
    commands.want(download, cancelled, action, by=by, drops_parts=drop_parts)


def limit(download: Download, pace: int, *, by: User) -> None:
    """Bytes a second from now on; 0: as fast as can be."""
    if download.is_over or download.limit == pace:
        return
    download.write(limit=pace)
    AuditEntry.note(by, "limit download", download.repository, box=download.box.slug, to=pace)
    commands.tell(download)


# What follows is done on the box.


def targets(box: Box) -> list[DownloadTarget]:
    """Where models may be put on this box: its cache, then the folders with models."""
    try:
        roots = inventory.roots(box)
        files = creation.box_files()
        cache = resolve(box.hf_cache, home=box.home) if box.hf_cache else ""
    except (OSError, LimitsError, VolumeError, paths.PathError) as error:
        return [DownloadTarget(into="", path=box.hf_cache, refused=str(error))]
    found = []
    for root in roots:
        is_cache = root.path == cache or root.path == str(_real(cache))
        if root.is_usual and not is_cache and not files.is_folder(_real(root.path)):
            continue  # one of the usual places that this box happens not to have
        found.append(_target(root, files, is_cache=is_cache))
    return found


def _real(path: str) -> PurePosixPath:
    try:
        return paths.resolve(path, root=settings.HOST_ROOT)
    except paths.PathError:
        return PurePosixPath(path)


def _target(root: inventory.ModelFolder, files: BoxFiles, *, is_cache: bool) -> DownloadTarget:
    into = "" if is_cache else root.path
    if root.refused:
        return DownloadTarget(into=into, path=root.path, refused=root.refused)
    try:
        found = files.room(_real(f"{root.path}/hub" if is_cache else root.path))
    except RefusedFileError as error:
        says = f"{error.filename} is {error.because}: nothing is downloaded there."
        return DownloadTarget(into=into, path=root.path, refused=says)
    except OSError as error:
        return DownloadTarget(into=into, path=root.path, refused=f"{root.path}: {error.strerror}.")
    fault = listing.find_room_fault(found)
    return DownloadTarget(
        into=into,
        path=root.path,
        free=found.free,
        refused=str(fault) if fault else "",
        advice=fault.advice if fault else "",
    )


def build_spec(download: Download, others: Iterable[Download] = ()) -> DownloadSpec:
    """What the child is given. Raises FetchError where the box has no such place, or not for this.

    The row says which of the box's own places; where that is, and whether anything may be put
    there, is the box's to say.
    """
    box = download.box
    into = _resolve_folder(download.into, box)
    target = next((each for each in targets(box) if each.into == into), None)
    if target is None or not target.path:
        where = download.into or "a Hugging Face cache"
        raise FetchError(
            f"{where} is not among the folders with models of {box}.",
            "An admin names folders and the cache under Settings.",
        )
    if target.refused:
        raise FetchError(target.refused, target.advice)
    try:
        files = creation.box_files()
    except (OSError, LimitsError, paths.PathError) as error:
        raise FetchError(str(error)) from error
    layout: Layout = "folder" if into else "cache"
    shown = f"{target.path}/{download.repository}" if into else f"{target.path}/hub"
    return DownloadSpec(
        endpoint=settings.HUB,
        repository=download.repository,
        revision=download.revision,
        folder=str(_place(target, download.repository, files)),
        layout=layout,
        shown=shown,
        below=tuple(map(str, files.below)),
        own=tuple(map(str, files.own)),
        root=str(files.root),
        commit=download.commit,
        patterns=tuple(download.patterns),
        files=tuple(RepositoryFile.check(each) for each in download.files),
        verified={name: (size, at) for name, (size, at) in download.verified.items()},
        others=tuple(
            (str(_real(each.folder)), max(0, (each.total or 0) - each.done)) for each in others
        ),
        limit=download.limit,
        token=hub_token(box),
    )


def _place(target: DownloadTarget, repository: str, files: BoxFiles) -> PurePosixPath:
    """Where it goes in truth. The folder itself may be a link, if where that leads is allowed;
    nothing below it is. Raises FetchError."""
    real = _real(target.path) / repository if target.into else _real(f"{target.path}/hub")
    if not files.admits(real):
        raise FetchError(
            f"{target.path} leads to {real}, where profiles may mount nothing.",
            "Remove the link, or choose another folder.",
        )
    return real


def _resolve_folder(into: str, box: Box) -> str:
    """A folder as somebody has typed it, in the words of targets(); "" for the cache itself."""
    if not into:
        return ""
    try:
        path = resolve(into, home=box.home)
    except VolumeError:
        return into
    return "" if path == box.cache_path else path


def drop_parts(made: DownloadSpec) -> int:
    """Delete what is not whole yet; its bytes."""
    where, size = places.find_places(made), 0
    for file in made.files:
        part = where.part(file)
        found = places.size_at(part, where)
        if found is not None:
            with suppress(FileNotFoundError):
                where.files.remove(part)
            size += found
    return size


def describe_parts(download: Download, made: DownloadSpec) -> str:
    """What a cancelled download leaves on the disk."""
    where = places.find_places(made)
    whole = [file for file in made.files if places.size_at(where.final(file), where) == file.size]
    parts = sum(places.size_at(where.part(file), where) or 0 for file in made.files)
    if not whole and not parts:
        return "Nothing of it is left on the disk."
    said = []
    if whole:
        held = sum(file.size for file in whole)
        count = f"{len(whole)} whole file{'' if len(whole) == 1 else 's'}"
        stay = "stays" if len(whole) == 1 else "stay"
        said.append(f"{count} ({size(held)}) {stay} in {download.folder}")
    if parts:
        said.append(f"{size(parts)} of unfinished files stay, to go on from")
    return "; ".join(said) + "."


def note_stored(download: Download) -> None:
    """Into the list of what lies on the disks, before anybody looks through all of them."""
    try:
        files = creation.box_files()
    except (OSError, LimitsError, paths.PathError) as error:
        log.warning("could not look at what was downloaded: %s", error)
        return
    inventory.put(download.box, Inventory().look(str(_top(download)), files).found)


def is_there(download: Download, files: BoxFiles) -> bool:
    """Whether every file of one that is done still has its name on the disk."""
    where = _top(download)
    if _is_cached(download):
        where /= f"snapshots/{download.commit}"
    try:
        for each in download.files:
            files.look_at(where / each["name"])
    except OSError:
        return False
    return True


def _top(download: Download) -> PurePosixPath:
    top = PurePosixPath(download.folder)
    name = f"models--{download.repository.replace('/', '--')}"
    return top / name if _is_cached(download) else top


def _is_cached(download: Download) -> bool:
    return not _resolve_folder(download.into, download.box)


# Of a page: what the Hub has, and where it could be put.


def question(box: Box, nonce: str) -> str:
    return f"hub:{box.slug}:{nonce}"


def answer(asked: str, box: Box, repository: str, revision: str) -> None:
    """Ask the Hub from this box and tell who asked. Raises redis.RedisError."""
    store.give(asked, look(box, repository, revision))


def look(box: Box, repository: str, revision: str) -> dict[str, Any]:
    """What a page or a program is shown; {"says", "advice"} where there is nothing to show."""
    if not settings.HUB:
        return {"says": OFF, "advice": ""}
    try:
        asking = listing.outside(hub_token(box), silence=LOOK_SILENCE, within=LOOK_WITHIN)
        with asking as hub:
            found = listing.ask(hub, settings.HUB, repository, revision)
            if found.files:
                first = max(found.files, key=lambda each: each.size)
                listing.check_access(hub, settings.HUB, found, first.name)
    except FetchError as error:
        return {"says": str(error), "advice": error.advice}
    return {
        "repository": found.repository,
        "commit": found.commit,
        "files": [asdict(each) for each in found.files],
        "targets": [
            asdict(each) | {"there": _count_present(each, found, revision)} for each in targets(box)
        ],
    }


def _count_present(
    target: DownloadTarget, found: listing.RepositoryListing, revision: str
) -> dict[str, int]:
    """By name the bytes that lie there already."""
    try:
        files = creation.box_files()
        folder = _place(target, found.repository, files)
    except (OSError, LimitsError, paths.PathError, FetchError):
        return {}  # the target itself says why
    where: places.Places = (
        places.Folder(files, folder, found.commit)
        if target.into
        else places.HubCache(files, folder, found.repository, found.commit, revision)
    )
    sizes = {file.name: places.count_present(file, where) for file in found.files}
    return {name: size for name, size in sizes.items() if size}


def groups(said: Mapping[str, Any]) -> list[listing.FileGroup]:
    """The files of an answer, as people choose among them."""
    return listing.group_files(RepositoryFile.check(each) for each in said["files"])


def of_quantization(said: Mapping[str, Any], name: str) -> set[str]:
    """The names of the files that a quantization's name stands for; none where it is not there."""
    files = [RepositoryFile.check(each) for each in said["files"]]
    try:
        return {each.name for each in listing.choose_files(files, [f":{name}"])}
    except FetchError:
        return set()
