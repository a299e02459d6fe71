"""Documents and bodies that say much with little: counted first, read beside everybody's requests."""

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.test import AsyncClient

from inferdash import middleware
from inferdash.asgi import application
from servers.launch.commandline import paste as command_text
from servers.launch.recipes import document
from servers.launch.recipes.notation import LONGEST_TEXT
from servers.models import Key, Profile, Role
from servers.views.api import operations
from servers.views.profiles import paste
from tests import factories
from tests.api.conftest import with_key
from tests.api.rows import DOCUMENT
from tests.cases import Cases
from tests.waiting import PATIENCE, wait_until_async

JSON = "application/json"
MIB = 1 << 20
LAUGHS = "".join(
    f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9 if n else ['lol'] * 9)}]\n" for n in range(20)
)
# A document, and the words of its refusal.
DOCUMENTS = {
    "a billion laughs": (LAUGHS, "more than 100 aliases"),
    "few laughs": (LAUGHS[: LAUGHS.index("l9:")], "There is no such key"),
    "laughs where texts stand": (
        f"{DOCUMENT}tags: &t [a]\nnotes: *t\n", "Write a text here"
    ),
    "an alias to itself": ("a: &a [*a]\n", "There is no such key"),
    "a key that is an alias to itself": ("? &a [*a]\n: x\n", "A key must be a text"),
    "brackets": ("[" * 50_000, "more than 30 levels deep"),
    "braces": ("a: " + "{a: " * 20_000, "more than 30 levels deep"),
    "lists in lists": ("- " * 40_000, "more than 30 levels deep"),
    "many values": (f"{DOCUMENT}tags: [{'a, ' * 20_000}]", "more than 5,000 values"),
    "JSON, deeply nested": ('{"a":' * 10_000 + "1" + "}" * 10_000, "more than 30 levels deep"),
    "one long text": ("name: " + "a" * 99_000, "is missing"),
    "too long": ("a" * 100_001, "longer than 100000 characters"),
    "a tag that makes objects": ("!!python/object/apply:os.system ['true']", "key: value"),
}  # fmt: skip
# A body, its status, and the words of its refusal.
BODIES: dict[str, tuple[Callable[[], bytes], int, str]] = {
    "brackets": (lambda: b"[" * 100_000, 400, "more than 20 deep"),
    "brackets that are closed": (lambda: b"[" * 9000 + b"]" * 9000, 400, "more than 20 deep"),
    "objects": (lambda: b'{"document":' * 900 + b"1" + b"}" * 900, 400, "more than 20 deep"),
    "wrong halves": (lambda: b'{"document": [}]', 400, "not closed"),
    "no JSON": (lambda: b"document: x", 400, "is not JSON"),
    "no text": (lambda: b"\xff\xfe\x00", 400, "is not JSON"),
    "a number of 5,000 digits": (lambda: b'{"document": ' + b"9" * 5000 + b"}", 400, "is not JSON"),
    "a list": (lambda: b"[" + b"[]," * 1000 + b"[]]", 422, "given"),
    "nothing": (lambda: b"", 422, "given"),
    "1 MiB": (lambda: json.dumps({"document": "a" * MIB}).encode(), 413, "longer than 512 KiB"),
    "3 MiB": (lambda: json.dumps({"document": "a" * 3 * MIB}).encode(), 413, "longer than 512 KiB"),
}  # fmt: skip


@pytest.mark.django_db
@pytest.mark.usefixtures("own_redis")
def test_every_document_is_refused_with_a_sentence() -> None:
    server = factories.server(factories.box())
    editor = with_key(factories.person("eva", Role.EDITOR))
    with Cases() as cases:
        for name, (text, words) in DOCUMENTS.items():
            for method, path in (("POST", "profiles"), ("PUT", f"profiles/{server.slug}")):
                with cases.named(f"{method} {name}"):
                    body = json.dumps({"document": text})
                    answer = editor.generic(method, f"/api/v1/{path}", body, content_type=JSON)
                    assert answer.status_code == 422
                    assert words in answer.json()["error"]["message"]
    assert Profile.objects.count() == 1
    assert server.profile.versions.count() == 1


