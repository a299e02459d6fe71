"""Image names, and the rate and size of pulls. Pure."""

import re
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from servers.host.images.pulls import Layer, PullState

# What uname says, and what registries say.
ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
# On the disk an image is unpacked: engines' come to a good twice what travels.
UNPACKED = 2.0

_ENGINES = (
    ("sglang", re.compile(r"sglang", re.IGNORECASE)),
    ("vllm", re.compile(r"vllm", re.IGNORECASE)),
    ("llamacpp", re.compile(r"llama[-_.]?cpp|llama-server", re.IGNORECASE)),
)
_VERSIONS = ("org.opencontainers.image.version", "version")
_DIGITS = 64
_ID = re.compile(r"(sha256:)?[0-9a-f]{12,64}")
# Labels of a base image that its children inherit: they count Ubuntu's releases.
_UBUNTU = re.compile(r"(1\d|2\d)\.(04|10)$")


def engine_of(names: Iterable[str]) -> str:
    """The engine (a key of ENGINES) that an image's names speak of; "" for none."""
    said = " ".join(names)
    return next((key for key, pattern in _ENGINES if pattern.search(said)), "")


def version_of(labels: Mapping[str, str]) -> str:
    """The version that an image's labels say; "" for none, and for that of its base."""
    for name in _VERSIONS:
        said = labels.get(name, "").strip()
        if said and not _UBUNTU.match(said):
            return said[:60]
    return ""


def is_for(platforms: Iterable[str], architecture: str) -> bool:
    """Whether one of them (linux/amd64) is the box's; True where nobody tells."""
    told = list(platforms)
    return not told or any(each == f"linux/{architecture}" for each in told)


class Rate:
    """Bytes a second over the last seconds."""

    WINDOW = 10.0  # seconds

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def see(self, t: float, done: int) -> float | None:
        """Take in how much has come at a moment in seconds; None while nothing can be told."""
        self._seen.append((t, done))
        while len(self._seen) > 2 and t - self._seen[0][0] > self.WINDOW:
            self._seen.popleft()
        (first, before), (last, now) = self._seen[0], self._seen[-1]
        return max(0.0, (now - before) / (last - first)) if last - first >= 1.0 else None


def whole(progress: PullState, sizes: Mapping[str, int]) -> tuple[int, int]:
    """Bytes that are there and bytes in all, by the sizes that the registry told by digest.

    Docker itself tells a layer's size only when it has begun it, and never of one that is there.
    """
    known = {each.id: each for each in progress.layers}
    done = 0
    for digest, size in sizes.items():
        layer = known.get(short(digest))
        if layer is not None:
            done += size if layer.state in ("there", "done") else min(layer.done, size)
    return done, sum(sizes.values())


def format_layers(layers: Iterable[Layer], sizes: Mapping[str, int]) -> list[dict[str, Any]]:
    """The layers as a page tells them, with sizes where the registry or Docker has told."""
    by_id = {short(digest): size for digest, size in sizes.items()}
    return [
        {
            "id": each.id,
            "state": each.state,
            "done": each.done,
            "total": by_id.get(each.id, each.total),
            "unpacked": each.unpacked,
        }
        for each in layers
        # Docker names the tag itself like a layer.
        if not by_id or each.id in by_id
    ]


def short(digest: str) -> str:
    """How Docker calls a layer in what it tells of a pull."""
    return digest.removeprefix("sha256:")[:12]


def find_image_name(text: str, names: Mapping[str, str]) -> str:
    """What people call the image that a container was started from.

    Docker knows by its id alone an image that had no name then, or was started by its id. `names`
    are of the box's images by id; an id that none of them has is shortened.
    """
    if not _ID.fullmatch(text):
        return text
    digits = text.removeprefix("sha256:")
    found = [name for key, name in names.items() if key.removeprefix("sha256:").startswith(digits)]
    if len(found) == 1:
        return found[0]
    # Twelve letters from a to f may be a name.
    return short(text) if text.startswith("sha256:") or len(text) == _DIGITS else text
