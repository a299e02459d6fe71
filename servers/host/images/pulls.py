"""Progress of a pull, layer by layer, from Docker's messages."""

from dataclasses import dataclass, field
from typing import Any, Literal

type LayerState = Literal["waiting", "downloading", "downloaded", "extracting", "done", "there"]

# Docker's words of a layer, beside "Downloading" and "Extracting", which come with figures.
_STATES: dict[str, LayerState] = {
    "Pulling fs layer": "waiting",
    "Waiting": "waiting",
    "Verifying Checksum": "downloaded",
    "Download complete": "downloaded",
    "Pull complete": "done",
    "Already exists": "there",
}


@dataclass(frozen=True, kw_only=True)
class Layer:
    """`id` is the beginning of the digest by which the registry knows it.

    `total` is None until Docker tells its size; of one that the box had it never does. `unpacked`
    is how much of it has been written to the box's disk, of its size as it travels.
    """

    id: str
    state: LayerState
    done: int = 0  # bytes that have come
    total: int | None = None
    unpacked: int = 0


@dataclass(frozen=True, kw_only=True)
class PullState:
    """A pull so far, in bytes; total is None until Docker knows a layer's size."""

    done: int
    total: int | None
    layers: tuple[Layer, ...] = field(default=(), compare=False)


class PullProgress:
    """Adds up what Docker tells of a pull's layers."""

    def __init__(self) -> None:
        self._layers: dict[str, Layer] = {}

    def hear(self, line: dict[str, Any]) -> PullState:
        """Take in one line of Docker's answer to a pull."""
        status, layer = line.get("status") or "", line.get("id") or ""
        detail = line.get("progressDetail") or {}
        known = self._layers.get(layer)
        if status == "Downloading" and detail.get("total"):
            self._layers[layer] = Layer(
                id=layer, state="downloading", done=detail["current"], total=detail["total"]
            )
        elif status == "Extracting" and known is not None:
            self._keep(known, "extracting", unpacked=int(detail.get("current") or 0))
        elif status in _STATES and layer:
            self._keep(known or Layer(id=layer, state="waiting"), _STATES[status])
        return self.so_far()

    def so_far(self) -> PullState:
        layers = tuple(self._layers.values())
        total = sum(each.total or 0 for each in layers)
        return PullState(done=sum(each.done for each in layers), total=total or None, layers=layers)

    def _keep(self, layer: Layer, state: LayerState, *, unpacked: int = 0) -> None:
        has_come = state in ("downloaded", "extracting", "done") and layer.total is not None
        self._layers[layer.id] = Layer(
            id=layer.id,
            state=state,
            done=(layer.total or 0) if has_come else layer.done,
            total=layer.total,
            unpacked=(layer.total or 0) if state == "done" else unpacked,
        )