@pytest.mark.django_db
@pytest.mark.usefixtures("own_redis")
def test_every_body_is_refused_with_a_sentence() -> None:
    editor = with_key(factories.person("eva", Role.EDITOR))
    with Cases() as cases:
        for name, (made, status, words) in BODIES.items():
            for path in ("profiles", "downloads", "image-jobs"):
                with cases.named(f"{path}: {name}"):
                    answer = editor.generic("POST", f"/api/v1/{path}", made(), content_type=JSON)
                    assert answer.status_code == status, answer.content
                    assert (words if status != 422 else "") in answer.json()["error"]["message"]
    assert not Profile.objects.exists()


def test_what_people_have_is_within_the_bounds() -> None:
    text = json.dumps({"document": "“ü”" * (LONGEST_TEXT // 3)}, ensure_ascii=False)
    assert len(text.encode()) < operations.LONGEST
    assert document.read(DOCUMENT, where="The document").name == "Coder"


@pytest.mark.asyncio
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("own_redis")
async def test_a_body_of_10_mib_is_not_taken_in() -> None:
    """By all of inferdash, as a server has it before it."""
    asked = httpx.AsyncClient(
        transport=httpx.ASGITransport(app=application),  # type: ignore[arg-type]
        base_url="http://localhost",
    )
    answer = await asked.post("/api/v1/profiles", content=b"[" * (10 * MIB))
    assert (answer.status_code, answer.content) == (413, middleware.SENTENCE)


@pytest.mark.asyncio
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("own_redis")
@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_others_are_answered_while_a_document_is_read(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it takes: here until the others have been answered."""
    token, slug = await sync_to_async(editors_key)()
    headers = {"authorization": f"Bearer {token}"}
    begins, may_end = threading.Event(), threading.Event()
    read = document.read

    def slow(text: str, **more: Any) -> document.Document:
        begins.set()
        assert may_end.wait(PATIENCE)
        return read(text, **more)

    monkeypatch.setattr(document, "read", slow)
    path = "/api/v1/profiles" if method == "POST" else f"/api/v1/profiles/{slug}"
    body = json.dumps({"document": DOCUMENT})
    asked: Any = AsyncClient().generic(method, path, body, content_type=JSON, headers=headers)
    slowly: asyncio.Future[Any] = asyncio.ensure_future(asked)
    try:
        await wait_until_async(lambda: begins.is_set() or slowly.done(), "it is read")
        async with asyncio.timeout(PATIENCE):
            other = await AsyncClient().get("/api/v1/servers", headers=headers)
            page = await AsyncClient().get("/login/")
        assert (other.status_code, page.status_code) == (200, 200)
        assert not slowly.done()
    finally:
        may_end.set()
    assert (await slowly).status_code == (201 if method == "POST" else 200)


@pytest.mark.asyncio
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("own_redis")
async def test_others_are_answered_while_a_paste_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    begins, may_end = threading.Event(), threading.Event()
    read = command_text.read

    def slow(text: str) -> Any:
        begins.set()
        assert may_end.wait(PATIENCE)
        return read(text)

    monkeypatch.setattr(paste, "read", slow)
    client = AsyncClient()
    eva = await sync_to_async(factories.person)("eva", Role.EDITOR)
    await client.aforce_login(eva)
    asked: Any = client.post("/profiles/paste/", {"text": "vllm serve a/b"})
    slowly: asyncio.Future[Any] = asyncio.ensure_future(asked)
    try:
        await wait_until_async(lambda: begins.is_set() or slowly.done(), "it is read")
        async with asyncio.timeout(PATIENCE):
            page = await AsyncClient().get("/login/")
        assert page.status_code == 200
        assert not slowly.done()
    finally:
        may_end.set()
    assert (await slowly).status_code == 200


def editors_key() -> tuple[str, str]:
    eva = factories.person("eva", Role.EDITOR)
    server = factories.server(factories.box())
    return Key.make(eva, "laptop", Role.EDITOR, expires_at=None)[1], server.slug
