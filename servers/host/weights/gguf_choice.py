"""The files of a GGUF repository that llama.cpp loads."""

import re
from collections.abc import Iterable

from servers.host.weights.stored import PART

# What it takes by itself, the first that is there; then the first file of a model at all.
_USUAL = ("Q4_K_M", "Q8_0")
# Files beside the model: its eyes, what its quantization was measured with, its draft models.
_BESIDE = re.compile(r"mmproj|imatrix|mtp-|eagle3-|dflash-|dspark-")


def model(names: Iterable[str], wanted: str = "") -> list[str]:
    """The parts of the model in their order; none where the repository has no such model.

    `wanted` is what stands behind the colon of `-hf org/name:Q4_K_M`, or the path of a file as
    `--hf-file` names it; "" leaves it to llama.cpp. A part that the repository lacks is not made
    up. Source: llama.cpp, common/download.cpp (find_best_model, get_split_files), 2026-10.
    """
    models = [each for each in sorted(names) if is_model(each)]
    return _with_parts(_first(models, wanted), models)


def is_whole(parts: list[str]) -> bool:
    """Whether it is all parts that the name of the first one counts."""
    split = PART.fullmatch(parts[0].rpartition("/")[2]) if parts else None
    return bool(parts) and (split is None or len(parts) == int(split["count"]))


def is_model(name: str) -> bool:
    return name.endswith(".gguf") and not _BESIDE.search(name.rpartition("/")[2])


def is_file(wanted: str) -> bool:
    """Whether it names a file, and no quantization."""
    return wanted.casefold().endswith(".gguf")


def _first(models: list[str], wanted: str) -> str:
    if is_file(wanted):
        return next((each for each in models if each.casefold() == wanted.casefold()), "")
    for tag in (wanted,) if wanted else _USUAL:
        pattern = re.compile(re.escape(tag) + "[.-]", re.IGNORECASE)
        if found := next((each for each in models if pattern.search(each)), ""):
            return found
    return models[0] if models and not wanted else ""


def _with_parts(first: str, models: list[str]) -> list[str]:
    folder, slash, base = first.rpartition("/")
    split = PART.fullmatch(base)
    if split is None:
        return [first] if first else []
    of_it = re.compile(
        re.escape(folder + slash + split["name"]) + rf"-[0-9]{{5}}-of-{split['count']}\.gguf"
    )
    return [each for each in models if of_it.fullmatch(each)]
