"""What leaves the box, over real sockets: taken, refused, put off, and never sent at all."""

import hashlib
import hmac
import json
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from email.utils import formatdate

import pytest

from servers.host import alerts
from servers.host.alerts import AlertMessage, WebhookError
from tests.alerts.receiver import Receiver, ReceiverResponse, receiver
from tests.cases import table
from tests.ports import free_port

DIED = AlertMessage(
    id="0123abcd-7",
    event="raised",
    kind="died",
    severity="critical",
    title="glm-5 on rtx8 died after 3 h",
    detail="The engine was ended by SIGSEGV <@everyone> & more – `kaputt`.",
    memory="33.1 GiB were not released.",
    advice="Its page shows the log's last lines.",
    box="rtx8",
    server="glm-5",
    checkpoint="zai-org/GLM-5-FP8",
    since="2026-11-21T20:00:00+00:00",
    url="http://rtx8.lan:8470/runs/7/",
)


@pytest.fixture
def there() -> Iterator[Receiver]:
    with receiver() as made:
        yield made


def send(there: Receiver, kind: str = "json", message: AlertMessage = DIED, key: str = "") -> None:
    made = alerts.build_payload(kind, message, key=key, now=1700000000.0)
    alerts.post(f"{there.url}/hook?room=1", made.body, made.headers)


def refused(there: Receiver, answer: ReceiverResponse) -> WebhookError:
    there.answers.append(answer)
    with pytest.raises(WebhookError) as caught:
        send(there)
    return caught.value


def test_json_is_taken_with_every_field_of_its_schema(there: Receiver) -> None:
    send(there)

    [got] = there.got
    assert (got.method, got.path) == ("POST", "/hook?room=1")
    assert got.headers["Host"] == f"127.0.0.1:{there.port}"
    said = json.loads(got.body)
    assert said.pop("schema") == 1
    assert said.pop("from") == "inferdash"
    assert AlertMessage(**said) == DIED
    assert "X-Inferdash-Signature" not in got.headers


def test_json_is_signed_with_its_moment_where_there_is_a_key(there: Receiver) -> None:
    send(there, key="a long secret")

    [got] = there.got
    stamp = got.headers["X-Inferdash-Timestamp"]
    signed = hmac.new(b"a long secret", stamp.encode() + b"." + got.body, hashlib.sha256)
    assert got.headers["X-Inferdash-Signature"] == f"sha256={signed.hexdigest()}"


def test_slack_gets_no_markup_that_a_log_has_smuggled_in(there: Receiver) -> None:
    send(there, "slack")

    said = json.loads(there.got[0].body)
    text = said["blocks"][0]["text"]["text"]
    assert said["text"] == "glm-5 on rtx8 died after 3 h"
    assert "&lt;@everyone&gt; &amp; more" in text
    assert "<http://rtx8.lan:8470/runs/7/|glm-5 on rtx8 died after 3 h>" in text
    assert "33.1 GiB were not released." in text


def test_discord_calls_nobody_and_is_within_its_bounds(there: Receiver) -> None:
    send(there, "discord", replace(DIED, detail="x" * 9000, title="t" * 900))

    said = json.loads(there.got[0].body)
    assert said["allowed_mentions"] == {"parse": []}
    assert len(said["content"]) <= 2000
    assert len(said["embeds"][0]["title"]) <= 256
    assert len(said["embeds"][0]["description"]) <= 4096


def test_ntfy_gets_a_title_beyond_ascii_and_its_token(there: Receiver) -> None:
    message = replace(DIED, title="Modell „Größe“\r\nX-Evil: 1 on rtx8 died")
    send(there, "ntfy", message, key="tk_secret")

    headers = there.got[0].headers
    assert headers["Title"].startswith("=?UTF-8?B?")
    assert "X-Evil" not in headers
    assert headers["Priority"] == "5"
    assert headers["Click"] == DIED.url
    assert headers["Authorization"] == "Bearer tk_secret"
    assert "33.1 GiB were not released." in there.got[0].body.decode()


def test_people_read_moments_and_programs_parse_them() -> None:
    assert DIED.paragraphs[-1] == "Since 21 Nov 20:00 UTC."
    assert json.loads(alerts.build_payload("json", DIED, now=0).body)["since"] == DIED.since


def test_what_is_over_says_so_and_gives_no_advice() -> None:
    over = replace(DIED, event="cleared", until="2026-11-21T21:00:00+00:00")

    assert over.headline == "Over: glm-5 on rtx8 died after 3 h"
    assert DIED.advice not in over.paragraphs
    assert (
        json.loads(alerts.build_payload("discord", over, now=0).body)["embeds"][0]["color"]
        == 0x2F855A
    )


