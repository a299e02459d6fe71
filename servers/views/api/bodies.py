"""Bounds on JSON bodies: length and depth, checked before parsing."""

import json
import re
from typing import Any, cast

from django.http import HttpRequest
from ninja.parser import Parser

LONGEST = 512 * 1024  # bytes; a profile's document has 100,000 characters at most
DEEPEST = 20
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_NO_BRACKETS = bytes(each for each in range(256) if each not in b"[]{}")


class BodyError(ValueError):
    """Why a body is not read, as a sentence."""

    def __init__(self, problem: str, *, is_too_long: bool = False) -> None:
        super().__init__(problem)
        self.is_too_long = is_too_long


class BoundedParser(Parser):
    def parse_body(self, request: HttpRequest) -> dict[str, Any]:
        """Raises BodyError."""
        body = request.body
        if len(body) > LONGEST:
            raise BodyError(f"The body is longer than {LONGEST >> 10} KiB.", is_too_long=True)
        if not _is_flat(body):
            raise BodyError(
                f"The body has brackets inside brackets, more than {DEEPEST} deep, or some that "
                "are not closed."
            )
        try:
            return cast("dict[str, Any]", json.loads(body))
        except ValueError as error:
            raise BodyError(f"The body is not JSON: {error}.") from error


def _is_flat(body: bytes) -> bool:
    """Whether every bracket finds its other half within DEEPEST steps outwards."""
    brackets = _TEXT.sub(b"", body).translate(None, _NO_BRACKETS)
    for _step in range(DEEPEST):
        if not brackets:
            return True
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    return not brackets
