"""What a box says of itself when it asks to join, and what is not taken."""

import json
from typing import Any

import pytest

from servers.host.links.keys import make_key, write_public_line
from servers.lifecycle.links.enrolment import BoxIntroduction, EnrolmentError
from tests.cases import table

KEY = write_public_line(make_key(bytes(32)))
SAID: dict[str, Any] = {
    "name": "milo", "public_key": KEY, "seal_key": "s" * 44, "hostname": "milo.lan",
    "machine_id": "m", "version": "1.2.3", "schema": "0077_links", "time": 1_790_000_000.0,
}  # fmt: skip


def test_a_box_is_understood() -> None:
    found = BoxIntroduction.parse(json.dumps(SAID | {"public_key": f"{KEY} root@milo"}))

    assert (found.name, found.public_key, found.time) == ("milo", KEY, SAID["time"])


@table(
    ("values", "says"),
    [
        ({"name": "Milo"}, "small letters"),
        ({"name": "mílo"}, "small letters"),
        ({"name": "-milo"}, "small letters"),
        ({"name": "m" * 64}, "small letters"),
        ({"name": "milo\n"}, "small letters"),
        ({"public_key": "ssh-rsa AAAA"}, "no Ed25519 key"),
        ({"public_key": "ssh-ed25519 AAAA"}, "no Ed25519 key"),
        ({"public_key": f"{KEY[:-4]}\ncommand=x"}, "no Ed25519 key"),
        ({"seal_key": "short"}, "seal key"),
        ({"time": "noon"}, "does not understand"),
    ],
)
def test_what_is_not_taken(values: dict[str, Any], says: str) -> None:
    with pytest.raises(EnrolmentError, match=says):
        BoxIntroduction.parse(json.dumps(SAID | values))


def test_no_object_is_not_taken() -> None:
    for text in ("", "[]", "no JSON"):
        with pytest.raises(EnrolmentError, match="does not understand"):
            BoxIntroduction.parse(text)
