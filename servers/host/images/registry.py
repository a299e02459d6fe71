"""Image sizes from a registry, before a pull.

A registry's refusal names the address, its realm, and whoever names an image chooses the registry:
without a rule that one could have this box ask any program that only the box can reach.
"""

import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from servers.host.docker.client import RegistryAuth
from servers.host.http import bounded
from servers.host.http.bounded import (
    Address,
    BoundedResponse,
    BoundsError,
    Outside,
    UnknownNameError,
)

# What a name without a registry is looked up in.
HUB = "docker.io"
_HUB_NAMES = ("index.docker.io", "registry-1.docker.io", "registry.hub.docker.com")


@dataclass(frozen=True, kw_only=True)
class Reference:
    registry: str  # docker.io, ghcr.io, 127.0.0.1:5000
    repository: str  # library/debian, vllm/vllm-openai
    tag: str  # "" where a digest stands instead
    digest: str = ""  # sha256:…; "" where there is none

    @property
    def name(self) -> str:
        """Registry and repository as Docker shows them: without its own registry's name."""
        if self.registry != HUB:
            return f"{self.registry}/{self.repository}"
        return self.repository.removeprefix("library/")

    def __str__(self) -> str:
        """As Docker shows it, always with tag or digest."""
        return f"{self.name}@{self.digest}" if self.digest else f"{self.name}:{self.tag}"

    def with_digest(self, digest: str) -> str:
        """The same repository by a digest."""
        return f"{self.name}@{digest}"

    @property
    def is_local(self) -> bool:
        """Whether its registry is on the box itself. Docker speaks plain HTTP to such a one."""
        host = self.registry.partition(":")[0]
        return host == "localhost" or host.startswith("127.")


def parse(text: str) -> Reference:
    """The parts of a reference as people write it. Whether it exists is its registry's to say.

    Rule: Docker's own. The first part is a registry when it holds a dot or a colon, or is
    localhost; a name of one part on Docker's own registry is below library/; no tag is latest.
    """
    rest, _at, digest = text.strip().partition("@")
    head, slash, tail = rest.partition("/")
    if slash and ("." in head or ":" in head or head == "localhost"):
        registry, path = head, tail
    else:
        registry, path = HUB, rest
    if registry in _HUB_NAMES:
        registry = HUB
    name, colon, tag = path.rpartition(":")
    repository, tag = (name, tag) if colon else (path, "latest")
    if registry == HUB and "/" not in repository:
        repository = f"library/{repository}"
    return Reference(
        registry=registry, repository=repository, tag="" if digest else tag, digest=digest
    )


def familiar(text: str) -> str:
    """The reference as Docker lists it; an image's id stays as it is."""
    return text if text.startswith("sha256:") else str(parse(text))


class RealmError(Exception):
    """The address is not asked; the text says why and follows the registry's name."""


@dataclass(frozen=True)
class Realms:
    named: Sequence[str] = ()  # by this box's administrator: "https://auth.example.org"

    def where(self, realm: httpx.URL, registry: Reference) -> list[Address] | None:
        """The addresses at which it may be asked; None: a proxy of the environment looks it up.

        Allowed are https to the internet, the registry itself, and on another port or under
        another name https to its machine (GitLab), unless that is this box. Raises RealmError.
        """
        if realm.scheme not in ("http", "https") or not realm.host:
            raise RealmError("names no address for its tokens")
        try:
            found = bounded.resolve_address(realm.raw_host.decode(), bounded.port_of(realm))
        except UnknownNameError as error:
            if bounded.goes_by_proxy(realm) and realm.scheme == "https":
                return None
            raise RealmError(f"sends to {realm.host} for its tokens, a name unknown") from error
        asked = [each for each in found if not bounded.is_of_the_link(each)]
        if not asked or not self._is_allowed(realm, registry, asked):
            raise RealmError(_refusal(realm))
        return None if bounded.goes_by_proxy(realm) else asked

    def _is_allowed(self, realm: httpx.URL, registry: Reference, asked: list[Address]) -> bool:
        if _origin(realm) in [_origin(httpx.URL(each)) for each in self.named]:
            return True
        own = httpx.URL(f"{'http' if registry.is_local else 'https'}://{registry.registry}")
        if _origin(realm) == _origin(own):
            return True
        is_there = set(asked) <= _list_known(own)
        if is_there and _service(realm) == _service(own):
            return True
        if realm.scheme != "https":
            return False
        # What listens on this box itself is not all the registry's.
        is_there = is_there and not any(each.is_loopback for each in asked)
        return is_there or all(map(bounded.is_public, asked))


def _list_known(own: httpx.URL) -> set[Address]:
    try:
        return set(bounded.resolve_address(own.raw_host.decode(), bounded.port_of(own)))
    except UnknownNameError:
        return set()  # only a proxy knows it


def _service(url: httpx.URL) -> tuple[str, int]:
    return url.scheme, bounded.port_of(url)


def _origin(url: httpx.URL) -> tuple[str, str, int]:
    return url.scheme, url.host, bounded.port_of(url)


def _refusal(realm: httpx.URL) -> str:
    if realm.scheme == "http":
        return f"wants credentials without encryption, at {realm.host}"
    origin = f"https://{realm.netloc.decode()}"
    return (
        f"sends to {realm.host} for its tokens, which is neither on the internet nor the registry "
        f'itself. Who administers the box can allow it in box.toml: token_realms = ["{origin}"]'
    )


SILENCE = 10.0  # seconds in which nothing comes
WITHIN = 30.0  # seconds for an answer
LONGEST = 4 << 20  # bytes of an answer: what the registries' own specification allows
LONGEST_TOKEN = 64 << 10
LONGEST_DIGEST = 200  # characters
LARGEST_LAYER = 1 << 50  # bytes
_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_HUB_HOST = "registry-1.docker.io"
_DIGEST = re.compile(r"[a-z0-9]+:[0-9a-f]{32,128}")
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')


