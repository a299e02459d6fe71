"""What a registry says of an image's size before it is pulled. Docker does not tell; it only pulls."""

import json
import re
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx

from servers.host.docker_client import Login
from servers.host.references import HUB, Reference, parse

TIMEOUT = 10.0  # seconds for each step of a question
LONGEST = 4 << 20  # bytes of an answer: what the registries' own specification allows
_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_HUB_HOST = "registry-1.docker.io"
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


def size(reference: str, architecture: str, login: Login | None = None) -> Size | None:
    """What an image for Linux on this architecture (amd64, arm64) consists of.

    None where the reference has no image for it. Raises RegistryError. Source: the distribution
    specification of the Open Container Initiative, and the token log-in of Docker's registry.
    """
    wanted = parse(reference)
    if login is not None and login.registry != wanted.registry:
        login = None
    try:
        with httpx.Client(timeout=TIMEOUT) as client:
            return _Registry(client, wanted, login).size(architecture)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise RegistryError(f"{wanted.registry} does not answer: {error}.") from error


class _Registry:
    def __init__(self, client: httpx.Client, wanted: Reference, login: Login | None) -> None:
        self._client = client
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
            digest = _of(listed, architecture)
            if digest is None:
                return None
            found = self._manifest(digest)
        layers = found.get("layers")
        if not isinstance(layers, list):
            raise RegistryError(f"{self._wanted.registry} does not say what the image consists of.")
        return Size(
            layers={
                str(each.get("digest")): int(each.get("size") or 0)
                for each in layers
                if isinstance(each, Mapping)
            }
        )

    def _manifest(self, reference: str) -> dict[str, Any]:
        address = f"{self._root}/manifests/{reference}"
        status, headers, said = self._ask(address, {"Accept": ", ".join(_TYPES)})
        if status == httpx.codes.UNAUTHORIZED and not self._headers:
            self._headers = self._credentials(headers.get("www-authenticate", ""))
            status, headers, said = self._ask(address, {"Accept": ", ".join(_TYPES)})
        if status != httpx.codes.OK or not isinstance(said, dict):
            raise RegistryError(f"{self._wanted.registry} answers {status}.")
        return said

    def _ask(
        self, address: str, headers: dict[str, str], **options: Any
    ) -> tuple[int, Mapping[str, str], Any]:
        request = self._client.build_request(
            "GET", address, headers={**headers, **self._headers}, **options
        )
        with closing(self._client.send(request, stream=True)) as answer:
            body = bytearray()
            for piece in answer.iter_bytes():
                body += piece
                if len(body) > LONGEST:
                    raise RegistryError(f"{self._wanted.registry} answers with too much.")
        try:
            return answer.status_code, answer.headers, json.loads(body)
        except (ValueError, RecursionError):
            return answer.status_code, answer.headers, None

    def _credentials(self, challenge: str) -> dict[str, str]:
        """What the registry's own refusal asks for: the log-in itself, or a token for it."""
        kind, _space, rest = challenge.partition(" ")
        basic = None
        if self._login is not None:
            basic = httpx.BasicAuth(self._login.username, self._login.password)
        if kind.casefold() == "basic" and basic is not None:
            request = next(basic.auth_flow(httpx.Request("GET", self._root)))
            return {"Authorization": request.headers["Authorization"]}
        if kind.casefold() != "bearer":
            raise RegistryError(f"{self._wanted.registry} wants a log-in.")
        said = dict(_CHALLENGE.findall(rest))
        realm = said.pop("realm", "")
        if urlsplit(realm).scheme != "https" and not self._wanted.is_local:
            raise RegistryError(f"{self._wanted.registry} wants a log-in without encryption.")
        scope = f"repository:{self._wanted.repository}:pull"
        query = {"service": said.get("service", ""), "scope": said.get("scope") or scope}
        request = self._client.build_request("GET", realm, params=query)
        answer = self._client.send(request, auth=basic)
        try:
            told = answer.json() if answer.status_code == httpx.codes.OK else {}
        except ValueError:
            told = {}
        token = (told.get("token") or told.get("access_token")) if isinstance(told, dict) else None
        if not token:
            raise RegistryError(f"{self._wanted.registry} lets nobody in for this image.")
        return {"Authorization": f"Bearer {token}"}


def _of(listed: list[Any], architecture: str) -> str | None:
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
