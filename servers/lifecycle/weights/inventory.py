"""Checkpoints on a box's disks: where to look for them, their facts, and which profiles use which."""

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Max, QuerySet
from django.utils import timezone

from servers import events
from servers.host.files import paths
from servers.host.files.box_files import BoxFiles
from servers.host.files.paths import PathError
from servers.host.kernel.resources import HostDisk
from servers.host.weights import checkpoints
from servers.host.weights import hub as remote
from servers.host.weights.hub import RemoteModel
from servers.host.weights.inventory import FolderInventory as Looked
from servers.host.weights.stored import Checkpoint
from servers.judge.runs import limits
from servers.judge.weights import checkpoints as judge
from servers.launch.engines import llamacpp, official_image, placement
from servers.launch.engines.launch import Launch, fill_parameters
from servers.launch.engines.placement import HF_HOME, Site, VolumeError, resolve
from servers.lifecycle.runs.creation import box_files, hub, own_paths
from servers.models import (
    Box,
    CheckpointFacts,
    ModelInventory,
    Profile,
    Run,
    StoredCheckpoint,
    User,
)
from servers.models.people.key import SecretError
from servers.models.weights import LONGEST_PATH
from servers.state import store

# The Hub's cache in containers.
_HUB = f"{HF_HOME}/hub"


def source(launch: Launch, box: Box) -> str:
    """What CheckpointFacts calls it; "" for one that inferdash cannot find on a box."""
    if not launch.checkpoint:
        return ""  # what serves no models
    if launch.checkpoint.startswith("/"):
        try:
            return placement.find_checkpoint_path(
                launch, Site(home=box.home, hf_cache=box.hf_cache)
            )
        except VolumeError:
            return ""
    if not (launch.mount_hf_cache and box.hf_cache):
        return ""
    if launch.engine == "llamacpp":
        return _gguf_source(launch)
    return f"{launch.checkpoint}@{launch.revision or 'main'}"


def _gguf_source(launch: Launch) -> str:
    """One repository holds every quantization, and one of them is loaded: org/name:Q4_K_M@main."""
    named = llamacpp.of_hub(launch)
    if named is None or launch.env.get("LLAMA_CACHE", _HUB) != _HUB:
        return ""  # it keeps what it downloads elsewhere
    repository, wanted = named
    return f"{repository}:{wanted}@main"


def look_soon(profile: Profile) -> None:
    """Have the profile's boxes look for what it names now, once that is saved."""
    for slug in profile.servers.values_list("box__slug", flat=True).distinct():
        transaction.on_commit(partial(events.wake_watcher, slug, events.Topic.CHECKPOINTS))


def question(name: str, box: Box) -> str:
    asked = json.dumps([name, box.home, box.hf_cache])
    return f"checkpoint:{box.slug}:{hashlib.sha256(asked.encode()).hexdigest()}"


def answer(name: str, box: Box) -> None:
    """Look here, on the box, and tell who asked. `box` need not be saved.

    Raises what look() raises, and redis.RedisError.
    """
    found = look(name, box)
    store.give(question(name, box), facts(found) if found is not None else {})


def build_facts(name: str, box: Box, said: Any) -> CheckpointFacts | None:
    """What a box has answered, as its row would say it."""
    return CheckpointFacts(box=box, source=name, **said) if said else None


def facts(found: checkpoints.CheckpointFiles) -> dict[str, Any]:
    """What CheckpointFacts keeps of a checkpoint."""
    config = lean(found.config) if found.config is not None else None
    return {"config": config, "weights": found.weights, "missing": found.missing, "remote": ""}


def remote_facts(found: RemoteModel) -> dict[str, Any]:
    """The same of one that is still to be downloaded, all of it."""
    config = lean(found.config) if found.config is not None else None
    return {
        "config": config,
        "weights": found.weights,
        "missing": found.weights or 0,
        "remote": found.access,
    }


