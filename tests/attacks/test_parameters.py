"""Every parameter that any view reads, with nonsense in it, at every address: none breaks."""

import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from django.core.handlers.wsgi import WSGIRequest
from django.db import transaction
from django.test import Client
from django.urls import reverse

from servers.models import Role, User
from tests.access_rows import ROWS, AccessRow, Things, made
from tests.cases import Cases
from tests.terminal import ROOT

_READ = re.compile(r"""\b(GET|POST|post)(?:\.get(?:list)?\(|\[)"([^"]+)\"""")
_FIELD = re.compile(r"^    (\w+) = forms\.", re.MULTILINE)
FORM = "application/x-www-form-urlencoded"
STRANGE = ("9" * 5000, "²", "-1", "nan", "\0\ud83d", "['\"><b>")


def parameters() -> dict[str, set[str]]:
    """Those that views and forms read, by the method that brings them."""
    found: dict[str, set[str]] = {"get": set(), "post": set()}
    for folder in ("views", "forms"):
        for module in (ROOT / "servers" / folder).rglob("*.py"):
            text = module.read_text()
            for method, name in _READ.findall(text):
                found[method.lower()].add(name)
            found["post"] |= {*_FIELD.findall(text)}
    return found


def requests(things: Things) -> Iterator[tuple[str, AccessRow, str, dict[str, str]]]:
    names = {method: sorted(found) for method, found in parameters().items()}
    for strange in STRANGE:
        for row in ROWS:
            address = reverse(row.name, args=[things[key] for key in row.args])
            # With nothing but nonsense, and with the data that it needs.
            kept = dict.fromkeys(names[row.method], strange)
            yield f"{row.method} {row.name} {strange[:12]!r}", row, address, kept
            if row.data:
                yield (
                    f"{row.method} {row.name} {strange[:12]!r} besides",
                    row,
                    address,
                    kept | row.data,
                )


def test_parameters_are_found() -> None:
    found = parameters()

    assert {"days", "after", "q", "against"} <= found["get"]
    assert {"limit", "wait", "name", "role"} <= found["post"]


class Looks:
    """Whether the request at hand has been asked for its parameters, by whomever."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.has_looked = False
        for name in ("GET", "POST"):
            kept = vars(WSGIRequest)[name]
            read = kept.real_func if hasattr(kept, "real_func") else kept.fget
            write = None if name == "GET" else kept.fset
            patch.setattr(WSGIRequest, name, property(self._noting(read), write))

    def _noting(self, read: Callable[[WSGIRequest], Any]) -> Callable[[WSGIRequest], Any]:
        def look(request: WSGIRequest) -> Any:
            self.has_looked = True
            return read(request)

        return look


@pytest.mark.takes(90)
def test_no_parameter_breaks_a_view(
    db: None, own_redis: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody looks at a request's parameters, it is sent with one kind of nonsense."""
    things, looks = made(), Looks(monkeypatch)
    looking: dict[str, bool] = {}  # each view, by its first request
    client = Client(raise_request_exception=False)
    client.force_login(User.objects.create(username="mallory", role=Role.ADMIN))
    session = dict(client.cookies)

    with Cases() as cases:
        for named, row, address, data in requests(things):
            view = f"{row.method} {row.name}"
            if not looking.get(view, True):
                continue
            looks.has_looked = False
            with cases.named(named), transaction.atomic():
                text = urlencode(data, errors="surrogatepass")
                if row.method == "post":
                    status = client.post(address, text, content_type=FORM).status_code
                else:
                    status = client.get(f"{address}?{text}").status_code
                transaction.set_rollback(True)
                client.cookies.update(session)
                assert status < 500
            looking.setdefault(view, looks.has_looked)
    # Else something but the views looks, or what looks is not seen.
    assert not looking["get dashboard"]
    for view in ("get activity", "get models", "get usage", "post keys", "post person_role"):
        assert looking[view], view
