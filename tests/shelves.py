"""Rows of images, pulls, builds and log-ins, as a watcher writes them."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from servers.models import Box, ImageInventory, ImageJob, RegistryCredential, StoredImage, TagNews
from tests.samples import GIB


def image_id(number: int) -> str:
    return f"sha256:{number:064x}"


def shelf(on: Box, **values: Any) -> ImageInventory:
    usual = {"looked_at": timezone.now(), "layers": 41 * GIB}
    return ImageInventory.objects.update_or_create(box=on, defaults=usual | values)[0]


def stored_image(on: Box, number: int = 0xA1B2C3, **values: Any) -> StoredImage:
    usual = {
        "image_id": image_id(number), "tags": ["vllm/vllm-openai:v0.20.2"], "size": 21 * GIB,
        "digests": [f"vllm/vllm-openai@{image_id(number + 1)}"], "shared": 6 * GIB,
        "engine": "vllm", "architecture": "amd64", "cuda": "13.0.1",
        "made_at": timezone.now() - timedelta(days=12),
    }  # fmt: skip
    return StoredImage.objects.create(box=on, **usual | values)


def image_job(on: Box, **values: Any) -> ImageJob:
    """A pull that has failed, unless they say otherwise."""
    now = timezone.now()
    usual: dict[str, Any] = {
        "kind": "pull", "reference": "vllm/vllm-openai:v0.21.0", "state": "failed",
        "said": "The registry has no such tag. Check the image's tag in the profile.",
        "asked_at": now - timedelta(minutes=3), "ended_at": now,
    }  # fmt: skip
    values = usual | values
    return ImageJob.objects.create(box=on, target=values["reference"], **values)


def tag_news(on: Box, **values: Any) -> TagNews:
    """A newer build that is not here yet, unless they say otherwise."""
    now = timezone.now()
    usual = {
        "reference": "lmsysorg/sglang:latest", "checked_at": now, "noticed_at": now,
        "digest": image_id(7),
    }  # fmt: skip
    return TagNews.objects.create(box=on, **usual | values)


def registry_login(registry: str = "ghcr.io", **values: Any) -> RegistryCredential:
    made = RegistryCredential(registry=registry, **{"username": "ada", **values})
    made.keep("ghp_0123456789abcdef0123")
    made.save()
    return made
