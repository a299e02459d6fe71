"""One checkpoint as it lies on a disk: its files, whether they are whole, and which GGUF is the model."""

import hashlib
import os
import re
import stat
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Literal

from servers.host.files.box_files import BoxFiles, RefusedFileError, because
from servers.host.weights import gguf

type Format = Literal["safetensors", "gguf", "bin", "pt", ""]
type State = Literal["complete", "partial", "without weights"]

_MOST_PARTS = 2000
MOST_BELOW = 20_000  # files in one model's folders
# What a git clone without Git LFS leaves in place of a large file. Rule: git-lfs's spec.md.
_POINTER = b"version https://git-lfs.github.com/spec/"
_LONGEST_POINTER = 1024  # bytes
LONGEST_TEXT = 64 << 10  # bytes that are kept of a README
MOST_TEXTS = 6
FORMATS: dict[str, Format] = {
    ".safetensors": "safetensors", ".gguf": "gguf", ".bin": "bin", ".pt": "pt", ".pth": "pt",
}  # fmt: skip
# Files of these formats that are no weights of a model to serve.
_NO_WEIGHTS = re.compile(r"(training_args|optimizer|scheduler|rng_state|tokenizer|mmproj)", re.I)
PART = re.compile(r"(?P<name>.+)-(?P<number>[0-9]{5})-of-(?P<count>[0-9]{5})\.(?P<end>\w+)")
_TEXTS = re.compile(r"(readme|deploy\w*|usage|model_card)[^/]*\.(md|txt|rst)", re.I)
_SCRIPTS = re.compile(r"[^/]*\.(sh|bash)|(docker-)?compose[^/]*\.ya?ml", re.I)
_LICENCE = re.compile(r"(licen[cs]e|copying|notice)([-_.][^/]*)?", re.I)


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """One checkpoint as it lies on the box. Sizes are bytes."""

    path: str  # of the box: its folder; of a GGUF model the (first) file
    name: str  # the Hub's id where the folder tells, else the last parts of the path
    is_hub: bool  # it lies in a Hugging Face cache
    revision: str = ""  # a commit of the Hub
    refs: tuple[str, ...] = ()  # branches and tags that stand for it here
    format: Format
    weights: int
    size: int  # with everything else in the folder
    files: int  # of weights
    state: State
    because: str = ""  # what is missing; "" when nothing is
    missing: int | None = None  # bytes; None: nobody can tell how many
    fingerprint: str  # equal for equal weights by their names and sizes; "" without any
    config: dict[str, Any] | None = None
    is_adapter: bool = False
    changed: float  # when its newest file of weights was written, in unix seconds
    texts: dict[str, str] = field(default_factory=dict)  # by name: what people may read about it
    unread: dict[str, str] = field(default_factory=dict)  # by name: why it is not among them
    licence: str = ""  # the name of a file


@dataclass(frozen=True, kw_only=True)
class StoredFile:
    """`because` says why it is not read; its size and time are nothing then."""

    name: str
    size: int
    changed: float
    path: PurePosixPath  # of the box
    because: str = ""


def file_at(
    path: PurePosixPath, folder: PurePosixPath, seen: os.stat_result, files: BoxFiles
) -> StoredFile | None:
    """What `seen`, as lstat says, is to a checkpoint; None for a folder, and for a link that leads
    to one, to nothing, or to where nobody may look."""
    because = ""
    if stat.S_ISDIR(seen.st_mode):
        return None
    if not stat.S_ISREG(seen.st_mode):
        try:
            seen = files.file(path)
        except RefusedFileError as error:
            because = error.because
        except OSError:
            return None
    name = str(path.relative_to(folder))
    size, changed = (0, 0.0) if because else (seen.st_size, seen.st_mtime)
    return StoredFile(name=name, size=size, changed=changed, path=path, because=because)


def files_in(
    folder: PurePosixPath, found: Iterable[tuple[str, os.stat_result]], files: BoxFiles
) -> list[StoredFile]:
    """Of what was found there, all that is a file."""
    made = (file_at(folder / name, folder, seen, files) for name, seen in found)
    return [each for each in made if each is not None]


def is_weights(file: StoredFile) -> bool:
    return file.path.suffix in FORMATS and not _NO_WEIGHTS.search(file.path.name)


def of_one_format(models: list[StoredFile], wanted: set[str] | None) -> list[StoredFile]:
    """The files that an engine loads: those of the index, else of the best format that is there."""
    if wanted is not None:
        return [each for each in models if each.name in wanted]
    top = [each for each in models if "/" not in each.name]
    for suffix in FORMATS:
        if suffix != ".gguf" and (chosen := [each for each in top if each.path.suffix == suffix]):
            return chosen
    return []


def list_parts(models: list[StoredFile]) -> set[str]:
    """All parts that these names tell of: model-00001-of-00003.safetensors is one of three."""
    found: set[str] = set()
    for each in models:
        split = PART.fullmatch(each.path.name)
        count = int(split["count"]) if split else 0
        if split is None or count > _MOST_PARTS:
            continue
        folder = each.name.removesuffix(each.path.name)
        found |= {
            f"{folder}{split['name']}-{number:05}-of-{split['count']}.{split['end']}"
            for number in range(1, count + 1)
        }
    return found


