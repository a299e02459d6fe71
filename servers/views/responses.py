"""Responses that views of several rooms give: done, refused, a file, a question in the dialog."""

from collections.abc import AsyncIterable, Callable
from typing import Any

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
