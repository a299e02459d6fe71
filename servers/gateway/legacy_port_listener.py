"""A legacy port, as requests come in by it."""

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network

from servers.gateway.asgi import Scope
from servers.gateway.callers import Caller, Refusal, brings_key, is_ours, without_port
from servers.models import LegacyPort, Permission
from servers.models.gateway.request import plain


@dataclass(frozen=True, kw_only=True)
class LegacyPortListener:
    pk: int
    port: int
    model: str  # asked for where a request names nothing that is known; "": nothing
    sources: tuple[IPv4Network | IPv6Network, ...]
    person: int | None  # in whose name programs ask without a key; None: they may not
    sees_causes: bool  # as that person does

    @classmethod
    def from_row(cls, row: LegacyPort) -> "LegacyPortListener":
        return cls(
            pk=row.pk,
            port=row.port,
            model=row.model,
            sources=tuple(ip_network(each) for each in row.sources),
            person=row.made_by_id if row.needs_no_key else None,
            sees_causes=row.made_by is not None and row.made_by.may(Permission.VIEW),
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
        if not is_ours(host := without_port(scope)):
            raise Refusal(
                403, "host_unknown",
                f"Nobody is asked as “{host[:200]}” without a key: a page of a browser could have "
                "led here by a name of its own. Ask by the box's address, use a key, or have the "
                "name added to INFERDASH_ALLOWED_HOSTS.",
            )  # fmt: skip
        return Caller(key=None, person=self.person, sees_causes=self.sees_causes)


def source_of(scope: Scope) -> str | None:
    """The address that a request came from."""
    client = scope.get("client")
    return str(plain(client[0])) if client else None
