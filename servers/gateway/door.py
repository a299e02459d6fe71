"""An old port, as requests come in by it."""

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from django.conf import settings
from django.http.request import validate_host

from servers.gateway.asgi import Scope
from servers.gateway.callers import Caller, brings_key
from servers.gateway.refusal import Refusal
from servers.models import OldPort
from servers.models.oldport import plain

# Under these nobody can register a name: RFC 6762, RFC 8375, RFC 2606, and what ICANN has set aside.
_LOCAL = (
    *(".local", ".home.arpa", ".test", ".localhost", ".internal"),
    *(".lan", ".home", ".corp", ".localdomain", ".intranet", ".private"),
)


@dataclass(frozen=True, kw_only=True)
class Door:
    pk: int
    port: int
    model: str  # asked for where a request names nothing that is known; "": nothing
    sources: tuple[IPv4Network | IPv6Network, ...]
    person: int | None  # in whose name programs ask without a key; None: they may not

    @classmethod
    def of(cls, row: OldPort) -> "Door":
        return cls(
            pk=row.pk,
            port=row.port,
            model=row.model,
            sources=tuple(ip_network(each) for each in row.sources),
            person=row.made_by_id if row.needs_no_key else None,
        )

    def caller(self, scope: Scope) -> Caller | None:
        """Who comes from a listed address, without a key; None: with one, or from elsewhere.

        Raises Refusal.
        """
        client = scope.get("client")
        if self.person is None or not client or brings_key(scope["headers"]):
            return None
        if not any(plain(client[0]) in source for source in self.sources):
            return None
        if any(name == b"origin" for name, _value in scope["headers"]):
            # Any page that somebody of the network opens could ask in its place.
            raise Refusal(
                403, "browser_refused",
                "Browsers need a key, also from here. Programs that are none do not.",
            )  # fmt: skip
        if not _is_ours(host := _host(scope)):
            raise Refusal(
                403, "host_unknown",
                f"Nobody is asked as “{host[:200]}” without a key: a page of a browser could have "
                "led here by a name of its own. Ask by the box's address, use a key, or have the "
                "name added to INFERDASH_ALLOWED_HOSTS.",
            )  # fmt: skip
        return Caller(key=None, person=self.person)


def _host(scope: Scope) -> str:
    """Without its port; "" where a program says none, which browsers always do."""
    said = next((value for name, value in scope["headers"] if name == b"host"), b"")
    host = said.decode("latin-1").casefold()
    return host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]


def _is_ours(host: str) -> bool:
    """Not a name that somebody out there could own, and let lead to this box (DNS rebinding)."""
    name = host.rstrip(".")
    if "." not in name or name.endswith(_LOCAL) or validate_host(name, settings.ALLOWED_HOSTS):
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def source_of(scope: Scope) -> str | None:
    """The address that a request came from."""
    client = scope.get("client")
    return str(plain(client[0])) if client else None
