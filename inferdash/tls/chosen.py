"""The TLS of the settings, kept ready while the web process runs."""

import asyncio
import logging
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from inferdash.tls import own, pair
from inferdash.tls.pair import CertificateError, Pair

log = logging.getLogger(__name__)

# Seconds between two looks at whether a certificate of our own ends soon, or the machine has
# another address than it.
LOOKED_AT = 60.0
ENDS_SOON = own.RENEWED_BEFORE


class Certificates:
    """The ones of these settings: TLS_CERT and TLS_KEY, or with TLS=self those of our own."""

    def __init__(self, settings: Any, now: datetime | None = None) -> None:
        """Raises CertificateError. `settings` are Django's, or their module."""
        self._folder: Path | None = settings.OWN_TLS
        self._typed: list[str] = [*settings.ALLOWED_HOSTS, settings.HOST]
        self.authority: own.Issued | None = None
        self._pair = Pair(certificate=Path(settings.TLS_CERT), key=Path(settings.TLS_KEY))
        self.renew(now)
        self._state = self._pair.state()
        self._context = pair.context(self._pair, now or datetime.now(UTC))

    def renew(self, now: datetime | None = None) -> None:
        """The one of our own, where it is time or the machine has other names. Raises CertificateError."""
        if self._folder is None:
            return
        made = own.ensure(
            self._folder, own.find_machine_names(self._typed), now or datetime.now(UTC)
        )
        if self.authority is not None and made.fingerprint != self.authority.fingerprint:
            log.warning("TLS: there is a new authority, to be trusted anew: %s", made.fingerprint)
        self.authority = made
        self._pair = made.pair

    def context(self, now: datetime | None = None) -> ssl.SSLContext:
        """For a new connection: of the files as they are now, or as they were when they were right."""
        state = self._pair.state()
        if state != self._state:
            # A certificate and its key are not put in place at once: what is wrong now is looked
            # at again as soon as either changes.
            self._state = state
            try:
                self._context = pair.context(self._pair, now or datetime.now(UTC))
            except CertificateError as error:
                log.error("TLS: the certificate from before goes on being served. %s", error)
            else:
                log.info("TLS: the renewed certificate is served from now on")
        return self._context

    def list_notes(self) -> list[str]:
        """What whoever starts it should know."""
        if self.authority is None:
            return []
        return [
            f"TLS: the certificate is one of this machine's own. People trust {self.authority.authority} "
            f"once (Settings shows how); its SHA-256 fingerprint is {self.authority.fingerprint}"
        ]

    def warnings(self, now: datetime | None = None) -> list[str]:
        """What does not stop a start, and will trouble people."""
        if self.authority is not None:
            return []
        certificate = pair.check(self._pair, now or datetime.now(UTC))
        told = []
        loopback = {*own.LOOPBACK, "[::1]", "0.0.0.0", "::"}  # noqa: S104 - compared with
        typed = [each for each in dict.fromkeys(self._typed) if each not in loopback]
        missing = [each for each in typed if not pair.covers(certificate, each.lstrip("."))]
        if missing:
            told.append(
                f"TLS_CERT {self._pair.certificate} is not for {', '.join(missing)}: browsers refuse "
                "it under that name"
            )
        left = certificate.not_valid_after_utc - (now or datetime.now(UTC))
        if left < ENDS_SOON:
            told.append(
                f"TLS_CERT {self._pair.certificate} ends in {left.days} days. A renewed one in its "
                "place is taken up without a restart"
            )
        return told

    async def run(self) -> None:
        """Renew for as long as the web process lives."""
        while self._folder is not None:
            await asyncio.sleep(LOOKED_AT)
            try:
                # Names are asked of DNS, which may take its time.
                await asyncio.to_thread(self.renew)
            except CertificateError as error:
                log.error("TLS: the certificate could not be renewed. %s", error)
