"""Where a launch's checkpoint lies on its box, and what is known of it."""

from django.conf import settings

from servers.engines import places
from servers.engines.launch import Launch
from servers.engines.placement import Site
from servers.engines.volumes import VolumeError
from servers.host import checkpoints
from servers.judge import limits
from servers.lifecycle.creation import hub, own_paths
from servers.models import Box, CheckpointFacts


def source(launch: Launch, box: Box) -> str:
    """What CheckpointFacts calls it; "" for one that inferdash cannot find on a box."""
    if launch.checkpoint.startswith("/"):
        try:
            return places.checkpoint(launch, Site(home=box.home, hf_cache=box.hf_cache))
        except VolumeError:
            return ""
    if launch.engine == "llamacpp" or not (launch.mount_hf_cache and box.hf_cache):
        return ""  # one repository holds every quantization, and one of them is loaded
    return f"{launch.checkpoint}@{launch.revision or 'main'}"


def known(launch: Launch, box: Box) -> CheckpointFacts | None:
    name = source(launch, box)
    return CheckpointFacts.objects.filter(box=box, source=name).first() if name else None


def look(name: str, box: Box) -> checkpoints.Found | None:
    """Look for it here, on the box; None where there is nothing, or profiles may not have it.

    Raises OSError or LimitsError when the box's limits cannot be read, and VolumeError when
    it is not known where the cache lies.
    """
    if not name.startswith("/"):
        checkpoint, _at, revision = name.rpartition("@")
        folder = checkpoints.snapshot(hub(box), checkpoint, revision)
        return checkpoints.look(folder) if folder else None
    allowed = limits.read(settings.BOX_FILE)
    if limits.mount_refusal(name, allowed, root=settings.HOST_ROOT, own=own_paths()):
        return None
    return checkpoints.look(settings.HOST_ROOT / name.lstrip("/"))
