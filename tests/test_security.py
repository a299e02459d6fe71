import asyncio
import html
import io
import json
import logging
import shlex
import sys
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings as configured
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse, StreamingHttpResponse
from django.test import Client, RequestFactory
from django.urls import path

from inferdash.asgi import application
from inferdash.middleware import not_stored
from inferdash.urls import handler400, handler403
from inferdash.urls import urlpatterns as real_urlpatterns
from servers.lifecycle import secrets
from servers.models import Role, Run, Secret, User
from servers.models.secret import MASK, SecretError, _fernet, mask
from servers.views.access import allow
from servers.watcher.loglines import secrets_pattern
from servers.watcher.runs import Runs
from tests import factories
from tests.websocket import Socket, session_of


@allow(Role.VIEWER)
def broken(request: Any) -> HttpResponse:
    raise RuntimeError("hf_a_secret_in_a_traceback")


# ROOT_URLCONF of the tests that need a view which fails.
urlpatterns = [*real_urlpatterns, path("broken/", broken)]
assert handler400
assert handler403


@pytest.fixture
def client(db: None, own_redis: object) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(User.objects.create(username="ada", role=Role.ADMIN))
    return client


def viewer() -> Client:
    client = Client()
    client.force_login(User.objects.create(username="vera", role=Role.VIEWER))
    return client


# Headers


@pytest.mark.urls("tests.test_security")
@pytest.mark.parametrize(
    ("address", "status"),
    [("/", 200), ("/login/", 302), ("/nothing/", 404), ("/broken/", 500), ("/join/x/", 410)],
)
def test_every_answer_carries_the_headers(address: str, status: int, client: Client) -> None:
    response = client.get(address)

    assert response.status_code == status
    policy = dict(part.strip().split(" ", 1) for part in _policy(response).split(";"))
    assert policy == {
        "default-src": "'self'",
        "form-action": "'self'",
        "base-uri": "'none'",
        "object-src": "'none'",
        "frame-ancestors": "'none'",
        "img-src": "'self' data:",
    }
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Referrer-Policy"] == "same-origin"
    assert response.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert "no-store" in response.headers["Cache-Control"]


def test_a_refused_host_and_a_refused_form_carry_the_policy_too(client: Client) -> None:
    strict = Client(enforce_csrf_checks=True)

    for response in (client.get("/", headers={"host": "evil.example"}), strict.post("/login/")):
        assert "default-src 'self'" in _policy(response)
        assert "no-store" in response.headers["Cache-Control"]


def test_a_view_may_say_itself_how_long_an_answer_keeps() -> None:
    def view(request: Any) -> HttpResponse:
        return HttpResponse(headers={"Cache-Control": "private, max-age=60"})

    response = not_stored(view)(RequestFactory().get("/"))

    assert response.headers["Cache-Control"] == "private, max-age=60"


@pytest.mark.urls("tests.test_security")
def test_a_fault_shows_no_traceback(client: Client) -> None:
    page = client.get("/broken/").content.decode()

    assert "A fault in inferdash" in page
    assert "RuntimeError" not in page
    assert "hf_a_secret" not in page


def _policy(response: Any) -> str:
    return str(response.headers["Content-Security-Policy"])


# What a refusal says


def test_a_403_says_which_role_is_missing_and_who_gives_it(client: Client) -> None:
    page = viewer().get("/profiles/new/")

    assert page.status_code == 403
    assert b"This needs the role editor; you are viewer." in page.content
    assert b"An admin can change that under Settings." in page.content


def test_a_button_gets_its_refusal_as_a_sentence(client: Client) -> None:
    response = viewer().post("/servers/any/start/", headers={"HX-Request": "true"})

    assert response.status_code == 403
    assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert response.content.decode().startswith("This needs the role operator; you are viewer.")


def test_a_403_without_words_still_says_something() -> None:
    from servers.views.errors import forbidden

    response = forbidden(
        RequestFactory().get("/", headers={"HX-Request": "true"}), PermissionDenied()
    )

    assert response.content == b"Your role does not allow this."


def test_a_form_of_an_earlier_session_says_what_to_do(client: Client) -> None:
    strict = Client(enforce_csrf_checks=True)

    page, sentence = strict.post("/login/"), strict.post("/login/", headers={"HX-Request": "true"})

    assert page.status_code == sentence.status_code == 403
    assert b"This page is too old" in page.content
    assert sentence.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert b"Reload it" in sentence.content


def test_a_form_of_another_site_says_what_a_proxy_must_pass_on(client: Client) -> None:
    strict = Client(enforce_csrf_checks=True)

    response = strict.post("/login/", headers={"origin": "https://testserver"})

    assert response.status_code == 403
    assert b"X-Forwarded-Proto" in response.content