@pytest.mark.parametrize("status", [500, 502, 503, 408, 429])
def test_what_may_pass_is_to_be_tried_again(there: Receiver, status: int) -> None:
    error = refused(there, ReceiverResponse(status=status, body=b"busy"))

    assert error.may_pass
    assert f"127.0.0.1 answered {status}" in str(error)
    assert "busy" in str(error)


def test_who_asks_to_be_left_alone_is_left_alone(there: Receiver) -> None:
    assert refused(there, ReceiverResponse(status=429, headers={"Retry-After": "77"})).wait == 77
    later = formatdate(time.time() + 120, usegmt=True)
    wait = refused(there, ReceiverResponse(status=503, headers={"Retry-After": later})).wait
    assert wait is not None
    assert 100 < wait <= 120
    assert refused(there, ReceiverResponse(status=503, headers={"Retry-After": "9e9"})).wait == 3600
    assert (
        refused(there, ReceiverResponse(status=503, headers={"Retry-After": "soon"})).wait is None
    )


@table("said", ["Fri, 31 Dec 99999999999999999999 23:59:59 GMT", "nan", "-1", "soon", "1" * 500])
def test_nonsense_about_when_to_come_back_breaks_nothing(said: str) -> None:
    with receiver() as there:
        error = refused(there, ReceiverResponse(status=429, headers={"Retry-After": said}))
        assert error.may_pass
        assert error.wait is None or 0.0 <= error.wait <= alerts.LONGEST_WAIT


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
def test_what_will_not_pass_is_given_up_with_the_services_own_words(
    there: Receiver, status: int
) -> None:
    error = refused(there, ReceiverResponse(status=status, body=b"no_service"))

    assert not error.may_pass
    assert "no_service" in str(error)
    assert "hook" not in str(error), "the path is the secret"


def test_a_redirect_is_not_followed(there: Receiver) -> None:
    said = {
        "http://169.254.169.254/latest/": "It leads on to http://169.254.169.254, and",
        f"https://127.0.0.1:{there.port}/hook": f"leads on to https://127.0.0.1:{there.port}, and",
    }
    for location, words in said.items():
        there.answers.append(ReceiverResponse(status=302, headers={"Location": location}))
        with pytest.raises(WebhookError, match="redirects are not followed") as caught:
            send(there)
        assert not caught.value.may_pass
        assert words in str(caught.value)
    assert len(there.got) == len(said)


def test_nobody_there_and_nobody_answering_may_pass(
    there: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = free_port()
    with pytest.raises(WebhookError, match="cannot be reached") as caught:
        alerts.post(f"http://127.0.0.1:{free}/", b"", {})
    assert caught.value.may_pass

    monkeypatch.setattr(alerts, "WITHIN", 0.2)
    there.holds.clear()
    with pytest.raises(WebhookError, match="no answer within") as caught:
        send(there)
    assert caught.value.may_pass


@pytest.mark.parametrize(
    "address",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://[fe80::1]/",
        "http://[::ffff:169.254.169.254]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://[fd00:ec2::254]/",
        "http://0.0.0.0/",
        "http://224.0.0.1/",
    ],
)
def test_the_machines_own_link_is_never_asked(address: str) -> None:
    assert "clouds keep credentials" in alerts.objection(address)
    with pytest.raises(WebhookError, match="sends nothing there") as caught:
        alerts.ping(address)
    assert not caught.value.may_pass


def test_nor_by_a_name_that_leads_there(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", 80))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **more: found)

    with pytest.raises(WebhookError, match="sends nothing there"):
        alerts.ping("http://innocent.example.org/")


@pytest.mark.parametrize(
    "address",
    [
        "ftp://a.example/",
        "hooks.slack.com/x",
        "http://",
        "http://a b/",
        "http://[::1/",
        "http://a\x01b/",
    ],
)
def test_what_is_no_address_is_said_to_be_none(address: str) -> None:
    assert alerts.objection(address)


@pytest.mark.parametrize(
    "address",
    ["http://192.168.1.7:8080/gpu", "https://ntfy.sh/x", "http://[::1]:9/", "http://ntfy/"],
)
def test_an_address_at_home_is_one(address: str) -> None:
    assert alerts.objection(address) == ""


def test_user_and_password_in_an_address_are_sent_as_such(there: Receiver) -> None:
    alerts.ping(f"http://ada:p%40ss@127.0.0.1:{there.port}/alive")

    [got] = there.got
    assert (got.method, got.path) == ("GET", "/alive")
    assert got.headers["Authorization"] == "Basic YWRhOnBAc3M="


def test_a_proxy_of_the_environment_is_used(
    there: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", there.url)
    monkeypatch.setenv("no_proxy", "")

    alerts.ping("http://only.the-proxy-knows.example/alive")

    assert there.got[0].path == "http://only.the-proxy-knows.example/alive"
