"""The file listing of a repository at a revision: which files are wanted, and the room for them."""

import fnmatch
import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

import httpx

from servers.host.files.box_files import DiskRoom
from servers.host.http.bounded import BoundedResponse, BoundsError, Outside
from servers.host.weights import stored
from servers.host.weights.fetch.places import (
    COMMIT,
    REPOSITORY,
    REVISION,
    FetchError,
    HubRefusalError,
    RepositoryFile,
)
from servers.host.weights.hub import knows_no_token
from servers.host.weights.stored import PART

SILENCE = 20.0  # seconds in which nothing comes
WITHIN = 120.0  # seconds for an answer
_LONGEST = 64 << 20  # bytes of a list
_MOST = 20_000  # files
HOPS = 5


@dataclass(frozen=True, kw_only=True)
class RepositoryListing:
    repository: str  # as the Hub writes it: it knows no upper and lower case
    commit: str
    files: tuple[RepositoryFile, ...]
    is_gated: bool = False  # only who has accepted its licence gets the files


def outside(token: str, *, silence: float = SILENCE, within: float = WITHIN) -> Outside:
    return Outside(within=within, silence=silence, headers=headers(token))


def headers(token: str) -> dict[str, str]:
    """What the Hub is told with each question."""
    known = {"Authorization": f"Bearer {token}"} if token else {}
    return known | {"User-Agent": "inferdash", "Accept-Encoding": "identity"}


def address(endpoint: str, repository: str, commit: str, name: str) -> str:
    return f"{endpoint}/{quote(repository)}/resolve/{quote(commit, safe='')}/{quote(name)}"


def ask(hub: Outside, endpoint: str, repository: str, revision: str) -> RepositoryListing:
    """Raises FetchError: no such model, no such revision, or no Hub that answers.

    Source: the Hub's API (/api/models/{id}/revision/{revision}?blobs=true), with what it says in
    X-Error-Code where it refuses.
    """
    if not REPOSITORY.fullmatch(repository):
        raise FetchError(
            f"“{repository}” is not the id of a model.",
            "Write it as the Hub does: Qwen/Qwen3-8B, or paste its page's address.",
        )
    if not REVISION.fullmatch(revision) or ".." in revision:
        raise FetchError(f"“{revision}” is not the name of a revision.", "Write main or a commit.")
    path = f"/api/models/{quote(repository)}/revision/{quote(revision, safe='')}?blobs=true"
    try:
        got = hub.ask("GET", endpoint + path, most=_LONGEST, hops=HOPS)
    except BoundsError as error:
        raise FetchError(f"{endpoint} {error}.") from error
    except httpx.HTTPError as error:
        raise unreachable(endpoint, error) from error
    if got.status != httpx.codes.OK:
        raise refusal(got, endpoint, repository, revision, has_token=_has_token(hub))
    return _read(got.body, endpoint, repository)


def check_access(hub: Outside, endpoint: str, listing: RepositoryListing, name: str) -> None:
    """Whether the files themselves may be had. Raises FetchError as ask() does."""
    url = address(endpoint, listing.repository, listing.commit, name)
    try:
        got = hub.ask("HEAD", url, most=0)
    except BoundsError as error:
        raise FetchError(f"{endpoint} {error}.") from error
    except httpx.HTTPError as error:
        raise unreachable(endpoint, error) from error
    if got.status >= 400:
        raise refusal(got, endpoint, listing.repository, listing.commit, has_token=_has_token(hub))


def unreachable(endpoint: str, error: Exception) -> FetchError:
    why = str(error).rstrip(".") or type(error).__name__
    return FetchError(
        f"{endpoint} does not answer: {why}.",
        "Is this box on the internet? A proxy is named by HTTPS_PROXY, a mirror by INFERDASH_HUB.",
    )