def test_an_unknown_host_name_says_what_to_set(client: Client) -> None:
    response = client.get("/", headers={"host": "rtx8.lan:8470"})

    assert response.status_code == 400
    assert b"INFERDASH_ALLOWED_HOSTS=rtx8.lan<" in response.content


def test_a_hostile_host_name_is_text(client: Client) -> None:
    response = client.get("/", headers={"host": "<script>alert(1)</script>"})

    assert response.status_code == 400
    assert b"<script>alert" not in response.content


# Nobody


def test_a_button_whose_session_is_over_leads_back_to_its_page(db: None) -> None:
    response = Client().post(
        "/servers/qwen/start/",
        headers={"HX-Request": "true", "HX-Current-URL": "http://testserver/servers/qwen/?run=3"},
    )

    assert response.headers["HX-Redirect"] == f"/login/?next={quote('/servers/qwen/?run=3')}"


def test_a_form_whose_session_is_over_leads_back_to_its_page(db: None) -> None:
    response = Client().post(
        "/settings/secrets/add/", headers={"referer": "http://testserver/settings/"}
    )

    assert response.headers["Location"] == "/login/?next=/settings/"


@pytest.mark.parametrize(
    "referer", ["", "http://evil.example/x", "http://testserver:81/x", "//testserver/x"]
)
def test_it_leads_nowhere_else(referer: str, db: None) -> None:
    response = Client().post("/logout/", headers={"referer": referer})

    assert response.headers["Location"] == "/login/?next=/"


# Sockets: the Origin is the only thing that tells our page from another site's


@pytest.fixture
def session_key(transactional_db: None, own_redis: object) -> Any:
    person = User.objects.create(username="ada", role=Role.VIEWER)
    return lambda: session_of(person)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://evil.example", "localhost"),
        ("http://evil.example", "evil.example"),  # DNS rebinding
        ("https://localhost", "localhost"),
        ("http://localhost:8471", "localhost:8470"),
        ("http://localhost", "localhost:8470"),
        ("http://localhost.evil.example", "localhost"),
        ("http://localhost@evil.example", "localhost"),
        ("null", "localhost"),
        ("", "localhost"),
        ("file://", "localhost"),
        (None, "localhost"),
        ("http://", ""),
    ],
)
async def test_a_socket_of_another_origin_is_refused(
    origin: str | None, host: str, session_key: Any
) -> None:
    socket = Socket("/ws/live/", session=await session_key(), origin=origin, host=host)

    assert not await socket.open()


@pytest.mark.asyncio
@pytest.mark.parametrize("host", ["localhost", "localhost:8470", "127.0.0.1:8470", "[::1]:8470"])
async def test_a_socket_of_the_same_origin_is_accepted(host: str, session_key: Any) -> None:
    socket = Socket("/ws/live/", session=await session_key(), origin=f"http://{host}", host=host)

    assert await socket.open()
    assert (await socket.hear())["type"] == "websocket.send"
    await socket.leave()


@pytest.mark.asyncio
async def test_behind_tls_the_origin_is_https(session_key: Any, settings: Any) -> None:
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    key = await session_key()

    def socket(origin: str) -> Socket:
        return Socket("/ws/live/", session=key, origin=origin, x_forwarded_proto="https")

    assert not await socket("http://localhost").open()
    behind_tls = socket("https://localhost")
    assert await behind_tls.open()
    await behind_tls.leave()


@pytest.mark.asyncio
async def test_without_a_proxy_nobody_can_claim_tls(session_key: Any) -> None:
    socket = Socket(
        "/ws/live/",
        session=await session_key(),
        origin="https://localhost",
        x_forwarded_proto="https",
    )

    assert not await socket.open()


@pytest.mark.asyncio
async def test_nobody_learns_which_sockets_there_are(
    transactional_db: None, own_redis: object
) -> None:
    socket = Socket("/ws/nothing/")

    assert await socket.open()
    assert await socket.hear_close() == 4401


@pytest.mark.asyncio
async def test_a_socket_that_does_not_exist_is_told_to_stay_away(session_key: Any) -> None:
    socket = Socket("/ws/nothing/", session=await session_key())

    assert await socket.open()
    assert await socket.hear_close() == 4404


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "wish",
    ["[" * 100_000, '{"from": 1' + "0" * 5000, "7", '"tail"', '["tail"]', '{"tail": -1}', ""],
)
async def test_nonsense_closes_a_logs_socket_without_a_fault(
    wish: str, session_key: Any, caplog: pytest.LogCaptureFixture
) -> None:
    run = await sync_to_async(lambda: factories.run(factories.server(factories.box())))()
    socket = Socket(f"/ws/runs/{run.pk}/log/", session=await session_key())
    assert await socket.open()

    await socket.say_text(wish)

    assert await socket.hear_close() == 4400
    assert "Traceback" not in caplog.text


