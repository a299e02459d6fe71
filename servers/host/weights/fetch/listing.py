"""The file listing of a repository at a revision, and whether it is gated."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx

from servers.host.http.bounded import BoundedResponse, BoundsError, Outside
from servers.host.weights.fetch.job import (
    COMMIT,
    REPOSITORY,
    REVISION,
    FetchError,
    RepositoryFile,
)
from servers.host.weights.fetch.reading import HubRefusalError
from servers.host.weights.hub import knows_no_token

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
            "The Hub does not accept this box's HF_TOKEN: it has ended, was revoked, or is "
            "mistyped.",
            f"Make a token at {endpoint}/settings/tokens, and let an admin put it in place of the "
            "old one under Settings.",
        )
    if answer.status in (httpx.codes.UNAUTHORIZED, httpx.codes.NOT_FOUND):
        who = "the account of this box's token" if has_token else "anybody without a token"
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
            f"{endpoint} has been asked too often from here.",
            "Wait a few minutes; with an HF_TOKEN under Settings it allows more.",
        )
    return FetchError(
        f"{endpoint} answers {answer.status} for {repository}.", "Try again in a while."
    )


def _describe_gate(repository: str, page: str, endpoint: str, *, has_token: bool) -> FetchError:
    says = f"{repository} is gated: its files go only to who has accepted its licence"
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
