"""Download offers: what a profile needs of the Hub and its box lacks."""

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from django.conf import settings

from servers.host.weights import stored
from servers.host.weights.fetch.places import REPOSITORY, REVISION
from servers.launch.engines import llamacpp
from servers.launch.engines.launch import Launch
from servers.lifecycle.profiles import preflight
from servers.lifecycle.profiles.knowledge import LaunchContext
from servers.lifecycle.weights import checkpoints
from servers.lifecycle.weights.downloads import DownloadRequest
from servers.models import Box, Download, ModelInventory


@dataclass(frozen=True, kw_only=True)
class DownloadOffer:
    wish: DownloadRequest
    running: Download | None  # the same model, on its way already

    @property
    def name(self) -> str:
        """As the page for downloads takes it."""
        first = next(iter(self.wish.patterns), "")
        is_quantization = len(first) > 1 and not stored.is_file(first)
        return f"{self.wish.repository}{first if is_quantization else ''}"


def find_offer(context: LaunchContext) -> DownloadOffer | None:
    """None where the box has it, nobody knows, or it is not the Hub's."""
    wish = build_download_request(context.launch, context.box) if settings.HUB else None
    if wish is None or not _is_missing(context):
        return None
    running = Download.objects.open().filter(box=context.box, what__iexact=wish.repository).first()
    return DownloadOffer(wish=wish, running=running)


def build_download_request(launch: Launch, box: Box) -> DownloadRequest | None:
    """What a launch needs of the Hub; None where its checkpoint is a path that tells no model."""
    if launch.checkpoint.startswith("/"):
        return _of_path(checkpoints.source(launch, box), box)
    if launch.engine == "llamacpp":
        repository, wanted = llamacpp.of_hub(launch) or ("", "")
        return _wish(repository, patterns=(f":{wanted}",))
    return _wish(launch.checkpoint, revision=launch.revision or "main")


def _wish(repository: str, **more: Any) -> DownloadRequest | None:
    return (
        DownloadRequest(repository=repository, **more) if REPOSITORY.fullmatch(repository) else None
    )


def _of_path(path: str, box: Box) -> DownloadRequest | None:
    """Of a path of the box: in the Hub's cache, or below a folder with models, where downloads go
    to organisation/name."""
    if not path:
        return None
    cache = box.cache_path
    if cache and PurePosixPath(path).is_relative_to(f"{cache}/hub"):
        return _of_snapshot(PurePosixPath(path).relative_to(f"{cache}/hub").parts)
    inventory = ModelInventory.objects.find(box)
    roots = [each["path"] for each in inventory.roots if not each["refused"]] if inventory else []
    around = [root for root in roots if PurePosixPath(path).is_relative_to(root) and root != cache]
    if not around:
        return None
    root = max(around, key=len)
    parts = PurePosixPath(path).relative_to(root).parts
    return _wish("/".join(parts[:2]), patterns=_file(parts[2:]), into=root) if parts[1:] else None


def _of_snapshot(parts: tuple[str, ...]) -> DownloadRequest | None:
    """Rule: the layout of huggingface_hub's cache (models--org--name/snapshots/commit)."""
    if len(parts) < 3 or not parts[0].startswith("models--") or parts[1] != "snapshots":
        return None
    repository, revision = parts[0].removeprefix("models--").replace("--", "/"), parts[2]
    if not REVISION.fullmatch(revision):
        return None
    return _wish(repository, revision=revision, patterns=_file(parts[3:]))


def _file(parts: tuple[str, ...]) -> tuple[str, ...]:
    name = "/".join(parts)
    return (f":{name}",) if stored.is_file(name) else ()


def _is_missing(context: LaunchContext) -> bool:
    """Whether a start would lack its model, as far as the box has looked."""
    known = context.checkpoint
    if known is not None:
        return bool((known.missing or known.remote) and known.remote != "gone")
    return preflight.is_path_missing(context)
