"""The choice of files in a repository, most of which hold the same model several times."""

import fnmatch
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from servers.host.weights import gguf_choice
from servers.host.weights.fetch.job import FetchError, RepositoryFile
from servers.host.weights.stored import PART

type Kind = Literal["weights", "gguf", "projector", "about", "other"]

_WEIGHTS = {
    ".safetensors": "safetensors", ".bin": "PyTorch .bin", ".pt": "PyTorch .pt",
    ".pth": "PyTorch .pth", ".h5": "TensorFlow", ".msgpack": "Flax", ".onnx": "ONNX",
    ".onnx_data": "ONNX", ".ot": "Rust", ".mlmodel": "Core ML", ".tflite": "TFLite",
}  # fmt: skip
# What engines load, the first that is there.
_LOADED = ("safetensors", "PyTorch .bin", "PyTorch .pt", "PyTorch .pth")
_PROJECTOR = re.compile(r"mmproj", re.I)
_DOWN = re.compile(r"(training_args|optimizer|scheduler|rng_state)", re.I)


@dataclass(frozen=True, kw_only=True)
class FileGroup:
    """Files that make sense together only, such as the parts of one quantization."""

    kind: Kind
    name: str
    files: tuple[RepositoryFile, ...]
    is_usual: bool  # taken where nobody chooses

    @property
    def size(self) -> int:
        return sum(each.size for each in self.files)

    @property
    def weights(self) -> int:
        """Bytes that an engine has to hold."""
        return self.size if self.kind in ("weights", "gguf") else 0

    @property
    def patterns(self) -> tuple[str, ...]:
        """That match these files and no others."""
        return tuple(escape_glob(each.name) for each in self.files)


def escape_glob(name: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", name)


def groups(files: Iterable[RepositoryFile]) -> list[FileGroup]:
    """In the order in which people look for them: weights, then everything else."""
    weights: dict[str, list[RepositoryFile]] = defaultdict(list)
    ggufs: dict[str, list[RepositoryFile]] = defaultdict(list)
    about: list[RepositoryFile] = []
    other: dict[str, list[RepositoryFile]] = defaultdict(list)
    for each in files:
        folder, _slash, base = each.name.rpartition("/")
        kind = _WEIGHTS.get("." + base.rpartition(".")[2], "")
        if base.endswith(".gguf"):
            ggufs[_model_of(each.name)].append(each)
        elif kind and (folder or base.startswith("consolidated") or _DOWN.search(base)):
            where = f"{folder}/" if folder else "consolidated" if "consolid" in base else base
            other[f"{kind} in {where}" if folder else f"{kind}, {where}"].append(each)
        elif kind:
            weights[kind].append(each)
        elif folder and each.sha256:
            other[f"{folder}/"].append(each)
        else:
            about.append(each)
    return _order_groups(weights, ggufs, about, other)


def _order_groups(
    weights: dict[str, list[RepositoryFile]],
    ggufs: dict[str, list[RepositoryFile]],
    about: list[RepositoryFile],
    other: dict[str, list[RepositoryFile]],
) -> list[FileGroup]:
    loaded = next((kind for kind in _LOADED if kind in weights), "")
    if not loaded and not ggufs:
        # Mistral publishes some models in this form alone.
        loaded = next((name for name in other if "consolidated" in name), "")
    found = [_group("weights", name, weights[name], name == loaded) for name in weights]
    by_size = sorted(ggufs, key=lambda name: sum(each.size for each in ggufs[name]))
    models = [name for name in by_size if not _PROJECTOR.search(name)]
    is_one = not weights and len(models) == 1
    found += [_group("gguf", name, ggufs[name], is_one) for name in models]
    # The eyes of a model, which serve with every quantization of it.
    projectors = [name for name in by_size if name not in models]
    found += [_group("projector", name, ggufs[name], not weights) for name in projectors]
    if about:
        found.append(_group("about", "Configuration, tokenizer and texts", about, True))
    found += [
        _group("weights" if name == loaded else "other", name, other[name], name == loaded)
        for name in other
    ]
    order: list[Kind] = ["weights", "gguf", "projector", "about", "other"]
    return sorted(found, key=lambda group: order.index(group.kind))


def _group(kind: Kind, name: str, files: Sequence[RepositoryFile], is_usual: bool) -> FileGroup:
    ordered = sorted(files, key=lambda each: each.name)
    return FileGroup(kind=kind, name=name, files=tuple(ordered), is_usual=is_usual)


def _model_of(name: str) -> str:
    """ "Q4_K_M/model-00001-of-00003.gguf" is a part of "Q4_K_M/model"."""
    folder, slash, base = name.rpartition("/")
    split = PART.fullmatch(base)
    return folder + slash + (split["name"] if split else base.removesuffix(".gguf"))


def choose_files(
    files: Sequence[RepositoryFile], patterns: Sequence[str]
) -> tuple[RepositoryFile, ...]:
    """Those that any of the patterns matches; without patterns the usual ones.

    A pattern that begins with ":" names a quantization as llama.cpp does, ":Q4_K_M", or a file of
    one with all of its parts; ":" alone is what llama.cpp takes by itself. Raises FetchError when
    nothing is left, or somebody has to choose.
    """
    if not patterns:
        return _usual(files)
    named = [each[1:] for each in patterns if each.startswith(":")]
    plain = [each for each in patterns if not each.startswith(":")]
    found = {each.name for each in files if any(fnmatch.fnmatchcase(each.name, p) for p in plain)}
    for quantization in named:
        found |= _of_quantization(files, quantization)
    if not found:
        raise FetchError(
            f"No file of the repository is called {', '.join(patterns[:3])}.",
            "Choose among those that it has.",
        )
    return tuple(each for each in files if each.name in found)


def _usual(files: Sequence[RepositoryFile]) -> tuple[RepositoryFile, ...]:
    found = groups(files)
    taken = {each.name for group in found if group.is_usual for each in group.files}
    models = [group for group in found if group.kind == "gguf"]
    if models and not any(group.is_usual and group.weights for group in found):
        names = ", ".join(group.name.rpartition("/")[2] for group in models[:4])
        raise FetchError(
            f"The repository holds {len(models)} quantizations of one model: {names} …",
            "Choose one of them.",
        )
    if not taken:
        raise FetchError("The repository has no files.")
    return tuple(each for each in files if each.name in taken)


def _of_quantization(files: Sequence[RepositoryFile], wanted: str) -> set[str]:
    found = set(gguf_choice.model((each.name for each in files), wanted))
    beside = {
        each.name
        for group in groups(files)
        if group.kind in ("projector", "about")
        for each in group.files
    }
    return found | beside if found else set()
