"""What somebody sends who means harm, or whose program is broken."""

import gzip
import json
import socket
from urllib.parse import urlsplit

import httpx
import pytest

from tests.cases import table
from tests.gateway.conftest import Address
from tests.scripted_engine import MODEL
from tests.waiting import PATIENCE

HELLO = {"messages": [{"role": "user", "content": "hello"}]}


def raw(address: Address, request: bytes) -> bytes:
    """The beginning of the answer to bytes that no client would send; b"" without one."""
    place = urlsplit(address.url)
    with socket.create_connection(
        (place.hostname or "", place.port or 0), timeout=PATIENCE
    ) as sending:
        sending.sendall(request)
        with sending.makefile("rb") as answer:
            return answer.readline()


def head(address: Address, first: str, *lines: str) -> bytes:
    host = f"Host: {urlsplit(address.url).netloc}"
    said = [first, host, f"Authorization: Bearer {address.token}", "Connection: close"]
    return "\r\n".join([*said, *lines, "", ""]).encode("latin-1")


def paths(address: Address) -> list[list[str]]:
    """Those that each engine was asked for."""
    return [[each["path"] for each in engine.headers] for engine in address.engines]


@pytest.mark.parametrize(
    "path",
    ["/v1/../metrics", "/v1/%2e%2e/metrics", "/v1/..%2fmetrics", "/v1/x/%2E./../../metrics",
     "/v1/./../metrics", "/v1/models/../../metrics", "/tokenize/../metrics", "//metrics"],
)  # fmt: skip
def test_nobody_walks_out_of_what_programs_may_ask(address: Address, path: str) -> None:
    before = paths(address)
    body = json.dumps({"model": MODEL})
    asked = head(address, f"POST {path} HTTP/1.1", f"Content-Length: {len(body)}") + body.encode()

    assert b" 404 " in raw(address, asked)
    assert paths(address) == before


@pytest.mark.parametrize(
    "first",
    ["GET /v1/caf\xe9 HTTP/1.1", "GET /v1/x?caf\xe9 HTTP/1.1", "GET /v1/x\x01 HTTP/1.1",
     "GET http://other/v1/x HTTP/1.1", "CONNECT other:80 HTTP/1.1"],
)  # fmt: skip
def test_a_strange_first_line_breaks_nothing(address: Address, first: str) -> None:
    said = raw(address, head(address, first))

    assert b" 500 " not in said, said
    assert address.requests() is not None


@pytest.mark.parametrize(
    "path",
    ["/chat/completions", "/embeddings", "/models", "/v1", "//v1/chat/completions",
     "/v1/v1/messages"],
)  # fmt: skip
def test_a_wrong_base_address_is_said(address: Address, path: str) -> None:
    before = paths(address)
    method = "GET" if path in ("/models", "/v1") else "POST"
    answer = httpx.request(
        method,
        f"{address.url}{path}",
        json={"model": MODEL},
        headers={"x-api-key": address.token},
    )

    assert (answer.status_code, answer.headers["x-inferdash-error"]) == (404, "no_such_path")
    assert "The base address ends in /v1" in answer.json()["error"]["message"]
    assert paths(address) == before
    # Without a key it is somebody who looks for a page.
    assert "x-inferdash-error" not in httpx.get(f"{address.url}/models").headers


def test_a_compressed_body_is_said(address: Address) -> None:
    answer = httpx.post(
        f"{address.url}/v1/chat/completions",
        content=gzip.compress(json.dumps({"model": MODEL, **HELLO}).encode()),
        headers={"authorization": f"Bearer {address.token}", "content-encoding": "gzip"},
    )

    assert (answer.status_code, answer.json()["error"]["code"]) == (415, "compressed")
    assert "(gzip)" in answer.json()["error"]["message"]


@pytest.mark.parametrize("model", [MODEL, "tiny"])
def test_half_a_character_is_passed_on_as_it_came(address: Address, model: str) -> None:
    asked = {"model": model, "messages": [{"role": "user", "content": "\ud83d"}]}
    answer = httpx.post(
        f"{address.url}/v1/chat/completions",
        content=json.dumps(asked),
        headers={"authorization": f"Bearer {address.token}"},
    )

    assert answer.status_code == 200
    assert address.engines[0].requests[-1]["messages"] == asked["messages"]


@pytest.mark.parametrize(
    "lines",
    [
        ("Content-Length: 5", "Transfer-Encoding: chunked"),
        ("Content-Length: 5", "Content-Length: 6"),
        ("X-Request-Id: a\r\n b", "Content-Length: 0"),
        ("X-Request-Id: a\rX-Api-Key: b", "Content-Length: 0"),
        ("User-Agent: \xe9\x80\xff", "Content-Length: 0"),
        ("Content-Type: multipart/form-data; boundary=", "Content-Length: 0"),
    ],
)
def test_a_strange_head_breaks_nothing(address: Address, lines: tuple[str, ...]) -> None:
    said = raw(address, head(address, "POST /v1/chat/completions HTTP/1.1", *lines))

    assert b" 500 " not in said, said
    assert b" 502 " not in said, said


def test_one_request_stays_one_at_the_engine(address: Address) -> None:
    """Whatever stands in it."""
    first, *others = paths(address)
    body = json.dumps({"model": MODEL, **HELLO})
    smuggled = "GET /metrics HTTP/1.1\r\nHost: box\r\n\r\n"
    asked = head(
        address,
        "POST /v1/chat/completions HTTP/1.1",
        f"X-Request-Id: {smuggled.split(' HTTP')[0]}",
        f"Content-Length: {len(body)}",
    )

    assert b" 200 " in raw(address, asked + body.encode() + smuggled.encode())
    assert paths(address) == [[*first, "/v1/chat/completions"], *others]


def test_a_head_without_end_is_cut_off(address: Address) -> None:
    with pytest.raises((ConnectionError, AssertionError)):
        assert raw(address, b"GET /v1/models HTTP/1.1\r\nX-A: " + b"a" * (4 << 20)) != b""


@table(
    ("host", "status"),
    [
        ("evil.test", 400), ("127.0.0.1.evil.test", 400), ("localhost@evil.test", 400), ("", 400),
        ("evil.test:8470", 400), ("[::2]:8470", 400), ("localhost evil.test", 400), ("*", 400),
        ("localhost", 200), ("LOCALHOST:1", 200), ("[::1]:8470", 200), ("127.0.0.1", 200),
    ],
    shared=("address",),
)  # fmt: skip
def test_engines_are_asked_by_names_that_the_pages_have(
    host: str, status: int, address: Address
) -> None:
    """A page of the internet may have its name lead here (DNS rebinding)."""
    lines = [f"Host: {host}", f"Authorization: Bearer {address.token}", "Connection: close"]
    for path in ("/v1/models", "/models"):
        asked = "\r\n".join([f"GET {path} HTTP/1.1", *lines, "", ""]).encode()
        expected = 404 if (path, status) == ("/models", 200) else status
        assert f" {expected} ".encode() in raw(address, asked)


def test_a_refused_name_says_what_to_set(address: Address) -> None:
    said = httpx.get(
        f"{address.url}/v1/models", headers={"host": "rtx8.lan:8470"}, timeout=PATIENCE
    )

    assert said.status_code == 400
    assert "INFERDASH_ALLOWED_HOSTS=rtx8.lan," in said.json()["error"]["message"]