# What anybody may send


def asgi(*bodies: bytes, **headers: str) -> tuple[int, int]:
    """The status of a POST of these pieces of a body, and how many of them were read."""
    pieces = list(bodies)
    status = 0

    async def receive() -> dict[str, Any]:
        if not pieces:  # the browser waits for its answer
            await asyncio.get_running_loop().create_future()
        body = pieces.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(pieces)}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status
        status = message.get("status", status)

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": "/login/",
        "query_string": b"",
        "headers": [
            (b"host", b"localhost"),
            *((name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()),
        ],
    }
    asyncio.run(application(scope, receive, send))  # type: ignore[arg-type]
    return status, len(bodies) - len(pieces)


def test_an_endless_body_is_not_written_to_disk(transactional_db: None) -> None:
    piece = b"x" * 1024 * 1024

    assert asgi(*[piece] * 100, content_type="multipart/form-data; boundary=x") == (413, 9)
    assert asgi(*[piece] * 100, content_length=str(2**40)) == (413, 0)
    assert asgi(*[piece] * 2, content_type="multipart/form-data; boundary=x") == (403, 2)


@pytest.mark.parametrize(
    ("address", "host", "status"),
    [
        ("/", "evil.example", 400),
        ("/%00", "localhost", 400),
        ("/profiles/new/", "localhost", 403),
        ("/servers/x/?run=" + "9" * 5000, "localhost", 404),
    ],
)
def test_what_a_visitor_does_wrong_leaves_no_traceback(
    address: str, host: str, status: int, client: Client
) -> None:
    handlers = logging.getLogger().handlers
    console = next(each for each in handlers if type(each) is logging.StreamHandler)
    factories.server(factories.box(), "x")
    log = io.StringIO()
    before = console.setStream(log)

    answer = viewer().get(address, headers={"host": host})

    console.setStream(before or sys.stderr)
    assert answer.status_code == status
    assert log.getvalue()
    assert "Traceback" not in log.getvalue()


def test_a_models_name_does_not_break_out_of_the_command_to_copy(client: Client) -> None:
    server = factories.server(factories.box())
    factories.run(server, served_name="x'; touch /tmp/hacked; '\"")

    page = html.unescape(client.get(f"/servers/{server.slug}/").content.decode())

    command = page.split('id="curl">')[1].split("</pre>")[0]
    said = json.loads(shlex.split(command)[-1])
    assert said["model"] == "x'; touch /tmp/hacked; '\""


def test_a_version_number_of_5000_digits_is_none(client: Client) -> None:
    profile = factories.server(factories.box()).profile

    answer = client.get(f"/profiles/{profile.slug}/versions/1/?against=" + "9" * 5000)

    assert answer.status_code == 200


# Secrets


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("token=hf_AbCd/12+x", f"token={MASK}"),
        ("?token=hf_AbCd%2F12%2Bx", f"?token={MASK}"),
        ("hf_AbCd/12+xhf_AbCd/12+x", MASK + MASK),
        ("hf_AbCd/12", "hf_AbCd/12"),
        ("", ""),
    ],
)
def test_a_secret_is_masked_wherever_it_stands(text: str, masked: str) -> None:
    assert mask(text, ["hf_AbCd/12+x"]) == masked


def test_a_secret_is_masked_in_json_and_in_a_python_error() -> None:
    secret = 'pass"word\\with é'

    for text in (json.dumps({"key": secret}), repr({"key": secret}), secret):
        assert secret not in mask(text, [secret])
        assert "word" not in mask(text, [secret])


def test_every_line_of_a_secret_is_masked_by_itself() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBg\r\n  k3xAoIBAQ==\n"

    assert mask("line 2: MIIEvQIBADANBg; line 3: k3xAoIBAQ==", [key]) == (
        f"line 2: {MASK}; line 3: {MASK}"
    )


def test_logs_are_masked_like_everything_else() -> None:
    value = 'p@ss"word/\u00e9'
    pattern = secrets_pattern([value])
    assert pattern

    for shape in (value, json.dumps(value), quote(value, safe=""), repr(value)):
        assert pattern.sub(b"", shape.encode()).strip(b"\"'") == b"", shape


