"""The checkpoint of a launch on its box, and its facts."""

import hashlib
import json
import math
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction

from servers import events
from servers.host.files import paths
from servers.host.files.box_files import BoxFiles
from servers.host.files.paths import PathError
from servers.host.weights import checkpoints
from servers.host.weights import hub as remote
from servers.host.weights.hub import RemoteModel
from servers.launch.engines import llamacpp, placement
from servers.launch.engines.launch import Launch
from servers.launch.engines.placement import HF_HOME, Site, VolumeError
from servers.lifecycle.runs.creation import box_files, hub
from servers.models import Box, CheckpointFacts, Profile
from servers.models.people.key import SecretError
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
