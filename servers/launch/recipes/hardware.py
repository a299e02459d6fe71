"""The hardware of a recipe, "4x RTX PRO 6000" or "1x sm_103", against a box's GPUs."""

from collections.abc import Sequence
from dataclasses import dataclass

from servers.launch.engines.gpu_requirements import Gpu, GpuRequirement, describe, parse
from servers.launch.recipes.document import Document

__all__ = ["HardwareFit", "Gpu", "GpuRequirement", "fits", "parse"]


@dataclass(frozen=True, kw_only=True)
class HardwareFit:
    is_fit: bool
    sentence: str


def fits(document: Document, gpus: Sequence[Gpu]) -> HardwareFit:
    """Whether a box with these GPUs has what the document was made for, and why not."""
    if document.boxes > 1:
        count = {2: "two", 3: "three", 4: "four"}.get(document.boxes, str(document.boxes))
        return HardwareFit(is_fit=False, sentence=f"needs {count} boxes: not startable yet")
    if document.launch.gpus == "none":
        return HardwareFit(is_fit=True, sentence="needs no GPU")
    wanted = parse(document.launch.hardware) or parse(document.launch.gpus)
    if wanted is None:
        said = document.launch.hardware
        needs = f"made for “{said}”" if said else "does not say which GPUs it needs"
        return HardwareFit(is_fit=bool(gpus), sentence=f"{needs}; this box has {describe(gpus)}")
    there = sum(wanted.fits(gpu) for gpu in gpus)
    if there >= wanted.count:
        return HardwareFit(is_fit=True, sentence="fits this box")
    has = str(there) if there else describe(gpus)
    return HardwareFit(is_fit=False, sentence=f"needs {wanted}; this box has {has}")
