"""Certificates while the web process runs: renewed, taken up, or kept where the new one is wrong."""

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from inferdash.tls import own
from inferdash.tls.chosen import Certificates
from inferdash.tls.pair import CertificateError
from tests.tls.certificates import make

NOW = datetime.now(UTC)


def settings(**chosen: object) -> SimpleNamespace:
    unset: dict[str, object] = {
        "OWN_TLS": None,
        "TLS_CERT": "",
        "TLS_KEY": "",
        "ALLOWED_HOSTS": [],
        "HOST": "::1",
    }
    return SimpleNamespace(**unset | chosen)


def test_our_own_is_renewed_while_it_runs_and_new_connections_get_it(tmp_path: Path) -> None:
    running = Certificates(settings(OWN_TLS=tmp_path), NOW)
    first, context = running.authority, running.context(NOW)
    assert first is not None

    running.renew(NOW + timedelta(days=300))
    assert running.context(NOW) is context
    running.renew(NOW + timedelta(days=370))

    assert running.authority is not None
    assert running.authority.is_new
    assert running.authority.fingerprint == first.fingerprint
    assert running.context(NOW + timedelta(days=370)) is not context


def test_another_address_of_the_machine_is_another_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = Certificates(settings(OWN_TLS=tmp_path), NOW)
    context = running.context(NOW)
    more = own.sort_names([*own.LOOPBACK, "10.11.12.13"])
    monkeypatch.setattr(own, "find_machine_names", lambda _typed: more)

    running.renew(NOW)

    assert running.context(NOW) is not context


def test_another_authority_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    running = Certificates(settings(OWN_TLS=tmp_path), NOW)

    running.renew(NOW + own.AUTHORITY_LIVES)

    assert "there is a new authority, to be trusted anew" in caplog.text


def test_a_wrong_renewal_is_told_once_and_what_was_right_is_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    pair = make(tmp_path)
    chosen = settings(TLS_CERT=str(pair.certificate), TLS_KEY=str(pair.key))
    running = Certificates(chosen, NOW)
    context = running.context()
    make(tmp_path, ends=timedelta(minutes=-1))

    assert [running.context() for _ in range(3)] == 3 * [context]
    assert caplog.text.count("the certificate from before goes on being served") == 1
    pair.key.unlink()
    assert running.context() is context
    make(tmp_path)

    assert running.context() is not context
    assert "the renewed certificate is served from now on" in caplog.text


def test_what_cannot_be_served_is_no_start(tmp_path: Path) -> None:
    pair = make(tmp_path, ends=timedelta(minutes=-1))

    with pytest.raises(CertificateError, match="ended on"):
        Certificates(settings(TLS_CERT=str(pair.certificate), TLS_KEY=str(pair.key)))


def test_names_that_it_is_not_for_and_a_near_end_are_told(tmp_path: Path) -> None:
    pair = make(tmp_path, hosts=("rtx8.lan", "*.example.org"), ends=timedelta(days=29, minutes=1))
    hosts = ["127.0.0.1", "localhost", "[::1]", "rtx8.lan", "a.example.org", "192.168.1.20"]
    chosen = settings(
        TLS_CERT=str(pair.certificate), TLS_KEY=str(pair.key), ALLOWED_HOSTS=hosts, HOST="0.0.0.0"
    )

    names_told, end_told = Certificates(chosen).warnings()

    assert "is not for 192.168.1.20: browsers" in names_told
    assert "ends in 29 days" in end_told
