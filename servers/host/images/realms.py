"""Token realms of registries: which of them may be asked.

A registry's refusal names the address, its realm, and whoever names an image chooses the registry:
without a rule that one could have this box ask any program that only the box can reach.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import httpx

from servers.host.http import addresses
from servers.host.http.addresses import Address, UnknownNameError
from servers.host.images.references import Reference


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
            found = addresses.resolve(realm.raw_host.decode(), addresses.port_of(realm))
        except UnknownNameError as error:
            if addresses.goes_by_proxy(realm) and realm.scheme == "https":
                return None
            raise RealmError(f"sends to {realm.host} for its tokens, a name unknown") from error
        asked = [each for each in found if not addresses.is_of_the_link(each)]
        if not asked or not self._is_allowed(realm, registry, asked):
            raise RealmError(_refusal(realm))
        return None if addresses.goes_by_proxy(realm) else asked

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
        return is_there or all(map(addresses.is_public, asked))


def _list_known(own: httpx.URL) -> set[Address]:
    try:
        return set(addresses.resolve(own.raw_host.decode(), addresses.port_of(own)))
    except UnknownNameError:
        return set()  # only a proxy knows it


def _service(url: httpx.URL) -> tuple[str, int]:
    return url.scheme, addresses.port_of(url)


def _origin(url: httpx.URL) -> tuple[str, str, int]:
    return url.scheme, url.host, addresses.port_of(url)


def _refusal(realm: httpx.URL) -> str:
    if realm.scheme == "http":
        return f"wants credentials without encryption, at {realm.host}"
    origin = f"https://{realm.netloc.decode()}"
    return (
        f"sends to {realm.host} for its tokens, which is neither on the internet nor the registry "
        f'itself. Who administers the box can allow it in box.toml: token_realms = ["{origin}"]'
    )
