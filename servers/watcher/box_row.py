"""The box's own row: its heartbeat, its host resources, and what it lacks."""

import logging
import secrets
import socket
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import redis
from django.conf import settings
from django.db.models.functions import Now
from django.utils import timezone

from servers import events, lifecycle
from servers.host.docker.containers import ContainerError, DockerFacts, Image
from servers.host.files import paths
from servers.host.kernel import resources
from servers.host.kernel.proc import Kernel
from servers.judge.alerts.attention import NO_GPU
from servers.judge.memory.verdicts import ALARMS
from servers.judge.messages import say
from servers.judge.runs import limits
from servers.lifecycle.runs import creation, reboots, starts
from servers.models import AuditEntry, Box, HostResources
from servers.state import store

log = logging.getLogger(__name__)

REQUIRE, NO_REQUIRE = "NVIDIA_REQUIRE_CUDA", "NVIDIA_DISABLE_REQUIRE"


def look_at_host_resources(box: Box, docker: DockerFacts | None) -> None:
    """Everything but the images; without Docker, what can be told without it."""
    root = settings.HOST_ROOT
    found: dict[str, Any] = {}
    if docker is not None:
        found = {"architecture": docker.architecture, "runtimes": list(docker.runtimes)}
    disks = {
        "images": resources.disk(docker.root, root=root) if docker is not None else None,
        "cache": resources.disk(box.cache_path, root=root) if box.cache_path else None,
        "shm": resources.shared_memory(root=root),
    }
    found["disks"] = {name: asdict(disk) for name, disk in disks.items() if disk is not None}
    if (ports := resources.list_listening_ports()) is not None:
        found["listening"] = sorted(ports)
    if (addresses := resources.addresses()) is not None:
        found["addresses"] = sorted(addresses)
    if (toolkit := resources.has_toolkit(root=root)) is not None:
        found["toolkit"] = toolkit
    try:
        found["clock"] = asdict(resources.ahead_of(store.shared_time))
    except (redis.RedisError, OSError) as error:
        log.warning("Redis does not say the time: %s", error)
    _keep(box, found=found)


def note_images(box: Box, seen: Mapping[str, Image | None]) -> None:
    """Which of the images that profiles name are there, and what they ask of the driver."""
    images = {reference: _image(image) if image else None for reference, image in seen.items()}
    known = HostResources.objects.find(box)
    if known is None or known.images != images:
        _keep(box, images=images)


def _image(image: Image) -> dict[str, Any]:
    is_asked = image.env.get(NO_REQUIRE, "").casefold() not in ("1", "true")
    return {
        "id": image.id,
        "architecture": image.architecture,
        "size": image.size,
        "require": image.env.get(REQUIRE, "") if is_asked else "",
    }


def _keep(box: Box, **values: Any) -> None:
    HostResources.objects.update_or_create(
        box=box, defaults={"looked_at": timezone.now(), **values}
    )


# Seconds. A worker begins what it is sent at once; one that is started again needs a few.
TAKEN_WITHIN = 60
# Another one for each watcher that is started.
_ME = {"id": secrets.token_hex(6), "host": socket.gethostname()}
HUNG_WORKER = (
    "It hangs or does not run. Starts and stops still work, as the watcher takes them over, up to "
    "10 s later; forms learn nothing of this box’s files. Restart inferdash on the box: engines "
    "go on running."
)


def enrol() -> Box:
    """This box's row and limits file, made on the first start."""
    home = settings.HOME
    if not settings.BOX_FILE.exists():
        settings.BOX_FILE.write_text(limits.default_text(home))
    cache = _usual_cache(home)
    defaults = {"home": home, "hf_cache": cache}
    box, made = Box.objects.get_or_create(slug=settings.BOX, defaults=defaults)
    if cache and not made and not box.hf_cache and not _has_been_set(box):
        # Older versions left it empty where the folder was not there yet.
        box.hf_cache = cache
        box.save(update_fields=["hf_cache"])
    if not box.home and not made:
        # The hub has made the row when it let the box in.
        box.home = home
        box.save(update_fields=["home"])
    return box


def _usual_cache(home: str) -> str:
    """Where engines keep what they download, there or to be made; "" where that cannot be."""
    cache = f"{home}/.cache/huggingface"
    try:
        allowed = limits.read(settings.BOX_FILE)
        own = creation.own_paths()
        refused = limits.mount_refusal(cache, allowed, root=settings.HOST_ROOT, own=own)
        if refused or paths.exists(cache, root=settings.HOST_ROOT):
            return "" if refused else cache
        # In a container the box's files are there to read alone.
        room = creation.box_files().room(paths.resolve(cache, root=settings.HOST_ROOT))
    except (limits.LimitsError, paths.PathError, OSError) as error:
        log.warning("whether engines may have %s is not known: %s", cache, error)
        return ""
    return cache if room.may_write and not room.is_read_only else ""


def _has_been_set(box: Box) -> bool:
    """Whether an admin has said on the settings page which cache the box has, or that it has none."""
    said = AuditEntry.objects.filter(action="change box", subject=str(box))
    return any("hf_cache" in each.detail for each in said)


