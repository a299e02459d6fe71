"""What is wrong with a certificate or its key is said in one sentence, before anything starts."""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa

from inferdash.tls import pair
from inferdash.tls.pair import CertificateError, Pair
from tests.tls.certificates import make

NOW = datetime.now(UTC)

# What is done to a good pair, and the sentence that it makes.
WRONG: dict[str, tuple[Callable[[Pair], object], str]] = {
    "no certificate": (
        lambda good: good.certificate.unlink(),
        r"TLS_CERT is \S+site.crt: there is no such file",
    ),
    "no key": (lambda good: good.key.unlink(), r"TLS_KEY is \S+site.key: there is no such file"),
    "a folder": (
        lambda good: (
            good.certificate.rename(good.key.parent / "away").with_name("site.crt").mkdir()
        ),
        r"TLS_CERT \S+site.crt cannot be read \(Is a directory\)",
    ),
    "another key": (
        lambda good: shutil.move(make(good.key.parent, name="other").key, good.key),
        r"TLS_KEY \S+site.key is not the key of TLS_CERT \S+site.crt",
    ),
    "a key for everybody": (
        lambda good: good.key.chmod(0o644),
        r"site.key is open to every account of this machine \(mode 0644\). Say chmod o=",
    ),
    "no PEM": (
        lambda good: good.certificate.write_bytes(b"\x30\x82\x00"),
        "holds no certificate in PEM",
    ),
    "no PEM of a key": (lambda good: good.key.write_text("key"), "holds no private key in PEM"),
    "the certificate twice": (
        lambda good: good.key.write_bytes(good.certificate.read_bytes()),
        "holds no private key in PEM",
    ),
    "a passphrase": (
        lambda good: make(good.key.parent, passphrase="geheim"),
        "site.key has a passphrase",
    ),
    "over": (
        lambda good: make(good.key.parent, ends=timedelta(hours=-1)),
        r"site.crt ended on \d+ [A-Z][a-z]{2} \d{4} \d\d:\d\d UTC: browsers refuse it",
    ),
    "not yet": (
        lambda good: make(good.key.parent, begins=timedelta(days=2)),
        "counts from .* on only, and this machine's clock says",
    ),
    "a weak key": (
        lambda good: make(good.key.parent, key=rsa.generate_private_key(65537, 1024)),  # noqa: S505
        "is refused by OpenSSL .* 2048 bits",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_pair_is_refused_with_where_and_what_to_do(what: str, tmp_path: Path) -> None:
    good = make(tmp_path)
    spoil, sentence = WRONG[what]
    spoil(good)

    with pytest.raises(CertificateError, match=sentence):
        pair.context(good, NOW)


def test_a_group_such_as_ssl_cert_may_read_the_key(tmp_path: Path) -> None:
    good = make(tmp_path)
    good.key.chmod(0o640)

    assert pair.context(good, NOW).get_ciphers()


def test_names_and_addresses_are_covered_as_browsers_see_it(tmp_path: Path) -> None:
    made = make(tmp_path, hosts=("rtx8.example.org", "*.lan", "192.168.1.20", "::1"))
    certificate = x509.load_pem_x509_certificate(made.certificate.read_bytes())

    covered = ("RTX8.example.org", "rtx8.lan", "192.168.1.20", "[::1]")
    assert [each for each in covered if not pair.covers(certificate, each)] == []
    others = ("example.org", "a.rtx8.lan", "lan", "192.168.1.21", "site")
    assert [each for each in others if pair.covers(certificate, each)] == []
