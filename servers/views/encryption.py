"""The authority of this machine's own, where TLS=self made one: to look at, and to take along."""

import hashlib
import ssl
from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_GET


@dataclass(frozen=True, kw_only=True)
class Authority:
    certificate: str  # PEM
    fingerprint: str  # SHA-256, as browsers write it


def authority() -> Authority | None:
    """None where inferdash has none."""
    if settings.OWN_TLS is None:
        return None
    text = (settings.OWN_TLS / "ca.crt").read_text()
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(text)).digest()
    return Authority(certificate=text, fingerprint=digest.hex(":").upper())


@require_GET
@login_not_required  # it is for everybody who comes here, and a browser that warns comes first
def download(_request: HttpRequest) -> HttpResponse:
    found = authority()
    if found is None:
        raise Http404("This inferdash has no authority of its own.")
    return HttpResponse(found.certificate, content_type="application/x-x509-ca-cert")
