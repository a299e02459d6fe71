"""Responses that views of several rooms give: done, refused, a file, a table, a question, an error page."""

import csv
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Sequence
from typing import Any

from django.conf import settings
from django.core.exceptions import BadRequest, DisallowedHost
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponsePermanentRedirect,
    StreamingHttpResponse,
)
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from servers.models import Permission
from servers.state import samples
from servers.views.access import PersonRequest, allow

_OK = 200
_DONE = 204
_CONFLICT = 409


def respond_done() -> HttpResponse:
    """To a button after which the page changes by itself, or not at all."""
    return HttpResponse(status=_DONE)


def respond_text(sentence: str, status: int = _CONFLICT) -> HttpResponse:
    """What htmx shows as it is."""
    return HttpResponse(sentence, status=status, content_type="text/plain; charset=utf-8")


def respond_told(sentence: str) -> HttpResponse:
    """What was done, which the page shows in a toast."""
    return respond_text(sentence, _OK)


def respond_requested(is_new: bool) -> HttpResponse:
    if is_new:
        return respond_done()
    return respond_text("The same was requested a moment ago: it is on its way.")


def send_file(
    name: str, content: AsyncIterable[str] | AsyncIterable[bytes], content_type: str
) -> StreamingHttpResponse:
    return StreamingHttpResponse(
        content,
        content_type=content_type,
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def send_text(name: str, text: str, content_type: str = "text/plain") -> HttpResponse:
    return HttpResponse(
        text,
        content_type=f"{content_type}; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def render_question(
    request: HttpRequest, title: str, part: str, context: dict[str, Any]
) -> HttpResponse:
    """A question: in the page's dialog for a link that htmx follows, else on a page of its own."""
    is_dialog = "HX-Request" in request.headers
    template = part if is_dialog else "components/question.html"
    return render(
        request, template, {**context, "title": title, "part": part, "is_dialog": is_dialog}
    )


def ask_in_dialog(request: HttpRequest, template: str, context: dict[str, Any]) -> HttpResponse:
    """A question in the page's dialog, as the answer to a button that wants none."""
    answer = render(request, template, context)
    answer["HX-Retarget"] = "#dialog"
    answer["HX-Reswap"] = "innerHTML"
    return answer


def render_form(request: HttpRequest, template: str, context: dict[str, Any]) -> HttpResponse:
    """A form in the page's dialog for a button that htmx sends, else as a page of its own.

    Its template extends `frame`.
    """
    is_dialog = "HX-Request" in request.headers
    frame = "people/settings/dialog.html" if is_dialog else "people/settings/frame.html"
    return render(request, template, {**context, "frame": frame, "is_dialog": is_dialog})


def redirect_old(name: str) -> Callable[..., HttpResponse]:
    """A view of an address that bookmarks and messages may still have, for the one of today."""

    @require_GET
    @allow(Permission.ACCOUNT)
    def lead_on(_request: PersonRequest, **known: str | int) -> HttpResponse:
        return HttpResponsePermanentRedirect(reverse(name, kwargs=known))

    return lead_on


# Full-width signs count too: some spreadsheets read them as the narrow ones.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001


def send_table(
    name: str, head: Sequence[str], rows: AsyncIterable[Sequence[object]]
) -> StreamingHttpResponse:
    return send_csv(name, _format_table(head, rows))


def send_csv(name: str, lines: AsyncIterable[str]) -> StreamingHttpResponse:
    """A file of lines that `line` has made."""
    return send_file(name, lines, "text/csv; charset=utf-8")


class _Echo:
    def write(self, text: str) -> str:
        return text


_writer = csv.writer(_Echo())


def format_csv_line(cells: Iterable[object]) -> str:
    """As they are: what people have named is to be made inert before."""
    return str(_writer.writerow(cells))


async def _format_table(
    head: Sequence[str], rows: AsyncIterable[Sequence[object]]
) -> AsyncIterator[str]:
    yield format_csv_line(head)
    async for row in rows:
        yield format_csv_line(_inert(str(cell)) for cell in row)


def _inert(cell: str) -> str:
    """A spreadsheet runs a cell that begins like a formula."""
    return f"'{cell}" if cell.startswith(_FORMULA) or cell.lstrip().startswith(_FORMULA) else cell


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
    why = samples.describe_full_disk(exception)
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
