"""The authority of this machine's own, and what it gives out, as time goes on."""

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from inferdash.tls import own
from inferdash.tls.own import sort_names
from inferdash.tls.pair import CertificateError, check

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HERE = sort_names(["rtx8", "rtx8.lan", "localhost", "127.0.0.1", "::1", "192.168.1.20"])


def served(made: own.Issued) -> x509.Certificate:
    return x509.load_pem_x509_certificate(made.pair.certificate.read_bytes())


def test_what_was_made_stays_as_long_as_it_serves(tmp_path: Path) -> None:
    first = own.ensure(tmp_path / "tls", HERE, NOW)
    again = own.ensure(tmp_path / "tls", HERE, NOW + timedelta(days=360))

    assert (first.is_new, again.is_new) == (True, False)
    assert again.fingerprint == first.fingerprint
    assert again.ends == first.ends
    certificate = served(first)
    whole = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    assert whole == timedelta(days=397)
    assert check(first.pair, NOW) == certificate


def test_keys_are_for_their_owner_alone(tmp_path: Path) -> None:
    own.ensure(tmp_path / "tls", HERE, NOW)

    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in (tmp_path / "tls").iterdir()}
    assert modes["ca.key"] == modes["server.pem"] == 0o600
    assert stat.S_IMODE((tmp_path / "tls").stat().st_mode) == 0o700


def test_less_than_thirty_days_make_another_of_the_same_authority(tmp_path: Path) -> None:
    first = own.ensure(tmp_path, HERE, NOW)
    later = first.ends - timedelta(days=30) + timedelta(seconds=1)

    renewed = own.ensure(tmp_path, HERE, later)

    assert renewed.is_new
    assert renewed.fingerprint == first.fingerprint
    assert renewed.ends == later.replace(microsecond=0) + own.LIVES - own.BACKDATED


def test_another_address_makes_another_and_one_less_does_not(tmp_path: Path) -> None:
    first = own.ensure(tmp_path, HERE, NOW)

    moved = own.ensure(tmp_path, sort_names(["rtx8", "10.0.0.7", "127.0.0.1"]), NOW)
    fewer = own.ensure(tmp_path, sort_names(["rtx8", "127.0.0.1"]), NOW)

    assert (moved.is_new, fewer.is_new) == (True, False)
    assert moved.fingerprint == first.fingerprint
    found = served(moved).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {str(each) for each in found.get_values_for_type(x509.IPAddress)} == {
        "10.0.0.7",
        "127.0.0.1",
    }


def test_a_certificate_outlives_its_authority_never(tmp_path: Path) -> None:
    first = own.ensure(tmp_path, HERE, NOW)
    late = NOW + own.AUTHORITY_LIVES - timedelta(days=100)

    last = own.ensure(tmp_path, HERE, late)
    next_one = own.ensure(tmp_path, HERE, NOW + own.AUTHORITY_LIVES - timedelta(days=29))

    assert last.ends == NOW + own.AUTHORITY_LIVES
    assert last.fingerprint == first.fingerprint
    assert next_one.fingerprint != first.fingerprint
    assert next_one.is_new


def test_a_clock_that_was_set_back_is_served_a_certificate_that_counts(tmp_path: Path) -> None:
    own.ensure(tmp_path, HERE, NOW)
    before = NOW - timedelta(days=10)

    made = own.ensure(tmp_path, HERE, before)

    assert made.is_new
    assert check(made.pair, before) == served(made)


@pytest.mark.parametrize("name", ["ca.key", "ca.crt"])
@pytest.mark.parametrize("content", [None, "", "nonsense"])
def test_half_an_authority_is_told_and_not_replaced(
    tmp_path: Path, name: str, content: str | None
) -> None:
    own.ensure(tmp_path, HERE, NOW)
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_text(content)

    with pytest.raises(CertificateError, match="Put both back from a copy, or delete both"):
        own.ensure(tmp_path, HERE, NOW)


def test_the_key_of_another_authority_is_told(tmp_path: Path) -> None:
    own.ensure(tmp_path / "a", HERE, NOW)
    own.ensure(tmp_path / "b", HERE, NOW)
    (tmp_path / "b/ca.key").replace(tmp_path / "a/ca.key")

    with pytest.raises(CertificateError, match="no longer a key with its certificate"):
        own.ensure(tmp_path / "a", HERE, NOW)


def test_a_folder_that_cannot_be_written_is_told() -> None:
    with pytest.raises(CertificateError, match="TLS=self keeps its certificates in /proc/tls"):
        own.ensure(Path("/proc/tls"), HERE, NOW)


def test_what_no_certificate_can_carry_is_left_out() -> None:
    found = sort_names(
        ["Rtx8", ".example.org", "[::1]", "fe80::1%eth0", "0.0.0.0", "ff02::1", "bücher.lan", "a b", "", "*"]
    )  # fmt: skip

    assert found.dns == {"rtx8", "example.org", "*.example.org", "xn--bcher-kva.lan"}
    assert {str(each) for each in found.addresses} == {"::1"}


def test_the_machine_knows_itself() -> None:
    found = own.find_machine_names(["rtx8.example.org"])

    assert {"localhost", "rtx8.example.org"} <= found.dns
    assert {"127.0.0.1", "::1"} <= {str(each) for each in found.addresses}
