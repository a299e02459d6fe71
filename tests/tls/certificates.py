"""Certificates as an admin has them from elsewhere, made without the code that is tested."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from inferdash.tls.pair import Pair

type Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def make(
    folder: Path,
    *,
    name: str = "site",
    hosts: tuple[str, ...] = ("localhost", "127.0.0.1"),
    begins: timedelta = timedelta(days=-1),
    ends: timedelta = timedelta(days=90),
    key: Key | None = None,
    passphrase: str = "",
) -> Pair:
    """A certificate that signs itself, and its key, as two files; times are from now on."""
    now = datetime.now(UTC)
    key = key or ec.generate_private_key(ec.SECP256R1())
    called = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(called)
        .issuer_name(called)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + begins)
        .not_valid_after(now + ends)
        .add_extension(x509.SubjectAlternativeName([_general(each) for each in hosts]), False)
        .sign(key, hashes.SHA256())
    )
    pair = Pair(certificate=folder / f"{name}.crt", key=folder / f"{name}.key")
    pair.certificate.write_bytes(certificate.public_bytes(Encoding.PEM))
    how = BestAvailableEncryption(passphrase.encode()) if passphrase else NoEncryption()
    pair.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how))
    pair.key.chmod(0o600)
    return pair


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
