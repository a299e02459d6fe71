"""Has a scripted engine die, as one does that meets a fault of its own."""

from contextlib import suppress
from http.client import HTTPException
from urllib.request import urlopen

from tests.waiting import PATIENCE


def let_die(address: str, port: int) -> None:
    """It ends with exit code 3, before it has answered."""
    with suppress(OSError, HTTPException):
        urlopen(f"http://{address}:{port}/die", timeout=PATIENCE)  # noqa: S310