@pytest.mark.parametrize(
    "flags",
    [
        ("--api-key", "sk-of-the-team"),
        ("--api-key=sk-of-the-team",),
        ("--api_key", "other", "sk-of-the-team", "--port", "1"),
        ("--api-key", "sk-other,sk-of-the-team"),
        ("--hf-token", "sk-of-the-team"),
    ],
)
def test_a_key_among_the_flags_is_masked_in_what_is_shown(
    flags: tuple[str, ...], client: Client
) -> None:
    server = factories.server(factories.box(), flags=flags)
    run = factories.run(server)
    launch = replace(server.profile.launch, flags=("--seed", "1", *flags))
    server.profile.save_version(launch, by=None)
    server.profile.save_version(replace(launch, flags=(*flags, "--seed", "1")), by=None)
    server.profile.save_version(replace(launch, flags=()), by=None)
    server.profile.save_version(replace(launch, flags=flags), by=None)

    for address in ("", "versions/3/", "versions/4/", "versions/5/"):
        page = client.get(f"/profiles/{server.profile.slug}/{address}")
        assert page.status_code == 200
        assert "of-the-team" not in page.content.decode(), address
    assert "of-the-team" not in secrets.masked(run, "api_key: ['sk-of-the-team']")


def test_a_replaced_secret_stays_masked_in_what_the_container_prints(client: Client) -> None:
    old = Secret.seal("MY_TOKEN", "the-old-value", None)
    token = Secret.seal("HF_TOKEN", "hf_the_boxs_old_one", None)
    box = factories.box(hf_token=token)
    run = factories.run(factories.server(box, secret_env={"MY_TOKEN": old.pk}))
    secrets.remember(run, secrets.site(run))

    old.replace("the-new-value", None)
    token.delete()
    run = Run.objects.get(pk=run.pk)

    assert b"the-old-value" not in bytes(run.given or b"")
    text = secrets.masked(run, "the-old-value the-new-value hf_the_boxs_old_one")
    assert text == f"{MASK} {MASK} {MASK}"

    runs = Runs(box)
    runs.forget_secrets()
    assert Run.objects.exclude(given=None).count() == 1
    Run.objects.update(state="stopped", log_complete=True)
    runs.forget_secrets()
    assert Run.objects.exclude(given=None).count() == 0


def test_one_lost_secret_does_not_unmask_the_others(client: Client) -> None:
    lost = Secret.seal("MY_TOKEN", "lost-value", None)
    other = Secret.seal("OTHER_KEY", "other-value", None)
    launch = {"MY_TOKEN": lost.pk, "OTHER_KEY": other.pk}
    run = factories.run(factories.server(factories.box(), secret_env=launch))
    lost.delete()

    assert secrets.masked(run, "other-value") == MASK


def test_of_two_secrets_that_begin_alike_both_are_masked_whole() -> None:
    assert mask("hf_abcdef hf_abc", ["hf_abc", "hf_abcdef"]) == f"{MASK} {MASK}"


@pytest.mark.parametrize("value", ["", "abc", "\n", " a "])
def test_what_is_too_short_to_be_a_secret_hides_nothing(value: str) -> None:
    assert mask("abc a\nabc", [value]) == "abc a\nabc"


def test_a_secret_of_another_key_says_what_to_do(db: None, settings: Any) -> None:
    secret = Secret.seal("HF_TOKEN", "hf_one_value", None)
    settings.SECRETS_KEY = "A" * 43 + "="
    _fernet.cache_clear()

    with pytest.raises(SecretError, match="secrets.key there is not the one"):
        secret.reveal()

    _fernet.cache_clear()


def test_keys_are_the_owners_alone() -> None:
    for name in ("secrets.key", "django.key"):
        assert (configured.DATA / name).stat().st_mode & 0o077 == 0
    assert configured.DATA.stat().st_mode & 0o077 == 0


# Untrusted text on our pages


def test_hostile_names_are_text_on_the_pages_of_people(client: Client) -> None:
    hostile = '<b data-hx-post="/logout/" hx-trigger="load">x</b>'
    User.objects.create(username=hostile)
    box = factories.box("rtx8")
    box.facts["limits"]["devices"] = [hostile]
    box.save()
    Secret.seal(hostile, "hf_one_value", None)
    client.post("/settings/people/999/role/", {"role": hostile})

    for address in ("/settings/", "/activity/", f"/activity/?q={quote(hostile)}"):
        page = client.get(address)
        assert page.status_code == 200
        assert "<b data-hx" not in page.content.decode()


def test_no_page_of_people_has_scripts_or_styles_inside(client: Client) -> None:
    factories.box("rtx8")
    for address in ("/settings/", "/activity/", "/password/", "/login/", "/nothing/"):
        page = client.get(address).content.decode() if address != "/login/" else ""
        assert " style=" not in page
        assert "<style" not in page
        assert "onclick" not in page
        assert all("src=" in tag.split(">")[0] for tag in page.split("<script")[1:])


def test_a_csv_is_streamed_and_not_kept(client: Client) -> None:
    response = client.get("/activity.csv")

    assert isinstance(response, StreamingHttpResponse)
    assert response.headers["Cache-Control"] == "no-store"