def ggufs(files: list[StoredFile]) -> list[list[StoredFile]]:
    """Models of one file or of several parts, each with its parts in order."""
    groups: dict[str, list[StoredFile]] = defaultdict(list)
    for each in sorted(files, key=lambda file: file.name):
        split = PART.fullmatch(each.path.name)
        key = f"{each.path.parent}/{split['name']}/{split['count']}" if split else each.name
        groups[key].append(each)
    return list(groups.values())


def fault(file: StoredFile, files: BoxFiles) -> str:
    if file.because:
        return f"{file.name} is {file.because}"
    try:
        with files.open_file(file.path) as opened:
            if file.size < _LONGEST_POINTER and opened.read(len(_POINTER)) == _POINTER:
                return f"{file.name} is git’s pointer to it: git lfs pull gets the file itself"
            opened.seek(0)
            expected = gguf.read_expected_size(opened, file.path.suffix)
    except RefusedFileError as error:
        return f"{file.name} is {error.because}"
    except PermissionError:
        return f"{file.name} may not be read by inferdash"
    except OSError as error:
        return f"{file.name} cannot be read: {error.strerror or error}"
    if expected is None or file.size >= expected > 0:
        return ""
    if expected == 0:
        return f"{file.name} is cut off: not even its header is whole"
    gib = 2**30
    return f"{file.name} is cut off: {file.size / gib:.1f} of {expected / gib:.1f} GiB"


def in_part(count: int) -> str:
    return f"a download has not ended: {count} file{'' if count == 1 else 's'} in part"


def fingerprint(models: list[StoredFile]) -> str:
    if not models:
        return ""
    told = sorted(f"{each.path.name} {each.size}" for each in models)
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:32]


def texts(found: list[StoredFile], files: BoxFiles) -> tuple[dict[str, str], dict[str, str]]:
    """READMEs, then scripts: what may hold a command that starts it; and why some are not read."""
    named = [each for each in found if "/" not in each.name]
    chosen = [each for each in named if _TEXTS.fullmatch(each.name)]
    chosen += [each for each in named if _SCRIPTS.fullmatch(each.name)]
    told: dict[str, str] = {}
    unread: dict[str, str] = {}
    for each in chosen[:MOST_TEXTS]:
        name = _printable(each.name)
        try:
            said = files.read(each.path, LONGEST_TEXT, is_text=True).decode(errors="replace")
        except FileNotFoundError:
            continue  # gone meanwhile
        except OSError as error:
            unread[name] = because(error)
        else:
            if (text := said.replace("\0", "")).strip():
                told[name] = text
    if len(chosen) > MOST_TEXTS:
        unread["…"] = f"{len(chosen) - MOST_TEXTS} more such files; not read"
    return told, unread


def _printable(name: str) -> str:
    """A file may be called by a line feed, too."""
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name
    )


def licence(files: list[StoredFile]) -> str:
    return next((each.name for each in files if _LICENCE.fullmatch(each.name)), "")


def name_of(folder: PurePosixPath) -> str:
    """As the Hub would call it: the last two folders. ModelScope writes "___" for a dot."""
    parts = [part.replace("___", ".") for part in folder.parts[-2:]]
    above = parts[0].casefold() if len(parts) == 2 else ""
    return parts[-1] if above in ("", "/", "models", "hub", "mnt", "data") else "/".join(parts)


def find_unfinished(folder: PurePosixPath, files: BoxFiles) -> list[StoredFile]:
    """What `hf download --local-dir` and ModelScope keep of files that are not whole yet."""
    aside = list_files(folder / ".cache/huggingface/download", files)
    temporary = list_files(folder / "._____temp", files)
    return [each for each in aside if each.name.endswith(".incomplete")] + temporary


def list_files(folder: PurePosixPath, files: BoxFiles) -> list[StoredFile]:
    """All files in a folder and those in it; none where it is not there."""
    found: list[StoredFile] = []
    try:
        for path, seen in files.iterate_files(folder, MOST_BELOW):
            if (made := file_at(path, folder, seen, files)) is not None:
                found.append(made)
    except OSError:
        return found  # as far as one may look
    return found


# What it takes by itself, the first that is there; then the first file of a model at all.
_USUAL = ("Q4_K_M", "Q8_0")
# Files beside the model: its eyes, what its quantization was measured with, its draft models.
_BESIDE = re.compile(r"mmproj|imatrix|mtp-|eagle3-|dflash-|dspark-")


def find_model(names: Iterable[str], wanted: str = "") -> list[str]:
    """The parts of the model in their order; none where the repository has no such model.

    `wanted` is what stands behind the colon of `-hf org/name:Q4_K_M`, or the path of a file as
    `--hf-file` names it; "" leaves it to llama.cpp. A part that the repository lacks is not made
    up. Source: llama.cpp, common/download.cpp (find_best_model, get_split_files), 2026-10.
    """
    models = [each for each in sorted(names) if is_model(each)]
    first = _first(models, wanted)
    return find_parts(first, models) if first else []


def find_parts(first: str, names: Iterable[str]) -> list[str]:
    """Those of the names that are parts of the same model, in order; a whole one is its only part."""
    series = _series(first)
    return sorted(each for each in names if _series(each) == series) if series else [first]


def _series(name: str) -> tuple[str, ...] | None:
    """What all parts of a model have in common; None for what is no part."""
    split = PART.fullmatch(name)
    return split.group("name", "count", "end") if split else None


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
