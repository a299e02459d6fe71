"""The names and addresses by which this machine is reached, as a certificate carries them."""

import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

import psutil

_LABEL = "[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?:\*\.)?{_LABEL}(?:\.{_LABEL})*")
LOOPBACK = ("localhost", "127.0.0.1", "::1")

type Address = IPv4Address | IPv6Address


@dataclass(frozen=True, kw_only=True)
class Names:
    dns: frozenset[str]
    addresses: frozenset[Address]

    def is_within(self, other: "Names") -> bool:
        return self.dns <= other.dns and self.addresses <= other.addresses


def of_machine(typed: Iterable[str]) -> Names:
    """What it calls itself, every address of its interfaces, and what people were told to type."""
    host = socket.gethostname()
    short = host.partition(".")[0]
    return sort_names([*LOOPBACK, host, socket.getfqdn(), f"{short}.local", *_interfaces(), *typed])


def sort_names(words: Iterable[str]) -> Names:
    """What is neither a name nor an address that a browser can ask is left out."""
    dns: set[str] = set()
    addresses: set[Address] = set()
    for word in words:
        try:
            address = ip_address(word.strip("[]").partition("%")[0])
        except ValueError:
            dns |= {name for name in _spelt(word) if _NAME.fullmatch(name)}
            continue
        # Those of a link are asked with the name of an interface, which no certificate can carry;
        # and they come and go with each container.
        if not (address.is_link_local or address.is_unspecified or address.is_multicast):
            addresses.add(address)
    return Names(dns=frozenset(dns), addresses=frozenset(addresses))


def _spelt(word: str) -> list[str]:
    """As certificates do: also ".example.org", which allows every name below, and letters of others."""
    try:
        name = word.lstrip(".").encode("idna").decode().lower()
    except UnicodeError:
        return []
    return [name, f"*.{name}"] if word.startswith(".") else [name]


def _interfaces() -> list[str]:
    families = (socket.AF_INET, socket.AF_INET6)
    return [
        each.address
        for interface in psutil.net_if_addrs().values()
        for each in interface
        if each.family in families
    ]
