"""Image sizes from a registry, before a pull."""

import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from servers.host.docker.client import RegistryAuth
from servers.host.http.bounded import BoundedResponse, BoundsError, Outside
from servers.host.images.realms import RealmError, Realms
from servers.host.images.references import HUB, Reference, parse

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

    `realms` are where registries may send for a token beside what servers.host.images.realms allows.
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
