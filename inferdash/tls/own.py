"""An authority of this machine's own, and the certificate that it gives to the web process, for every name of the machine."""

import fcntl
import os
import re
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import psutil
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from inferdash.tls.pair import CertificateError, Pair

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


def find_machine_names(typed: Iterable[str]) -> Names:
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


AUTHORITY_LIVES = timedelta(days=3650)
LIVES = timedelta(days=397)  # Apple's and Chrome's limit is 398
RENEWED_BEFORE = timedelta(days=30)
# Clocks of those who look at it may be behind this one.
BACKDATED = timedelta(hours=1)

CERTIFICATE = "ca.crt"
_KEY = "ca.key"
_SERVED = "server.pem"  # key and certificate in one file: they change in one step


@dataclass(frozen=True, kw_only=True)
class Issued:
    authority: Path
    fingerprint: str  # of the authority's certificate, as browsers write it
    pair: Pair
    ends: datetime
    is_new: bool  # the certificate that is served was made just now


def ensure(folder: Path, names: Names, now: datetime) -> Issued:
    """What is there, as far as it still serves these names; the rest anew. Raises CertificateError."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _alone(folder):
            key, authority = _authority(folder, now)
            kept = _read_served(folder, authority, names, now)
            certificate = kept or _give(folder, key, authority, names, now)
    except OSError as error:
        raise CertificateError(
            f"TLS=self keeps its certificates in {folder}, which cannot be used ({error.strerror}). "
            "Let the account that runs inferdash write there."
        ) from error
    return Issued(
        authority=folder / CERTIFICATE,
        fingerprint=fingerprint(authority),
        pair=Pair(certificate=folder / _SERVED, key=folder / _SERVED),
        ends=certificate.not_valid_after_utc,
        is_new=kept is None,
    )


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 as browsers and openssl write it: AB:CD:…"""
    return certificate.fingerprint(hashes.SHA256()).hex(":").upper()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Of several programs that look at the same moment the first one makes what is missing."""
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _authority(folder: Path, now: datetime) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    kept = (folder / _KEY, folder / CERTIFICATE)
    if not any(each.exists() for each in kept):
        return _make_authority(folder, now)
    try:
        key = load_pem_private_key(kept[0].read_bytes(), password=None)
        certificate = x509.load_pem_x509_certificate(kept[1].read_bytes())
    except (ValueError, TypeError, FileNotFoundError) as error:
        raise _describe_broken(folder) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise _describe_broken(folder)
    if key.public_key() != certificate.public_key():
        raise _describe_broken(folder)
    if certificate.not_valid_after_utc - now < RENEWED_BEFORE:
        return _make_authority(folder, now)
    return key, certificate


def _describe_broken(folder: Path) -> CertificateError:
    return CertificateError(
        f"{folder / _KEY} and {folder / CERTIFICATE} are no longer a key with its certificate. Put "
        "both back from a copy, or delete both: a new authority is made, which every person has to "
        "trust anew."
    )


def _make_authority(
    folder: Path, now: datetime
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    # Somebody who trusts those of several boxes must be able to tell them apart in a list.
    name = _name(f"inferdash on {os.uname().nodename} ({now:%Y-%m-%d})")
    mine = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        _begin_certificate(key.public_key(), now, now + AUTHORITY_LIVES)
        .subject_name(name)
        .issuer_name(name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(mine, critical=False)
        .sign(key, hashes.SHA256())
    )
    _write(folder / _KEY, _key_text(key))
    _write(folder / CERTIFICATE, certificate.public_bytes(Encoding.PEM))
    return key, certificate


def _read_served(
    folder: Path, authority: x509.Certificate, names: Names, now: datetime
) -> x509.Certificate | None:
    """The certificate that is there; None where another one is to be made."""
    try:
        data = (folder / _SERVED).read_bytes()
        certificate = x509.load_pem_x509_certificate(data)
        load_pem_private_key(data, password=None)
        certificate.verify_directly_issued_by(authority)
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (FileNotFoundError, ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return None
    has = Names(
        dns=frozenset(found.get_values_for_type(x509.DNSName)),
        addresses=frozenset(found.get_values_for_type(x509.IPAddress)),  # type: ignore[arg-type]
    )
    is_fresh = certificate.not_valid_after_utc - now >= RENEWED_BEFORE
    # More than is wanted is no reason: a name that DNS does not tell just now was told before.
    is_good = is_fresh and certificate.not_valid_before_utc <= now and names.is_within(has)
    return certificate if is_good else None


def _give(
    folder: Path,
    key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    names: Names,
    now: datetime,
) -> x509.Certificate:
    own = ec.generate_private_key(ec.SECP256R1())
    end = min(now + LIVES - BACKDATED, authority.not_valid_after_utc)
    dns = [x509.DNSName(each) for each in sorted(names.dns)]
    addresses = [x509.IPAddress(each) for each in sorted(names.addresses, key=str)]
    certificate = (
        _begin_certificate(own.public_key(), now, end)
        .subject_name(_name("inferdash"))
        .issuer_name(authority.subject)
        .add_extension(x509.SubjectAlternativeName([*dns, *addresses]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(own.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    _write(folder / _SERVED, _key_text(own) + certificate.public_bytes(Encoding.PEM))
    return certificate


def _begin_certificate(
    key: ec.EllipticCurvePublicKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    made = x509.CertificateBuilder().public_key(key).serial_number(x509.random_serial_number())
    return made.not_valid_before(now - BACKDATED).not_valid_after(end)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _key_text(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all, and never readable by anybody else."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
