"""Preflight of disks and shared memory."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from servers.judge.profiles.facts import LaunchFacts
from servers.judge.profiles.preflight.context import GIB, PreflightItem, StartContext, gib, item
from servers.launch.engines.launch import Launch

# What an engine's image takes unpacked, at most, and what Docker needs to make a container.
IMAGE_SIZE, LITTLE = 40 * GIB, 2 * GIB
LEAST_SHM = GIB
_OF_HUB = re.compile(r"[\w.-]+/[\w.-]+")


def rooms(facts: LaunchFacts, around: StartContext) -> Iterator[PreflightItem]:
    disks = around.found.get("disks") or {}
    pulls = around.images.get(facts.launch.image, ...) is None
    if (images := disks.get("images")) is not None:
        least = IMAGE_SIZE if pulls else LITTLE
        yield _room("image-disk", "Docker's disk", images, least, "the image" if pulls else "")
    if around.has_cache is False and _needs_cache(facts.launch):
        yield item(
            "weights-lost", "Weights", "warning",
            f"{around.box} has no Hugging Face cache: the weights are downloaded into the "
            "container and lost with it, and every start downloads them again.",
            "An admin names the cache's folder under Settings. Or mount one at "
            "/root/.cache/huggingface.",
        )  # fmt: skip
    cache = disks.get("cache")
    if (
        cache is not None
        and around.checkpoint in ("part", "missing")
        and facts.launch.mount_hf_cache
    ):
        if around.missing and around.missing > cache["free"]:
            yield item(
                "weights-disk", "Model disk", "error",
                f"{gib(around.missing)} GiB of weights are to be downloaded, and {cache['path']} "
                f"has {gib(cache['free'])} GiB free.",
                "Delete models that nobody needs, or move the Hugging Face cache to a larger disk.",
            )  # fmt: skip
        else:
            yield _room(
                "weights-disk", "Model disk", cache, around.missing or IMAGE_SIZE, "weights"
            )


def _needs_cache(launch: Launch) -> bool:
    """Whether it has a model of the Hub downloaded to where only the box's cache would keep it."""
    is_of_hub = bool(_OF_HUB.fullmatch(launch.checkpoint))
    return launch.mount_hf_cache and is_of_hub and "huggingface" not in " ".join(launch.volumes)


def _room(id: str, title: str, disk: Mapping[str, Any], least: int, what: str) -> PreflightItem:
    free = f"{disk['path']} has {gib(disk['free'])} GiB free"
    if disk["free"] >= least:
        return item(id, title, "ok", f"{free}.")
    may_take = f", and {what} may take up to {gib(least)}" if what else ", and containers need some"
    return item(
        id, title, "warning", f"{free}{may_take}.",
        "Remove what nobody needs there: docker system df and du say what it is.",
    )  # fmt: skip


def shared_memory(facts: LaunchFacts, around: StartContext) -> Iterator[PreflightItem]:
    shm = (around.found.get("disks") or {}).get("shm")
    if facts.launch.ipc != "host" or shm is None or facts.engine == "llamacpp":
        return
    if shm["free"] < LEAST_SHM:
        yield item(
            "shm", "Shared memory", "warning",
            f"The box's /dev/shm, which --ipc host uses, has {gib(shm['free'])} of "
            f"{gib(shm['total'])} GiB free: NCCL fails or hangs without it.",
            "Remove what killed engines left there; the box's page lists it.",
        )  # fmt: skip
    else:
        yield item("shm", "Shared memory", "ok", f"{gib(shm['free'])} GiB of /dev/shm are free.")
