"""A checkpoint on the Hugging Face Hub: its size and config.json."""

import json
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import quote

import httpx

from servers.host.http.bounded import BoundsError, Outside
from servers.host.weights import stored
from servers.host.weights.checkpoints import INDEX

SILENCE = 5.0  # seconds in which nothing comes
WITHIN = 60.0  # seconds for an answer
HOPS = 3
LONGEST = 64 << 20  # bytes of an answer: indexes of the largest models are 10 MiB
_INVALID = "Invalid credentials in Authorization header"
_LOADED = (".safetensors", ".bin", ".pt")

# "refused": it is there, and its files are shown only to who has accepted its licence.
# "gone": nobody is shown anything by that name, or this token is not.
# "expired": the token is none of the Hub's, or no more; open models, too, are not shown to it.
type Access = Literal["open", "refused", "gone", "expired"]


class _TokenError(Exception):
    """The Hub knows no such token."""


def knows_no_token(status: int, headers: httpx.Headers) -> bool:
    """Source: huggingface_hub's hf_raise_for_status, which tells by it what else a 401 means."""
    said = headers.get("X-Error-Message", "")
    return status == httpx.codes.UNAUTHORIZED and said == _INVALID


class HubError(Exception):
    """The Hub gave no answer that can be used; the text says why."""


@dataclass(frozen=True, kw_only=True)
class RemoteModel:
    """None: the Hub does not tell."""

    access: Access
    config: dict[str, Any] | None = None
    weights: int | None = None  # bytes of the files that an engine downloads and loads


def look(
    endpoint: str,
    checkpoint: str,
    revision: str = "main",
    token: str = "",
    *,
    gguf: str | None = None,
) -> RemoteModel:
    """Ask for a model by its id. `endpoint` is the Hub's address, without a slash at its end.

    `gguf` is what llama.cpp loads of it, as llamafiles.model() has it; None: what others load.
    Raises HubError when it cannot be reached or its answer is none. Source: the Hub's API
    (/api/models/{id}/revision/{revision}?blobs=true, /{id}/resolve/{revision}/{file}), as
    huggingface_hub uses it: 401 and 404 for what is not shown, 403 for a licence.
    """
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    # Small files are redirected to a cache of the Hub's own; a token does not go to other hosts.
    try:
        with Outside(within=WITHIN, silence=SILENCE, headers=headers) as outside:
            return _look(_Hub(outside, endpoint, checkpoint, revision, bool(token)), gguf)
    except _TokenError:
        # Without it, open models are still known.
        return replace(look(endpoint, checkpoint, revision, gguf=gguf), access="expired")
    except BoundsError as error:
        raise HubError(f"{endpoint} {error}.") from error
    except httpx.HTTPError as error:
        raise HubError(f"{endpoint} does not answer: {error}.") from error


def _look(hub: "_Hub", gguf: str | None) -> RemoteModel:
    status, said = hub.ask(f"/api/models/{hub.name}/revision/{hub.revision}?blobs=true")
    if status in (401, 404):
        return RemoteModel(access="gone")
    if status == 403:
        return RemoteModel(access="refused")
    files = _files(hub, status, said)
    if gguf is not None:
        parts = stored.find_model(files, gguf)
        if not parts:
            return RemoteModel(access="gone")
        return RemoteModel(access="open", weights=sum(files[name] for name in parts) or None)
    status, config = hub.ask(hub.file("config.json")) if "config.json" in files else (404, None)
    if status in (401, 403):
        return RemoteModel(access="refused", weights=_of_one_format(files))
    index = hub.ask(hub.file(INDEX))[1] if INDEX in files else None
    return RemoteModel(
        access="open",
        config=config if isinstance(config, dict) else None,
        weights=_sum_index(files, index) or _of_one_format(files),
    )


@dataclass(frozen=True)
class _Hub:
    outside: Outside
    endpoint: str
    checkpoint: str
    wanted: str
    has_token: bool

    @property
    def name(self) -> str:
        return quote(self.checkpoint)

    @property
    def revision(self) -> str:
        return quote(self.wanted, safe="")

    def file(self, name: str) -> str:
        return f"/{self.name}/resolve/{self.revision}/{name}"

    def ask(self, path: str) -> tuple[int, Any]:
        """Status, and the JSON of a 200; None for other answers and for what is no JSON."""
        got = self.outside.ask("GET", self.endpoint + path, most=LONGEST, hops=HOPS)
        if self.has_token and knows_no_token(got.status, got.headers):
            raise _TokenError
        if got.status != httpx.codes.OK:
            return got.status, None
        try:
            return got.status, json.loads(got.body)
        except (ValueError, RecursionError):
            return got.status, None


def _files(hub: _Hub, status: int, said: Any) -> dict[str, int]:
    """Sizes by name."""
    listed = said.get("siblings") if isinstance(said, dict) else None
    if not isinstance(listed, list):
        raise HubError(f"{hub.endpoint} answers {status} without a list of files.")
    found = {}
    for each in listed:
        if isinstance(each, dict) and isinstance(each.get("rfilename"), str):
            size = each.get("size")
            found[each["rfilename"]] = size if isinstance(size, int) and size > 0 else 0
    return found


def _sum_index(files: dict[str, int], index: Any) -> int | None:
    named = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(named, dict):
        return None
    wanted = {each for each in named.values() if isinstance(each, str)}
    return sum(files.get(each, 0) for each in wanted) or None


def _of_one_format(files: dict[str, int]) -> int | None:
    """Many repositories hold the same weights in several formats, and once more in one file."""
    for suffix in _LOADED:
        found = {name: size for name, size in files.items() if _is_of(name, suffix)}
        parts = {name: size for name, size in found.items() if not name.startswith("consolidated")}
        if size := sum((parts or found).values()):
            return size
    return None


def _is_of(name: str, suffix: str) -> bool:
    return name.endswith(suffix) and "/" not in name and not name.startswith("training_args")
