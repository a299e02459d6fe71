"""Responses that views of several rooms give: done, refused, a file, a question in the dialog."""

from collections.abc import AsyncIterable
from typing import Any

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render

_DONE = 204
_CONFLICT = 409


def respond_done() -> HttpResponse:
    """To a button after which the page changes by itself, or not at all."""
    return HttpResponse(status=_DONE)


def respond_text(sentence: str, status: int = _CONFLICT) -> HttpResponse:
    """What htmx shows as it is."""
    return HttpResponse(sentence, status=status, content_type="text/plain; charset=utf-8")


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
