"""The host names under which pages and the gateway are served."""

from ipaddress import ip_address

from django.conf import settings
from django.http.request import split_domain_port, validate_host

from servers.gateway.asgi import Scope
from servers.gateway.refusal import Refusal

# Under these nobody can register a name: RFC 6762, RFC 8375, RFC 2606, and what ICANN has set aside.
_LOCAL = (
    *(".local", ".home.arpa", ".test", ".localhost", ".internal"),
    *(".lan", ".home", ".corp", ".localdomain", ".intranet", ".private"),
)


def unknown_host(scope: Scope) -> Refusal | None:
    """Why the name that was asked for is refused, as the pages refuse it; None where it is not.

    A page that somebody opens could have its own name lead to this box (DNS rebinding), and then
    ask here as if it were of this site.
    """
    host = _read_host_header(scope)
    if host is None:
        host = str((scope.get("server") or ("",))[0])
        host = f"[{host}]" if ":" in host else host
    domain, _port = split_domain_port(host)
    if domain and validate_host(domain, settings.ALLOWED_HOSTS):
        return None
    shown = domain or host[:200]
    return Refusal(
        400, "host_unknown",
        f"inferdash was not told that it is called “{shown}”. Ask by a name or address that it "
        f"knows, or have it added: INFERDASH_ALLOWED_HOSTS={shown}, then start it again.",
    )  # fmt: skip


def without_port(scope: Scope) -> str:
    """The name that was asked for; "" where a program says none, which browsers always do."""
    host = (_read_host_header(scope) or "").casefold()
    return host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]


def is_ours(host: str) -> bool:
    """Not a name that somebody out there could own, and let lead to this box (DNS rebinding)."""
    name = host.rstrip(".")
    if "." not in name or name.endswith(_LOCAL) or validate_host(name, settings.ALLOWED_HOSTS):
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _read_host_header(scope: Scope) -> str | None:
    said = next((value for name, value in scope["headers"] if name == b"host"), None)
    return None if said is None else said.decode("latin-1")
