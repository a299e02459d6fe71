"""A certificate with its key, as the web process serves them: read, checked, made a context of."""

import ssl
from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

# Whose key it is, and a group such as ssl-cert, may read it; nobody else of the machine.
OTHERS = 0o007


class CertificateError(Exception):
    """What is wrong with a certificate or its key, where, and what to do about it."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    certificate: Path  # with the ones in between behind it
    key: Path

    def state(self) -> tuple[object, ...]:
        """Another one as soon as either file is another one."""
        found: list[object] = []
        for path in (self.certificate, self.key):
            try:
                stat = path.stat()
            except OSError as error:
                found.append(error.errno)
            else:
                found.append((stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns))
        return tuple(found)


def check(pair: Pair, now: datetime) -> x509.Certificate:
    """The certificate that is served. Raises CertificateError where it cannot be, or is over."""
    certificate = _certificate(pair.certificate)
    _check_key(pair, certificate)
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now > end:
        raise CertificateError(
            f"TLS_CERT {pair.certificate} ended on {_day(end)}: browsers refuse it. Put the renewed "
            "one in its place, with its key."
        )
    if now < begin:
        raise CertificateError(
            f"TLS_CERT {pair.certificate} counts from {_day(begin)} on only, and this machine's "
            f"clock says {_day(now)}. Set the clock right, or take another certificate."
        )
    return certificate


def context(pair: Pair, now: datetime) -> ssl.SSLContext:
    """For the server's side of connections. Raises CertificateError."""
    check(pair, now)
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    made.set_alpn_protocols(["http/1.1"])
    try:
        made.load_cert_chain(pair.certificate, pair.key)
    except (ssl.SSLError, OSError) as error:
        raise CertificateError(
            f"TLS_CERT {pair.certificate} with TLS_KEY {pair.key} is refused by OpenSSL ({error}). "
            "An RSA key needs 2048 bits at least."
        ) from error
    return made


def covers(certificate: x509.Certificate, host: str) -> bool:
    """Whether a browser that was given this name or address takes the certificate for it."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False  # browsers have not looked at the common name since 2017
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        known = {each.lower() for each in names.get_values_for_type(x509.DNSName)}
        return bool({host.lower(), f"*.{host.lower().partition('.')[2]}"} & known)
    return address in names.get_values_for_type(x509.IPAddress)


def _certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificates(_read("TLS_CERT", path))[0]
    except ValueError as error:
        raise CertificateError(
            f"TLS_CERT {path} holds no certificate in PEM, which begins with "
            "-----BEGIN CERTIFICATE-----. A .der or .p12 is made one by openssl."
        ) from error


def _check_key(pair: Pair, certificate: x509.Certificate) -> None:
    data = _read("TLS_KEY", pair.key)
    try:
        mode = pair.key.stat().st_mode
    except OSError as error:
        raise _unreadable("TLS_KEY", pair.key, error) from error
    if mode & OTHERS:
        raise CertificateError(
            f"TLS_KEY {pair.key} is open to every account of this machine (mode {mode & 0o777:04o}). "
            f"Say chmod o= {pair.key}; if others may have read it, ask for a new certificate."
        )
    try:
        key = load_pem_private_key(data, password=None)
    except TypeError as error:
        raise CertificateError(
            f"TLS_KEY {pair.key} has a passphrase, and nobody is there to type it. Write it without: "
            f"openssl pkey -in {pair.key} -out new.key"
        ) from error
    except ValueError as error:
        raise CertificateError(
            f"TLS_KEY {pair.key} holds no private key in PEM, which begins with "
            "-----BEGIN PRIVATE KEY-----."
        ) from error
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if key.public_key().public_bytes(*form) != certificate.public_key().public_bytes(*form):
        raise CertificateError(
            f"TLS_KEY {pair.key} is not the key of TLS_CERT {pair.certificate}. Name the two that "
            "were made together; where the file holds several, the server's own comes first."
        )


def _read(name: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(name, path, error) from error


def _unreadable(name: str, path: Path, error: OSError) -> CertificateError:
    if isinstance(error, FileNotFoundError):
        return CertificateError(f"{name} is {path}: there is no such file. Write its whole path.")
    return CertificateError(
        f"{name} {path} cannot be read ({error.strerror}). The account that runs inferdash has to be "
        "allowed to, also to enter the folders above it."
    )


def _day(when: datetime) -> str:
    return f"{when:%-d %b %Y %H:%M} UTC"
