"""Requests to inferdash's API, and what can go wrong with them."""

from __future__ import annotations

import json
import ssl
import sys
from collections.abc import Callable, Collection
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, ProxyHandler, Request, build_opener

from inferdash.terminal import show

TIMEOUT = 60.0  # seconds; an answer may be held back for half of that
FAILED, USAGE, MISSING, FORBIDDEN, UNREACHABLE = 1, 2, 3, 4, 5
INTERRUPTED = 130
WAIT = 20  # seconds that an answer may be held back
# Seconds that an answer of an engine may be silent: a long prompt, or a start before it.
PATIENCE = 900.0
_CODES = {400: USAGE, 401: FORBIDDEN, 403: FORBIDDEN, 404: MISSING, 413: USAGE, 422: USAGE}


class TerminalError(Exception):
    """What did not work, with what to do, and the exit code that says which kind it is."""

    def __init__(self, message: str, advice: str = "", *, code: int, **details: Any) -> None:
        super().__init__(message)
        self.advice = advice
        self.code = code
        self.details = details


class _NoRedirects(HTTPRedirectHandler):
    """A key goes where its person has said, and nowhere else."""

    def redirect_request(self, *_args: Any) -> None:
        return None


def _context(authority: str) -> ssl.SSLContext:
    made = ssl.create_default_context()  # SSL_CERT_FILE names others than the machine's
    if authority:
        try:
            made.load_verify_locations(cadata=authority)
        except ssl.SSLError as error:
            raise TerminalError(
                f"The authority that is to be trusted is no certificate in PEM: {error}.",
                "Download ca.crt from inferdash’s Settings again.",
                code=USAGE,
            ) from error
    return made


class Api:
    def __init__(self, url: str, key: str, authority: str = "") -> None:
        """`authority`: certificates in PEM that are trusted beside the machine's own.

        Raises Problem for an address, or certificates, that are none.
        """
        parts = urlsplit(url if "//" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise TerminalError(
                f"“{url}” is not the address of an inferdash.",
                "Write it as in the browser: http://rtx8:8470",
                code=USAGE,
            )
        self.url = f"{parts.scheme}://{parts.netloc}"
        self._key = key
        # Whether all that it answers is for somebody who looks at a terminal.
        self.is_shown = sys.stdout.isatty()
        # Boxes are on the team's own network: a proxy for the internet does not reach them.
        handlers = (_NoRedirects(), ProxyHandler({}), HTTPSHandler(context=_context(authority)))
        self._open = build_opener(*handlers).open

    def get(self, *path: str, **query: Any) -> Any:
        asked = {name: value for name, value in query.items() if value is not None}
        return self._json(self._request("GET", path, query=asked))

    def text(self, *path: str) -> str:
        said = self._request("GET", path).decode()
        return show.readable(said) if self.is_shown else said

    def post(self, *path: str, **body: Any) -> Any:
        return self._json(self._request("POST", path, body=body))

    def put(self, *path: str, **body: Any) -> Any:
        return self._json(self._request("PUT", path, body=body))

    def delete(self, *path: str, **query: Any) -> Any:
        return self._json(self._request("DELETE", path, query=query))

    def follow(
        self,
        said: dict[str, Any],
        *path: str,
        over: Collection[str],
        line: Callable[[dict[str, Any]], str],
    ) -> dict[str, Any]:
        """What it says once its state is one of `over`; until then a bar with the line."""
        while said["state"] not in over:
            show.bar(line(said))
            said = self.get(*path, seen=said["mark"], wait=WAIT)
        show.bar("")
        return said

    def chat(self, body: dict[str, Any]) -> HTTPResponse:
        """The gateway's answer while it comes; to close it ends it at the engine, too."""
        return self._begin("POST", f"{self.url}/v1/chat/completions", body, PATIENCE)

    def whole_chat(self, body: dict[str, Any]) -> Any:
        return self._json(self._whole(self.chat(body)))

    def _request(
        self,
        method: str,
        path: tuple[str, ...],
        *,
        query: dict[str, Any] | None = None,
        body: dict[str, Any] | None = None,
    ) -> bytes:
        address = f"{self.url}/api/v1/{'/'.join(quote(each, safe='') for each in path)}"
        if query:
            address += f"?{urlencode(query, doseq=True)}"
        return self._whole(self._begin(method, address, body, TIMEOUT))

    def _begin(
        self, method: str, address: str, body: dict[str, Any] | None, patience: float
    ) -> HTTPResponse:
        request = Request(  # noqa: S310 - http and https alone, see __init__
            address,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"},
        )
        try:
            answer: HTTPResponse = self._open(request, timeout=patience)
        except HTTPError as error:
            raise self._problem(error) from error
        except (URLError, HTTPException, OSError) as error:
            raise self._away(error) from error
        return answer

    def _whole(self, answer: HTTPResponse) -> bytes:
        try:
            with answer:
                return answer.read()
        except (HTTPException, OSError) as error:
            raise self._away(error) from error

    def _json(self, said: bytes) -> Any:
        try:
            found = json.loads(said) if said else None
        except ValueError as error:
            raise TerminalError(
                f"{self.url} answers with something that is no JSON: {said[:60]!r}.",
                "Check the address, and what stands between here and there.",
                code=UNREACHABLE,
            ) from error
        return show.readable_all(found) if self.is_shown else found

    def _away(self, error: Exception) -> TerminalError:
        why = getattr(error, "reason", None)
        if isinstance(why, ssl.SSLCertVerificationError):
            return TerminalError(
                f"{self.url} is not trusted: {why.verify_message}.",
                "Where its certificate is its machine’s own: download ca.crt there, compare its "
                f"fingerprint, then: inferdash login --ca ca.crt {self.url}",
                code=UNREACHABLE,
            )
        if isinstance(why, ssl.SSLError) and "WRONG_VERSION_NUMBER" in str(why):
            return TerminalError(
                f"{self.url} speaks no TLS.",
                f"Log in again by {self.url.replace('https:', 'http:', 1)}",
                code=UNREACHABLE,
            )
        return TerminalError(
            f"{self.url} cannot be reached: {getattr(error, 'reason', None) or error}.",
            "Is inferdash running there, and does this machine reach it?",
            code=UNREACHABLE,
        )

    def _problem(self, error: HTTPError) -> TerminalError:
        code = _CODES.get(error.code, FAILED)
        try:
            said = json.loads(error.read())
        except (ValueError, OSError, HTTPException):
            said = None
        if (sentence := sentence_of(said)) is None:
            return TerminalError(
                f"{self.url} answers with {error.code} {error.reason}, which is not inferdash’s way.",
                "Check the address, and what stands between here and there.",
                code=code if code != FAILED else UNREACHABLE,
            )
        fault = said.get("error")
        known = fault if isinstance(fault, dict) else {}
        details = known.get("details")
        return TerminalError(
            sentence,
            str(known.get("advice") or ""),
            code=code,
            **(details if isinstance(details, dict) else {}),
        )


def sentence_of(said: Any) -> str | None:
    """What an error says, in inferdash's shape or in one of the engines'; None: it is none."""
    if not isinstance(said, dict):
        return None
    fault = said.get("error")
    if isinstance(fault, dict):
        fault = fault.get("message")
    for found in (fault, said.get("message"), said.get("detail")):
        if found and isinstance(found, str):
            return found
    return None
