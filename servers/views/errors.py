"""Error pages: refused, bad request, expired form.

Buttons that htmx sends get the sentence alone, as plain text, which the page then shows.
"""

from django.conf import settings
from django.core.exceptions import BadRequest, DisallowedHost
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from servers.state import data_disk
from servers.views.responses import respond_text

BAD_REQUEST, FORBIDDEN, UNAVAILABLE = 400, 403, 503

TOO_OLD = (
    "This page was opened in an earlier session, so nothing was changed. Reload it and try again."
)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    why = str(exception) or "Your role does not allow this."
    if "HX-Request" in request.headers:
        return respond_text(why, FORBIDDEN)
    return render(request, "403.html", {"why": why}, status=FORBIDDEN)


def disk_full(request: HttpRequest, exception: Exception) -> HttpResponse | None:
    """None for what does not come of a full disk."""
    why = data_disk.describe_full_disk(exception)
    if not why:
        return None
    if "HX-Request" in request.headers:
        return respond_text(why, UNAVAILABLE)
    return render(request, "503.html", {"why": why}, status=UNAVAILABLE)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    if "HX-Request" in request.headers:
        return respond_text(TOO_OLD, FORBIDDEN)
    context = {"reason": reason, "was_foreign": reason.startswith("Origin checking failed")}
    return render(request, "403_csrf.html", context, status=FORBIDDEN)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    # Not get_host(), which is what has just refused it.
    host = request.META.get("HTTP_HOST", "") if isinstance(exception, DisallowedHost) else ""
    # Our own sentence; Django's for a request that it does not understand are for no person.
    why = str(exception) if type(exception) is BadRequest else ""
    scheme = "https" if settings.SERVES_TLS else "http"
    context = {
        "host": host,
        "name": host.rsplit(":", 1)[0],
        "here": f"{scheme}://127.0.0.1:{settings.PORT}",
        "why": why,
    }
    return render(request, "400.html", context, status=BAD_REQUEST)
