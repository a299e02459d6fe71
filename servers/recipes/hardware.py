"""What a recipe was made for, written "4x RTX PRO 6000" or "1x sm_103", against a box's GPUs."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from servers.recipes.document import Document

_TEXT = re.compile(r"\s*([1-9][0-9]{0,3})\s*[x×]\s*(\S.*?)\s*", re.IGNORECASE)
_CAPABILITY = re.compile(r"sm_([0-9]{1,2})([0-9])[a-z]?", re.IGNORECASE)
_WORD = re.compile(r"[a-z0-9]+")

# A GPU's name as NVML says it, and its compute capability such as "12.0"; "" where unknown.
type Gpu = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Hardware:
    count: int
    name: str  # part of NVML's name, or sm_120

    def fits(self, gpu: Gpu) -> bool:
        """Whether this is such a GPU: the name's words follow each other in NVML's."""
        name, capability = gpu
        if wanted := _CAPABILITY.fullmatch(self.name):
            return capability == f"{wanted[1]}.{wanted[2]}"
        words, has = _WORD.findall(self.name.lower()), _WORD.findall(name.lower())
        last = len(has) - len(words)
        return bool(words) and any(has[at:][: len(words)] == words for at in range(last + 1))

    def __str__(self) -> str:
        return f"{self.count}x {self.name}"


@dataclass(frozen=True, kw_only=True)
class Fit:
    is_fit: bool
    sentence: str


def parse(text: str) -> Hardware | None:
    """None for a text that does not follow the grammar, such as an empty one."""
    match = _TEXT.fullmatch(text)
    return Hardware(count=int(match[1]), name=match[2]) if match else None


def fits(document: Document, gpus: Sequence[Gpu]) -> Fit:
    """Whether a box with these GPUs has what the document was made for, and why not."""
    if document.boxes > 1:
        count = {2: "two", 3: "three", 4: "four"}.get(document.boxes, str(document.boxes))
        return Fit(is_fit=False, sentence=f"needs {count} boxes: not startable yet")
    if document.launch.gpus == "none":
        return Fit(is_fit=True, sentence="needs no GPU")
    wanted = parse(document.launch.hardware)
    if wanted is None:
        said = document.launch.hardware
        needs = f"made for “{said}”" if said else "does not say which GPUs it needs"
        return Fit(is_fit=bool(gpus), sentence=f"{needs}; this box has {_listed(gpus)}")
    there = sum(wanted.fits(gpu) for gpu in gpus)
    if there >= wanted.count:
        return Fit(is_fit=True, sentence="fits this box")
    has = str(there) if there else _listed(gpus)
    return Fit(is_fit=False, sentence=f"needs {wanted}; this box has {has}")


def _listed(gpus: Sequence[Gpu]) -> str:
    if not gpus:
        return "no GPU"
    counted = Counter(name.removeprefix("NVIDIA ") or "unnamed GPU" for name, _capability in gpus)
    return ", ".join(f"{count}x {name}" for name, count in counted.items())
