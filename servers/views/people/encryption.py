"""The authority of this machine's own, where TLS=self made one: to look at, and to take along."""

import hashlib
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone

from servers.views.access import serve_public

ENDS_SOON = 14  # days: whoever renews by a program does so 30 days before


@dataclass(frozen=True, kw_only=True)
class Authority:
    certificate: str  # PEM
    fingerprint: str  # SHA-256, as browsers write it


def show_authority() -> Authority | None:
    """None where inferdash has none."""
    if settings.OWN_TLS is None:
        return None
    text = (settings.OWN_TLS / "ca.crt").read_text()
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(text)).digest()
    return Authority(certificate=text, fingerprint=digest.hex(":").upper())


def days_left() -> int | None:
    """Until the certificate of TLS_CERT ends, where that is soon; None: it is not, or there is none.

    One of the machine's own is renewed by itself. Below 0: it has ended.
    """
    if not settings.TLS_CERT:
        return None
    try:
        data = Path(settings.TLS_CERT).read_bytes()
        certificate = x509.load_pem_x509_certificate(data)
    except (OSError, ValueError):
        return None  # it is being put in place: the log tells what is wrong with it
    left = (certificate.not_valid_after_utc - timezone.now()).days
    return left if left < ENDS_SOON else None


# A browser that warns of the certificate comes before any login.
@serve_public("ca.crt", "GET", name="authority")
def download_authority(_request: HttpRequest) -> HttpResponse:
    found = show_authority()
    if found is None:
        raise Http404("This inferdash has no authority of its own.")
    return HttpResponse(found.certificate, content_type="application/x-x509-ca-cert")
