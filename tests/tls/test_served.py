"""A web process that speaks TLS by itself, as browsers and programs meet it."""

import contextlib
import json
import os
import re
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from websockets.sync.client import connect
from websockets.typing import Origin

from inferdash.tls import names, own
from tests.ports import free_port
from tests.tls.certificates import make
from tests.waiting import PATIENCE, wait_until
from tests.web_stack import ROOT, WebStack, web_stack

KEY = """
from datetime import timedelta
person = factories.person("ada", Role.OPERATOR)
print(Key.make(person, "a program", Role.OPERATOR, expires_at=None)[1])
"""

OLD_PORT = """
from servers import events
box, _ = Box.objects.get_or_create(slug="rtx8")
person = User.objects.get(username="otto")
LegacyPort.objects.create(box=box, port={port}, sources=["127.0.0.1"], made_by=person)
events.publish_change('ports')
"""


@pytest.fixture(scope="module")
def stack() -> Iterator[WebStack]:
    with web_stack(TLS="self") as made:
        yield made


@pytest.fixture
def authority(stack: WebStack) -> Path:
    return Path(stack.env["INFERDASH_DATA"]) / "tls/ca.crt"


@pytest.fixture
def trusting(stack: WebStack, authority: Path) -> Iterator[httpx.Client]:
    """Somebody who trusts the authority and nobody else."""
    context = ssl.create_default_context(cafile=str(authority))
    with httpx.Client(base_url=stack.url, verify=context, timeout=PATIENCE) as client:
        yield client


def port(stack: WebStack) -> int:
    return int(stack.env["PORT"])


