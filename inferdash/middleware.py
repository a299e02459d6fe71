"""Middleware of requests and sockets, and a bound on what anybody may send."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.request import split_domain_port, validate_host
from django.http.response import HttpResponseRedirectBase
from django.utils.decorators import sync_and_async_middleware
from django.utils.deprecation import MiddlewareMixin
from django_htmx.http import HttpResponseClientRedirect

type Message = dict[str, Any]
type Receive = Callable[[], Awaitable[Mapping[str, Any]]]
type Send = Callable[[Mapping[str, Any]], Awaitable[None]]
type Application = Callable[[Message, Receive, Send], Awaitable[None]]
type GetResponse = Callable[[HttpRequest], Any]

# Above DATA_UPLOAD_MAX_MEMORY_SIZE, whose sentence is the better one. The only files are results.
MOST = 8 * 1024 * 1024
SENTENCE = b"This is more than inferdash takes in one request: 8 MiB."


class LimitedBodies:
    """Answers 413 to a body that is too large, and reads no more of it."""

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if _read_length(scope) > MOST:
            await _refuse(send)
            return
        size = 0
        is_over = False

        async def bounded_receive() -> Mapping[str, Any]:
            nonlocal size, is_over
            if is_over:
                return {"type": "http.disconnect"}
            message = await receive()
            size += len(message.get("body", b""))
            if size > MOST:
                is_over = True
                await _refuse(send)
                return {"type": "http.disconnect"}
            return message

        async def send_unless_over(message: Mapping[str, Any]) -> None:
            if not is_over:
                await send(message)

        await self.application(scope, bounded_receive, send_unless_over)


def _read_length(scope: Message) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value[:20])
    return 0


async def _refuse(send: Send) -> None:
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(SENTENCE)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": SENTENCE})


__all__ = [
    "FullDisk",
    "LoggedInSockets",
    "LoginRequired",
    "SameOriginSockets",
    "htmx_redirects",
    "no_nul",
    "not_stored",
    "unknown_socket",
]

UNAUTHENTICATED, NOT_FOUND = 4401, 4404


@sync_and_async_middleware
def not_stored(get_response: GetResponse) -> GetResponse:
    """Pages are about one person and this moment: no cache keeps them, unless one says so.

    Else the Back button shows them to whoever sits down after a logout.
    """

    def mark(_request: HttpRequest, response: HttpResponse) -> HttpResponse:
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    return _in_both_worlds(get_response, after=mark)


@sync_and_async_middleware
def no_nul(get_response: GetResponse) -> GetResponse:
    """Refuse addresses with NUL in them, as forms do: PostgreSQL cannot even look for it."""

    def check(request: HttpRequest) -> None:
        if "%00" in request.META.get("QUERY_STRING", "") or "\0" in request.path:
            raise BadRequest("NUL in the address")

    return _in_both_worlds(get_response, before=check)


class LoginRequired(LoginRequiredMiddleware):
    """Sends people back, once they are logged in, to the page that they were on.

    Django's own sends them to the address that was asked for: after a button that would be
    one that only takes POST, or a piece of a page.
    """

    def handle_no_permission(
        self, request: HttpRequest, view_func: Callable[..., Any]
    ) -> HttpResponseRedirect:
        if request.method in ("GET", "HEAD") and "HX-Request" not in request.headers:
            return super().handle_no_permission(request, view_func)
        page = request.headers.get("HX-Current-URL") or request.headers.get("Referer", "")
        parts = urlsplit(page)
        is_ours = (parts.scheme, parts.netloc) == (request.scheme, request.get_host())
        return redirect_to_login(f"{parts.path}?{parts.query}".rstrip("?") if is_ours else "/")


@sync_and_async_middleware
def htmx_redirects(get_response: GetResponse) -> GetResponse:
    """Send an htmx request's redirect to the whole page, not into its target.

    fetch() follows a 302 by itself, so a login page would land inside a card.
    """

    def redirect_htmx(request: HttpRequest, response: HttpResponse) -> HttpResponse:
        if "HX-Request" in request.headers and isinstance(response, HttpResponseRedirectBase):
            return HttpResponseClientRedirect(response.url)
        return response

    return _in_both_worlds(get_response, after=redirect_htmx)


def _in_both_worlds(
    get_response: GetResponse,
    *,
    before: Callable[[HttpRequest], None] = lambda _request: None,
    after: Callable[[HttpRequest, HttpResponse], HttpResponse] = lambda _request, response: (
        response
    ),
) -> GetResponse:
    """The middleware, for threads or for the event loop, as what it wraps is for."""
    if iscoroutinefunction(get_response):

        async def async_middleware(request: HttpRequest) -> HttpResponse:
            before(request)
            return after(request, await get_response(request))

        return async_middleware

    def middleware(request: HttpRequest) -> HttpResponse:
        before(request)
        return after(request, get_response(request))

    return middleware


class FullDisk(MiddlewareMixin):
    """What cannot be written because the disk is full is told in a sentence, not as a fault."""

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        from servers.views.responses import (
            disk_full,  # models are not there yet when this is imported
        )

        return disk_full(request, exception)


class LoggedInSockets:
    """Refuses every WebSocket of nobody, so that a consumer that forgets to ask lets no one in.

    It is accepted first: a browser takes a refused handshake for a lost connection, and
    comes back for ever.
    """

    def __init__(self, application: Callable[..., Awaitable[None]]) -> None:
        self.application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["user"].is_authenticated:
            await self.application(scope, receive, send)
            return
        await _stay_away(receive, send, UNAUTHENTICATED)


async def unknown_socket(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """For every address that no consumer has."""
    await _stay_away(receive, send, NOT_FOUND)


async def _stay_away(receive: Any, send: Any, code: int) -> None:
    await receive()  # the browser's wish to connect
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.close", "code": code})


class SameOriginSockets:
    """Refuses a WebSocket whose Origin is not the scheme and host that it was opened on.

    Browsers send cookies along with sockets that other sites open, and no CSRF token
    protects a handshake: the Origin is the only thing that tells them apart.
    """

    def __init__(self, application: Callable[..., Awaitable[None]]) -> None:
        self.application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if _is_same_origin(scope):
            await self.application(scope, receive, send)
            return
        await send({"type": "websocket.close", "code": 4403})


def _is_same_origin(scope: dict[str, Any]) -> bool:
    headers = {name.lower(): value.decode("latin1") for name, value in scope.get("headers", [])}
    host = headers.get(b"host", "")
    domain, _port = split_domain_port(host)
    if not domain or not validate_host(domain, settings.ALLOWED_HOSTS):
        return False
    scheme = "https" if scope.get("scheme") == "wss" else "http"
    proto_header = settings.SECURE_PROXY_SSL_HEADER
    if proto_header is not None:
        name = proto_header[0].removeprefix("HTTP_").replace("_", "-").lower().encode()
        if headers.get(name) == proto_header[1]:
            scheme = "https"
    origin = urlsplit(headers.get(b"origin", ""))
    return (origin.scheme, origin.netloc) == (scheme, host)
