"""Host resources of a box that starts need."""

from typing import Any

from servers.models.box_observation import BoxObservation, BoxObservationManager, ObservationKind
from servers.models.json_values import JsonValue


class HostResources(BoxObservation):
    KIND = ObservationKind.HOST

    # {"architecture", "runtimes", "toolkit", "disks": {"images", "cache", "shm": {"path",
    # "free", "total", "device"}}, "listening": ports, "addresses": of IPv4}; a key is missing where nobody could tell.
    found = JsonValue[dict[str, Any]]("data", {})
    # Reference -> {"id", "architecture", "size", "require"}; None for one that is not there.
    images = JsonValue[dict[str, Any]]("data", {})

    objects = BoxObservationManager()  # type: ignore[misc]

    class Meta:
        proxy = True