def note_boot(box: Box, *, seen_before: datetime | None) -> None:
    """Take up a restart of the box. Raises ContainerError while Docker is not there yet."""
    kernel = Kernel(root=settings.KERNEL_ROOT)
    boot_id, booted_at = kernel.boot_id(), kernel.booted_at()
    if boot_id is not None and booted_at is not None:
        lifecycle.note_boot(
            box, boot_id, datetime.fromtimestamp(booted_at, UTC), seen_before=seen_before
        )


def sign_of_life(box: Box, sample: dict[str, Any] | None, problems: list[dict[str, str]]) -> bool:
    """Write down what Docker, the limits file and the newest sample say, and the watcher's own
    problems; whether the box's problems are others than before."""
    docker, facts = gather(sample)
    twins = find_twins(box)
    facts["problems"] += [*problems, *hung_worker(box), *describe_twins(box, twins)]
    facts |= {"watcher": _ME, "twins": twins}
    look_at_host_resources(box, docker)
    changed = facts != box.facts or box.is_silent
    are_others: bool = facts["problems"] != box.facts.get("problems", [])
    # By the hub's clock: with that the hub compares it, to say whether the box is away.
    Box.objects.filter(pk=box.pk).update(seen_at=Now(), facts=facts)
    # Not before the hub has it: until then the box is as away as ever. Here by our own clock, with
    # which this process compares it.
    box.seen_at, box.facts = timezone.now(), facts
    reboots.note_versions(box)
    if changed:
        events.publish_change("box", box.pk)
    return are_others


def find_twins(box: Box) -> list[str]:
    """The hosts of two machines that run as this box, as a copied disk does; [] of one."""
    written = box.facts.get("watcher")
    found = Box.objects.values_list("facts__watcher", flat=True).get(pk=box.pk)
    # After this process has written, only one that goes on beside it can have written, too.
    if written != _ME or found in (None, _ME):
        return []
    return sorted([_ME["host"], found["host"]])


def describe_twins(box: Box, twins: list[str]) -> list[dict[str, str]]:
    """As a problem of the box."""
    if not twins:
        return []
    one, other = twins
    what = f"Two machines run as {box}: {one} and {other}"
    return [{"what": what, "fix": say("links.twins").text}]


def hung_worker(box: Box) -> list[dict[str, str]]:
    """That the box's worker takes no requests, as a problem of the box."""
    try:
        age = store.read_untaken_age(box.queue)
    except redis.RedisError as error:
        log.debug("could not ask for requests that wait: %s", error)
        return []
    if age is None or age < TAKEN_WITHIN:
        return []
    return [{"what": "Its worker takes no requests", "fix": HUNG_WORKER}]


def gather(sample: dict[str, Any] | None) -> tuple[DockerFacts | None, dict[str, Any]]:
    """What Docker says, None when it does not, and what the box's row keeps."""
    told: DockerFacts | None = None
    problems: list[dict[str, str]] = []
    docker: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    try:
        told = creation.docker().facts()
        docker = {"version": told.version, "root": told.root}
        left_out = starts.list_unsupported(creation.docker())
    except ContainerError as error:
        problems.append({"what": "Docker cannot be used", "fix": str(error)})
    if sample is not None and sample.get("error"):
        problems.append({"what": NO_GPU, "fix": str(sample["error"])})
    allowed: dict[str, Any] = {}
    opened: list[dict[str, Any]] = []
    try:
        read = limits.read(settings.BOX_FILE)
        allowed = {name: getattr(read, name) for name in read.__dataclass_fields__}
        allowed = {k: list(v) if isinstance(v, tuple) else v for k, v in allowed.items()}
        opened = reboots.find_mount_permissions(settings.BOX, read, left_out)
    except (limits.LimitsError, OSError) as error:
        problems.append({"what": "The limits file cannot be used", "fix": str(error)})
    found = {"docker": docker, "limits": allowed, "problems": problems}
    found |= {"left_out": left_out, "openings": opened, "manage": settings.MANAGE}
    found["version"] = settings.VERSION
    if kernel := Kernel(root=settings.KERNEL_ROOT).release():
        found["kernel"] = kernel
    if sample is not None:
        found |= {"gpus": _gpus(sample), "driver": sample.get("driver") or ""}
        found["faults"] = faults(sample)
    return told, found


def faults(sample: dict[str, Any]) -> list[str]:
    """Which rules of the hardware's health, or of its memory, say that something is wrong."""
    wrong = {each["rule"] for each in sample.get("findings") or [] if each["severity"] != "info"}
    held = {each["verdict"] for each in sample.get("verdicts") or [] if each["verdict"] in ALARMS}
    return sorted(wrong | held)


def _gpus(sample: dict[str, Any]) -> list[dict[str, Any]]:
    """What stays the same of them, for who plans a launch."""
    parts = ("index", "uuid", "name", "compute_capability", "total", "kind")
    return [{part: card.get(part) for part in parts} for card in sample.get("gpus") or []]