def ask_hub(name: str, box: Box) -> RemoteModel | None:
    """What the Hub says of a model that the box does not have; None where nobody is to be asked.

    Raises HubError.
    """
    if name.startswith("/") or not settings.HUB:
        return None
    checkpoint, _at, revision = name.rpartition("@")
    repository, colon, wanted = checkpoint.partition(":")
    gguf = wanted if colon else None
    return remote.look(settings.HUB, repository, revision, hub_token(box), gguf=gguf)


def hub_token(box: Box) -> str:
    try:
        return box.hf_token.reveal() if box.hf_token else ""
    except SecretError:
        return ""  # a start says so; here only the private ones stay unknown


# Lists that say what each layer keeps of a request.
_KEPT_LISTS = (
    "architectures",
    "layer_types",
    "layers_block_type",
    "attn_type_list",
    "full_attn_layers",
    "compress_ratios",
)


def lean(config: dict[str, Any], *, depth: int = 3) -> dict[str, Any]:
    """Without most lists of layers: those are most of it, and no rule reads them; and without what
    no database keeps."""
    kept: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, dict):
            if depth > 1:
                kept[_storable(name)] = lean(value, depth=depth - 1)
        elif not isinstance(value, list) or name in _KEPT_LISTS:
            kept[_storable(name)] = _storable(value)
    return kept