def served(where: int) -> x509.Certificate:
    """What a new connection is shown."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    plain = socket.create_connection(("127.0.0.1", where), PATIENCE)
    with context.wrap_socket(plain) as encrypted:
        data = encrypted.getpeercert(binary_form=True)
    assert data
    return x509.load_der_x509_certificate(data)


def said_in_the_clear(where: int, request: bytes) -> bytes:
    """All that is answered to somebody without TLS, until the connection is closed."""
    with socket.create_connection(("127.0.0.1", where), PATIENCE) as plain:
        plain.sendall(request)
        answer = b""
        while piece := plain.recv(65536):
            answer += piece
    return answer


def test_who_trusts_the_authority_is_answered_under_each_name(
    stack: WebStack, authority: Path
) -> None:
    context = ssl.create_default_context(cafile=str(authority))
    context.verify_flags |= ssl.VERIFY_X509_STRICT  # as Python does by itself from 3.13 on
    for name in ("127.0.0.1", "localhost", socket.gethostname(), socket.getfqdn()):
        plain = socket.create_connection(("127.0.0.1", port(stack)), PATIENCE)
        with context.wrap_socket(plain, server_hostname=name) as encrypted:
            assert encrypted.version() in ("TLSv1.2", "TLSv1.3"), name


def test_who_does_not_trust_it_is_not(stack: WebStack) -> None:
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(stack.url, timeout=PATIENCE)


def test_a_login_over_tls_sets_cookies_that_travel_over_tls_only(
    stack: WebStack, trusting: httpx.Client
) -> None:
    stack.run("User.objects.create_user('ben', password='a long password', role=Role.OPERATOR)")
    page = trusting.get("/login/")
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)
    assert token
    sent = {"username": "ben", "password": "a long password", "csrfmiddlewaretoken": token[1]}

    # As a browser does it: Origin and Referer are looked at.
    came = {"Origin": stack.url, "Referer": f"{stack.url}/login/"}
    answer = trusting.post("/login/", data=sent, headers=came)

    assert (answer.status_code, answer.headers["location"]) == (302, "/")
    cookies = [*page.headers.get_list("set-cookie"), *answer.headers.get_list("set-cookie")]
    assert {each.partition("=")[0] for each in cookies} == {
        f"inferdash_csrf_tls_{port(stack)}",
        f"inferdash_tls_{port(stack)}",
    }
    assert all("; Secure" in each for each in cookies)
    # Engines of the same machine go on by http.
    assert "strict-transport-security" not in answer.headers


def test_a_socket_over_tls_is_open_to_its_own_page_alone(stack: WebStack, authority: Path) -> None:
    cookie = stack.cookie("ada")
    address = f"wss://127.0.0.1:{port(stack)}/ws/live/"
    context = ssl.create_default_context(cafile=str(authority))
    head = {"Cookie": f"{cookie['name']}={cookie['value']}"}

    own_page, foreign = Origin(stack.url), Origin(stack.url.replace("https:", "http:"))
    with connect(address, ssl=context, origin=own_page, additional_headers=head) as opened:
        assert opened.recv(timeout=PATIENCE)
    with pytest.raises(Exception, match="403"):
        connect(address, ssl=context, origin=foreign, additional_headers=head)


def test_programs_reach_the_gateway_over_tls(stack: WebStack, trusting: httpx.Client) -> None:
    key = stack.run(KEY).strip()

    answer = trusting.get("/v1/models", headers={"Authorization": f"Bearer {key}"})

    assert (answer.status_code, answer.json()["object"]) == (200, "list")


def test_a_port_that_programs_knew_before_speaks_both(stack: WebStack, authority: Path) -> None:
    key = stack.run(KEY.replace('"ada"', '"otto"')).strip()
    where = free_port()
    stack.run(OLD_PORT.format(port=where))
    context = ssl.create_default_context(cafile=str(authority))

    def status(scheme: str) -> int | None:
        address = f"{scheme}://127.0.0.1:{where}/v1/models"
        with contextlib.suppress(httpx.TransportError):
            asked = {"Authorization": f"Bearer {key}"}
            return httpx.get(address, headers=asked, verify=context, timeout=PATIENCE).status_code
        return None

    assert wait_until(lambda: status("http"), "the port is opened") == 200
    assert status("https") == 200


def test_the_authority_is_for_everybody_and_its_fingerprint_is_told(
    stack: WebStack, trusting: httpx.Client, authority: Path
) -> None:
    answer = trusting.get("/ca.crt")
    assert answer.headers["content-type"] == "application/x-x509-ca-cert"
    assert answer.text == authority.read_text()
    fingerprint = own.fingerprint(x509.load_pem_x509_certificate(answer.content))

    cookie = stack.cookie("vera", "VIEWER")
    trusting.cookies.set(cookie["name"], cookie["value"])
    page = trusting.get("/settings/")
    assert fingerprint in page.text
    assert 'href="/ca.crt"' in page.text
    # Whoever copies the lines for programs is told what these need.
    trusting.cookies.set(cookie["name"], stack.cookie("odo", "OPERATOR")["value"])
    assert "certificate authority first" in trusting.get("/gateway/").text


def test_a_page_without_tls_is_sent_to_the_one_with(stack: WebStack) -> None:
    where = f"127.0.0.1:{port(stack)}"
    answer = said_in_the_clear(
        port(stack), f"GET /runs/1/?tab=log HTTP/1.1\r\nHost: {where}\r\n\r\n".encode()
    )

    assert answer.startswith(b"HTTP/1.1 307 ")
    assert f"\r\nLocation: https://{where}/runs/1/?tab=log\r\n".encode() in answer
    assert b"\r\nCache-Control: no-store\r\n" in answer


@pytest.mark.parametrize(
    "request_line",
    [
        "POST /login/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n"
        + 200_000 * "x",
        "GET / HTTP/1.1\r\nHost: evil.example.org\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET //evil.example.org HTTP/1.0\r\nHost: localhost@evil.example.org\r\n\r\n",
    ],
)
def test_who_cannot_be_sent_on_without_tls_is_told(stack: WebStack, request_line: str) -> None:
    answer = said_in_the_clear(port(stack), request_line.encode())

    head, _gap, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"ocation" not in head
    assert json.loads(body)["error"]["message"].startswith("This port speaks HTTPS only.")
    assert b"evil" not in answer


def test_a_key_in_the_clear_is_not_sent_on_but_told(stack: WebStack) -> None:
    request = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer abc\r\n\r\n"

    answer = said_in_the_clear(port(stack), request)

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"The key came unencrypted" in answer


def test_who_says_nothing_or_nonsense_holds_up_nobody(
    stack: WebStack, trusting: httpx.Client
) -> None:
    silent = [socket.create_connection(("127.0.0.1", port(stack)), PATIENCE) for _ in range(50)]
    try:
        for each in silent[:20]:
            each.sendall(b"\x16\x03\x01 this is no handshake, whatever its first byte says")
        for each in silent[20:30]:
            each.sendall(b"\x00" * 20_000)
        assert trusting.get("/login/").status_code == 200
    finally:
        for each in silent:
            each.close()
    assert trusting.get("/login/").status_code == 200


def test_the_health_check_of_the_container_knows_tls(stack: WebStack) -> None:
    command = [sys.executable, "-m", "inferdash.up.health"]
    done = subprocess.run(command, env=stack.env, cwd=ROOT, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")


def test_the_terminal_trusts_what_it_was_told_to(
    stack: WebStack, authority: Path, tmp_path: Path
) -> None:
    key = stack.run(KEY.replace('"ada"', '"tess"')).strip()

    def terminal(*words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "inferdash.terminal", *words],
            env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
            cwd=ROOT,
            input=given,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    refused = terminal("login", stack.url, given=key)
    assert refused.returncode == 5
    assert "is not trusted" in refused.stderr
    assert f"inferdash login --ca ca.crt {stack.url}" in refused.stderr
    plain = terminal("login", stack.url.replace("https:", "http:"), given=key)
    assert "This port speaks HTTPS only" in plain.stderr
    nonsense = terminal("login", "--ca", "/proc/version", stack.url, given=key)
    assert nonsense.returncode == 2
    assert "no certificate" in nonsense.stderr
    done = terminal("login", "--ca", str(authority), stack.url, given=key)
    assert done.returncode == 0, done.stderr
    assert terminal("ps").returncode == 0


def test_a_renewed_certificate_is_served_without_a_restart(tmp_path: Path) -> None:
    pair = make(tmp_path, hosts=("127.0.0.1",))
    with web_stack(TLS_CERT=str(pair.certificate), TLS_KEY=str(pair.key)) as stack:
        where = port(stack)
        first = served(where).serial_number
        context = ssl.create_default_context(cafile=str(pair.certificate))
        with httpx.Client(base_url=stack.url, verify=context, timeout=PATIENCE) as client:
            assert client.get("/login/").status_code == 200
            assert client.get("/ca.crt").status_code == 404

            kept = pair.key.read_bytes()
            pair.key.write_text("half of a")
            assert served(where).serial_number == first
            pair.key.write_bytes(kept)
            make(tmp_path, hosts=("127.0.0.1",))

            # Each new connection; one that is open goes on.
            assert served(where).serial_number != first
            assert client.get("/login/").status_code == 200


def test_one_of_our_own_that_ends_soon_is_another_after_a_start(stack: WebStack) -> None:
    """And the authority stays the one that people trust."""
    folder = Path(stack.env["INFERDASH_DATA"]) / "tls"
    before = (folder / "ca.crt").read_text()
    ago = datetime.now(UTC) - timedelta(days=380)
    (folder / "server.pem").unlink()
    old = own.ensure(folder, names.sort_names(["127.0.0.1"]), ago)
    assert old.is_new

    stack.stop_web()
    stack.start_web()

    found = served(port(stack))
    assert found.not_valid_after_utc > datetime.now(UTC) + timedelta(days=390)
    assert (folder / "ca.crt").read_text() == before