def refusal(
    answer: HubRefusalError | BoundedResponse,
    endpoint: str,
    repository: str,
    revision: str,
    *,
    has_token: bool,
) -> FetchError:
    """What an answer of 400 or more means, by its X-Error-Code where there is one."""
    code = answer.headers.get("X-Error-Code", "")
    page = f"{endpoint}/{repository}"
    if code == "RevisionNotFound" or (code == "EntryNotFound"):
        return FetchError(
            f"{repository} has no revision {revision}.",
            f"Its branches and tags stand at {page}/tree/main.",
        )
    if code == "GatedRepo" or answer.status == httpx.codes.FORBIDDEN:
        return _describe_gate(repository, page, endpoint, has_token=has_token)
    if has_token and knows_no_token(answer.status, answer.headers):
        return FetchError(
            "The Hub does not accept this box's HF_TOKEN: it has expired, was revoked, or is "
            "mistyped.",
            f"Make a token at {endpoint}/settings/tokens, and let an admin put it in place of the "
            "old one under Settings.",
        )
    if answer.status in (httpx.codes.UNAUTHORIZED, httpx.codes.NOT_FOUND):
        who = "the account of this box's token" if has_token else "requests without a token"
        then = (
            "check that the token's account may see it"
            if has_token
            else "let an admin save a token that may see it under Settings, and choose it there "
            "for this box"
        )
        return FetchError(
            f"The Hub shows no model {repository} to {who}: it is not there, or it is private.",
            f"Check the name at {endpoint}; if it is private, {then}.",
        )
    if answer.status == httpx.codes.TOO_MANY_REQUESTS:
        return FetchError(
            f"{endpoint} was requested too often from here.",
            "Wait a few minutes; with an HF_TOKEN under Settings it allows more.",
        )
    return FetchError(
        f"{endpoint} answers {answer.status} for {repository}.", "Try again in a while."
    )


def _describe_gate(repository: str, page: str, endpoint: str, *, has_token: bool) -> FetchError:
    says = f"{repository} is gated: its files are available only after its licence is accepted"
    if has_token:
        return FetchError(
            f"{says}, and the account of this box's HF_TOKEN has not, or waits for an answer.",
            f"Log in with that account, accept the licence at {page}, then try again. A "
            "fine-grained token must also allow to read gated repositories.",
        )
    return FetchError(
        f"{says}, and this box has no HF_TOKEN to show.",
        f"Accept the licence at {page} and make a token at {endpoint}/settings/tokens. An admin "
        "saves it under Settings as HF_TOKEN, and chooses it there as this box's Hugging Face "
        "token.",
    )


def _has_token(hub: Outside) -> bool:
    return "Authorization" in hub.headers


def _read(body: bytes, endpoint: str, repository: str) -> RepositoryListing:
    try:
        said = json.loads(body)
        commit = str(said["sha"])
        files = tuple(_file(each) for each in said["siblings"][:_MOST])
        named = str(said.get("id") or repository)
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        raise FetchError(
            f"{endpoint} answers without a list of files.",
            "Is it a Hub? A network that wants a login first answers so, too.",
        ) from error
    if not COMMIT.fullmatch(commit):
        raise FetchError(f"{endpoint} names no commit of {repository}.")
    if named.casefold() != repository.casefold() and not REPOSITORY.fullmatch(named):
        named = repository
    return RepositoryListing(
        repository=named, commit=commit, files=files, is_gated=bool(said.get("gated"))
    )


def _file(said: Mapping[str, Any]) -> RepositoryFile:
    large = said.get("lfs") or {}
    return RepositoryFile.check(
        {
            "name": said["rfilename"],
            "size": large.get("size", said.get("size") or 0),
            "blob": said.get("blobId") or "",
            "sha256": large.get("sha256") or "",
        }
    )


def find_room_fault(of: DiskRoom) -> FetchError | None:
    """None where it may."""
    if of.may_write:
        return None
    if of.is_read_only:
        return FetchError(
            f"{of.path} can only be read by inferdash.",
            f"Where it runs as a service: sudo systemctl edit inferdash-watcher, with [Service] and "
            f"ReadWritePaths={of.path}. In a container: mount that folder writable for its watcher.",
        )
    return FetchError(
        f"inferdash may not write into {of.path}.",
        f"Its owner can allow it: setfacl -m u:{os.geteuid()}:rwx {of.path}",
    )


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


def group_files(files: Iterable[RepositoryFile]) -> list[FileGroup]:
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
    found = group_files(files)
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
    found = set(stored.find_model((each.name for each in files), wanted))
    beside = {
        each.name
        for group in group_files(files)
        if group.kind in ("projector", "about")
        for each in group.files
    }
    return found | beside if found else set()