def _storable(said: Any) -> Any:
    """Python's JSON knows NaN and Infinity, and texts with NUL or half a character."""
    if isinstance(said, str):
        return said.encode(errors="replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
    if isinstance(said, float) and not math.isfinite(said):
        return None
    if isinstance(said, list):
        return [_storable(each) for each in said]
    if isinstance(said, dict):
        return {_storable(name): _storable(value) for name, value in said.items()}
    return said


def look(name: str, box: Box) -> checkpoints.CheckpointFiles | None:
    """Look for it here, on the box; None where there is nothing, or profiles may not have it.

    Raises OSError or LimitsError when the box's limits cannot be read, and VolumeError when
    it is not known where the cache lies.
    """
    try:
        return _look(name, box, box_files())
    except PathError:
        return None


def _look(name: str, box: Box, files: BoxFiles) -> checkpoints.CheckpointFiles | None:
    if not name.startswith("/"):
        checkpoint, _at, revision = name.rpartition("@")
        folder = checkpoints.snapshot(hub(box), checkpoint, files, revision)
        if folder is None:
            return None
        _repository, colon, wanted = checkpoint.partition(":")
        if colon:
            return checkpoints.look_for_gguf(folder, wanted, files)
        return checkpoints.look(folder, files)
    return checkpoints.look(paths.resolve(name, root=settings.HOST_ROOT), files)


# Unix seconds of the last day that Python knows: some file systems know later ones.
_LAST_MOMENT = datetime(9999, 12, 31, tzinfo=UTC).timestamp()

# Beside the Hugging Face cache, and what box.toml names.
USUAL = ("~/models", "~/.cache/modelscope")


@dataclass(frozen=True, kw_only=True)
class ModelFolder:
    path: str  # of the box, resolved; as typed where that cannot be
    is_usual: bool  # nobody has asked for this one by name
    refused: str = ""  # why it is not looked into


@dataclass(frozen=True, kw_only=True)
class ModelUse:
    profile: Profile
    last_started: datetime | None
    is_running: bool = False


def roots(box: Box) -> list[ModelFolder]:
    """The folders to look into: those of the settings, else the usual ones.

    Only below what profiles may mount: whoever can change settings in the web must not be able
    to read the rest of the box by them. Raises LimitsError, and OSError when box.toml cannot be
    read.
    """
    allowed = limits.read(settings.BOX_FILE)
    named = box.model_folders.split("\n") if box.model_folders.strip() else []
    # A home as a whole holds too much, and compiled kernels are no models.
    passed_over = {box.home, "/", *limits.of_home(box.home, limits.KERNEL_FOLDERS)}
    usual = [*USUAL, *(each for each in allowed.mount_roots if each not in passed_over)]
    wanted = [(box.hf_cache, True)] if box.hf_cache else []
    wanted += [(each.strip(), False) for each in named if each.strip()]
    wanted += [(each, True) for each in usual] if not named else []
    found: dict[str, ModelFolder] = {}
    for text, is_usual in wanted:
        root = _root(text, is_usual=is_usual, box=box, allowed=allowed)
        if not (root.refused and is_usual):
            found.setdefault(root.path, root)
    return list(found.values())


def _root(text: str, *, is_usual: bool, box: Box, allowed: limits.Limits) -> ModelFolder:
    try:
        path = resolve(text, home=box.home)
    except VolumeError as error:
        return ModelFolder(path=text, is_usual=is_usual, refused=str(error))
    refused = limits.mount_refusal(path, allowed, root=settings.HOST_ROOT, own=own_paths())
    return ModelFolder(path=path, is_usual=is_usual, refused=refused)


def report(
    root: ModelFolder, looked: Looked | None, disk: HostDisk | None = None
) -> dict[str, Any]:
    """What ModelInventory.roots keeps of one of them; None: it was not looked into."""
    told: dict[str, Any] = {"path": root.path, "is_usual": root.is_usual, "refused": root.refused}
    if disk is not None:
        told["disk"] = {"free": disk.free, "total": disk.total, "device": disk.device}
    if looked is None:
        return told | {"found": 0, "hidden": [], "is_cut": False, "absent": False}
    return told | {
        "found": len(looked.found),
        "hidden": list(looked.hidden),
        "is_cut": looked.is_cut,
        "absent": looked.absent,
    }


def keep(box: Box, found: Iterable[Checkpoint]) -> bool:
    """Make the rows say what was found; whether that is anything new."""
    wanted = {each.path: _values(each) for each in found if len(each.path) <= LONGEST_PATH}
    rows = {row.path: row for row in box.checkpoints.all()}
    gone = [row.pk for path, row in rows.items() if path not in wanted]
    changed = False
    with transaction.atomic():
        StoredCheckpoint.objects.filter(pk__in=gone).delete()
        for path, values in wanted.items():
            row = rows.get(path)
            if row is None:
                StoredCheckpoint.objects.create(box=box, path=path, **values)
                changed = True
            elif {name: getattr(row, name) for name in values} != values:
                StoredCheckpoint.objects.filter(pk=row.pk).update(**values)
                changed = True
    return changed or bool(gone)


def put(box: Box, found: Iterable[Checkpoint]) -> None:
    """Into the rows, beside what is there already; and let everything be looked at again."""
    for each in (each for each in found if len(each.path) <= LONGEST_PATH):
        StoredCheckpoint.objects.update_or_create(box=box, path=each.path, defaults=_values(each))
    ModelInventory.objects.update_or_create(box=box, defaults={"wanted_at": timezone.now()})


def _values(found: Checkpoint) -> dict[str, Any]:
    return {
        "name": found.name[:300],
        "is_hub": found.is_hub,
        "revision": found.revision[:64],
        "refs": list(found.refs),
        "format": found.format,
        "weights": found.weights,
        "size": found.size,
        "files": found.files,
        "state": found.state,
        "because": found.because[:500],
        "missing": found.missing,
        "fingerprint": found.fingerprint,
        "config": lean(found.config) if found.config is not None else None,
        "is_adapter": found.is_adapter,
        "changed_at": datetime.fromtimestamp(max(0.0, min(found.changed, _LAST_MOMENT)), UTC),
        "texts": found.texts,
        "unread": found.unread,
        "licence": found.licence[:100],
    }


def uses(box: Box, person: User) -> dict[int, list[ModelUse]]:
    """By a stored checkpoint's key, the profiles that name it, as far as this person sees them."""
    stored = list(box.checkpoints.defer("texts", "config"))
    runs = Run.objects.filter(server__box=box)
    last = dict(runs.values_list("version__profile").annotate(at=Max("created_at")))
    running = set(runs.active().values_list("version__profile", flat=True))
    found: dict[int, list[ModelUse]] = {}
    for profile in _filter_placed(Profile.objects.seen_by(person)):
        use = ModelUse(
            profile=profile,
            last_started=last.get(profile.pk),
            is_running=profile.pk in running,
        )
        launches = _launches(profile, box)
        for each in stored:
            if any(names(launch, each, box) for launch in launches):
                found.setdefault(each.pk, []).append(use)
    return found


def names_it(stored: StoredCheckpoint) -> list[Profile]:
    """All profiles that name a stored checkpoint, whoever may see them."""
    box = stored.box
    return [
        profile
        for profile in _filter_placed(Profile.objects.all())
        if any(names(launch, stored, box) for launch in _launches(profile, box))
    ]


def _filter_placed(profiles: QuerySet[Profile]) -> QuerySet[Profile]:
    found = profiles.exclude(current=None).select_related("current")
    return found.prefetch_related("servers")


def _launches(profile: Profile, box: Box) -> list[Launch]:
    """As its servers on this box start it; as it stands where it is on no box."""
    values = [server.values for server in profile.servers.all() if server.box_id == box.pk]
    return [fill_parameters(profile.launch, each) for each in values or [{}]]


def names(launch: Launch, stored: StoredCheckpoint, box: Box) -> bool:
    """Whether it is what a launch's checkpoint leads to on the box."""
    if not launch.checkpoint.startswith("/"):
        name, _colon, _quantization = launch.checkpoint.partition(":")
        is_same = stored.name.casefold() == name.casefold()
        if not (stored.is_hub and is_same):
            return False
        wanted = launch.revision or "main"
        return wanted in stored.refs or stored.revision.startswith(wanted)
    try:
        path = placement.find_checkpoint_path(launch, Site(home=box.home, hf_cache=box.hf_cache))
    except VolumeError:
        return False
    return path.rstrip("/") == stored.path


def launch(stored: StoredCheckpoint) -> Launch:
    """A profile to begin with: the engine by the format, as many GPUs as the weights need."""
    engine = "llamacpp" if stored.format == "gguf" else "vllm"
    room = judge.room(stored.weights, stored.box.gpus)
    flags: tuple[str, ...] = ()
    if engine != "llamacpp" and room is not None and (room.gpus or 1) > 1:
        flags = ("--tensor-parallel-size", str(room.gpus))
    image = _image(engine, stored.box)
    return Launch(engine=engine, image=image, flags=flags, **describe_source(stored))


def describe_source(stored: StoredCheckpoint) -> dict[str, Any]:
    """What a launch says of it: its name at the Hub, or its path and the folder to mount."""
    if stored.is_hub and stored.format != "gguf":
        revision = "" if "main" in stored.refs else stored.revision
        return {"checkpoint": stored.name, "revision": revision, "volumes": ()}
    folder = _to_mount(stored)
    # The same path inside, so that it reads as it does on the box.
    return {"checkpoint": stored.path, "revision": "", "volumes": (f"{folder}:{folder}:ro",)}


def _image(engine: str, box: Box) -> str:
    """One that the box has and that has answered, else the official one."""
    asked = box.image_facts.filter(engine=engine, error="").exclude(asked_at=None)
    newest = asked.order_by("-asked_at").values_list("reference", flat=True).first()
    return newest or official_image(engine)


def _to_mount(stored: StoredCheckpoint) -> PurePosixPath:
    """A revision in the Hub's cache is links into the blobs beside it."""
    path = PurePosixPath(stored.path)
    if stored.is_hub:
        return next(each for each in path.parents if each.name.startswith("models--"))
    return path if stored.format != "gguf" else path.parent


def title(stored: StoredCheckpoint) -> str:
    """A profile's name for it: without the organisation."""
    return stored.name.rpartition("/")[2].lower()