class RegistryError(Exception):
    """The registry gave no answer that can be used; the text says why."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """Bytes as they travel; on the disk they are unpacked, usually to twice as much or more."""

    layers: dict[str, int]  # by digest

    @property
    def total(self) -> int:
        return sum(self.layers.values())


def size(
    reference: str,
    architecture: str,
    login: RegistryAuth | None = None,
    *,
    realms: Sequence[str] = (),
) -> Size | None:
    """What an image for Linux on this architecture (amd64, arm64) consists of.

    `realms` are where registries may send for a token beside what servers.host.images.registry allows.
    None where the reference has no image for it. Raises RegistryError. Source: the distribution
    specification of the Open Container Initiative, and the token log-in of Docker's registry.
    """
    wanted = parse(reference)
    if login is not None and login.registry != wanted.registry:
        login = None
    try:
        with Outside(within=WITHIN, silence=SILENCE) as outside:
            return _Registry(outside, wanted, login, Realms(realms)).size(architecture)
    except (BoundsError, RealmError) as error:
        raise RegistryError(f"{wanted.registry} {error}.") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise RegistryError(f"{wanted.registry} does not answer: {error}.") from error


class _Registry:
    def __init__(
        self, outside: Outside, wanted: Reference, login: RegistryAuth | None, realms: Realms
    ) -> None:
        self._outside = outside
        self._realms = realms
        self._wanted = wanted
        self._login = login
        self._headers: dict[str, str] = {}
        host = _HUB_HOST if wanted.registry == HUB else wanted.registry
        # Docker asks registries of the box itself without TLS, too, and no others.
        self._root = f"{'http' if wanted.is_local else 'https'}://{host}/v2/{wanted.repository}"

    def size(self, architecture: str) -> Size | None:
        found = self._manifest(self._wanted.digest or self._wanted.tag)
        listed = found.get("manifests")
        if isinstance(listed, list):
            digest = _find_digest(listed, architecture)
            if digest is None:
                return None
            if not _DIGEST.fullmatch(digest):
                raise RegistryError(f"{self._wanted.registry} names its image by no digest.")
            found = self._manifest(digest)
        layers = found.get("layers")
        if not isinstance(layers, list):
            raise RegistryError(f"{self._wanted.registry} does not say what the image consists of.")
        return Size(
            layers={
                str(each.get("digest"))[:LONGEST_DIGEST]: _count(each.get("size"))
                for each in layers
                if isinstance(each, Mapping)
            }
        )

    def _manifest(self, reference: str) -> dict[str, Any]:
        address = f"{self._root}/manifests/{reference}"
        got, said = self._ask(address)
        if got.status == httpx.codes.UNAUTHORIZED and not self._headers:
            self._headers = self._credentials(got.headers.get("www-authenticate", ""))
            got, said = self._ask(address)
        if got.status != httpx.codes.OK or not isinstance(said, dict):
            raise RegistryError(f"{self._wanted.registry} answers {got.status}.")
        return said

    def _ask(self, address: str) -> tuple[BoundedResponse, Any]:
        headers = {"Accept": ", ".join(_TYPES), **self._headers}
        got = self._outside.ask("GET", address, most=LONGEST, headers=headers)
        return got, _json(got)

    def _credentials(self, challenge: str) -> dict[str, str]:
        """What the registry's own refusal asks for: the log-in itself, or a token for it."""
        kind, _space, rest = challenge.partition(" ")
        basic = {}
        if self._login is not None:
            known = f"{self._login.username}:{self._login.password}"
            basic = {"Authorization": f"Basic {b64encode(known.encode()).decode()}"}
        if kind.casefold() == "basic" and basic:
            return basic
        if kind.casefold() != "bearer":
            raise RegistryError(f"{self._wanted.registry} requires credentials.")
        said = dict(_CHALLENGE.findall(rest))
        scope = f"repository:{self._wanted.repository}:pull"
        query = {"service": said.get("service", ""), "scope": said.get("scope") or scope}
        told = self._token(httpx.URL(said.get("realm", "")), query, basic)
        token = (told.get("token") or told.get("access_token")) if isinstance(told, dict) else None
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise RegistryError(f"{self._wanted.registry} lets nobody in for this image.")
        return {"Authorization": f"Bearer {token}"}

    def _token(self, realm: httpx.URL, query: dict[str, str], basic: dict[str, str]) -> Any:
        """What the realm answers; None where it refuses."""
        at = self._realms.where(realm, self._wanted)
        with Outside(within=WITHIN, silence=SILENCE, is_direct=at is not None) as outside:
            address = realm.copy_merge_params(query)
            got = outside.ask("GET", address, most=LONGEST_TOKEN, at=at, headers=basic)
        return _json(got) if got.status == httpx.codes.OK else None


def _count(said: Any) -> int:
    """Bytes; what is no number of a layer's counts nothing."""
    return said if type(said) is int and 0 <= said <= LARGEST_LAYER else 0


def _json(got: BoundedResponse) -> Any:
    try:
        return json.loads(got.body)
    except (ValueError, RecursionError):
        return None


def _find_digest(listed: list[Any], architecture: str) -> str | None:
    """The digest of the image for Linux on this architecture, in an index of several."""
    for each in listed:
        platform = each.get("platform") if isinstance(each, Mapping) else None
        if (
            isinstance(platform, Mapping)
            and platform.get("os", "linux") == "linux"
            and platform.get("architecture") == architecture
        ):
            return str(each.get("digest"))
    return None
