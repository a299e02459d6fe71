"""Addresses behind a host name, and which of them are not public."""

import ipaddress
import socket
from urllib.request import getproxies, proxy_bypass

import httpx

type Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Amazon's metadata over IPv6, which is not link-local.
_METADATA = (ipaddress.ip_network("fd00:ec2::254/128"),)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class UnknownNameError(Exception):
    """Nobody knows the name."""


def goes_by_proxy(url: httpx.URL) -> bool:
    """Whether the environment names a proxy for it; that one then resolves the name."""
    proxies = getproxies()
    named = url.scheme in proxies or "all" in proxies
    return named and not proxy_bypass(url.host)


def resolve(host: str, port: int) -> list[Address]:
    """Every address of a name. Raises UnknownNameError."""
    try:
        told = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UnknownNameError(host) from error
    found: list[Address] = []
    for each in told:
        address = ipaddress.ip_address(str(each[4][0]).partition("%")[0])
        if address not in found:
            found.append(address)
    return found


def port_of(url: httpx.URL) -> int:
    return url.port or (443 if url.scheme == "https" else 80)


def is_of_the_link(address: Address) -> bool:
    """Whether it is the machine's own network link, where clouds keep credentials, or many at once."""
    plain = _plain(address)
    if plain.is_link_local or plain.is_multicast or plain.is_unspecified:
        return True
    return any(plain in each for each in _METADATA if each.version == plain.version)


def is_public(address: Address) -> bool:
    """Whether it is one of the internet's, and of no network of one's own."""
    return _plain(address).is_global and not is_of_the_link(address)


def _plain(address: Address) -> Address:
    """What an address within another one leads to."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address
