"""What answers from outside is read within bounds: bytes once unpacked, and seconds in all."""

import ipaddress
import json
import socket
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from servers.host import alerts
from servers.host.http import bounded
from servers.host.http.bounded import BoundsError, Outside
from servers.host.images import registry
from servers.host.images.registry import RealmError, Realms, RegistryError, parse
from servers.host.runs import probes
from servers.host.runs.probes import Endpoint
from servers.host.weights import hub
from servers.host.weights.fetch import listing, places
from servers.host.weights.fetch.places import FetchError, Pace, RepositoryFile
from servers.host.weights.hub import HubError
from tests import hostile_server as hostile
from tests.cases import table
from tests.hostile_server import HostileServer, Say, Talk

MIB = 1 << 20
IN_ALL = 0.5  # seconds that an answer is given here
SILENCE = 5.0  # more than IN_ALL: only a limit for the whole ends what comes drop by drop
PATIENCE = 90.0  # seconds; a question without an end reaches it, and a slow machine does not
MOST_MEMORY = 40 * MIB  # an engine's 8 MiB with room to grow, and not what a bomb holds


@pytest.fixture
def there() -> Iterator[HostileServer]:
    with hostile.hostile_server() as server:
        yield server


@cache
def bomb() -> bytes:
    return hostile.bomb(96)


def packed(talk: Talk) -> None:
    talk.send("200 OK", bomb(), Content_Encoding="gzip")


def packed_moved(talk: Talk) -> None:
    talk.send("307 Moved", bomb(), Content_Encoding="gzip", Location="/elsewhere")


def packed_twice(talk: Talk) -> None:
    talk.send("200 OK", bomb(), Content_Encoding="gzip, gzip")


def packed_refusal(talk: Talk) -> None:
    talk.send("403 Forbidden", bomb(), Content_Encoding="gzip")


# By what stands in the way, who asks gives up, says so, and has not kept what came.
HARMS: dict[str, Say] = {
    "headers drop by drop": hostile.drip_headers,
    "a body drop by drop": hostile.drip_body,
    "a redirect drop by drop": hostile.drip_moved,
    "a body without end": hostile.flood,
    "a redirect without end": hostile.flood_moved,
    "a bomb": packed,
    "a bomb in a redirect": packed_moved,
    "a bomb in a bomb": packed_twice,
    "a bomb in a refusal": packed_refusal,
}


def ask_manifest(there: HostileServer, harm: Say) -> None:
    there.otherwise = harm
    with pytest.raises(RegistryError):
        registry.size(f"{there.host}/vllm:1", "amd64")


def ask_token(there: HostileServer, harm: Say) -> None:
    challenge = f'Bearer realm="{there.url}/token",service="x"'
    there.otherwise = lambda talk: talk.send("401 No", WWW_Authenticate=challenge)
    there.says["/token"] = there.says["/elsewhere"] = harm
    with pytest.raises(RegistryError):
        registry.size(f"{there.host}/vllm:1", "amd64")


def ask_hub(there: HostileServer, harm: Say) -> None:
    there.otherwise = harm
    try:
        found = hub.look(there.url, "org/model")
    except HubError:
        return
    assert found.access == "refused"  # a status is told by its headers


def list_files(there: HostileServer, harm: Say) -> None:
    there.otherwise = harm
    with listing.outside("", silence=SILENCE, within=IN_ALL) as outside, pytest.raises(FetchError):
        listing.ask(outside, there.url, "org/model", "main")


def send_alert(there: HostileServer, harm: Say) -> None:
    there.otherwise = harm
    try:
        alerts.post(f"{there.url}/hook", b"{}", {})
    except alerts.WebhookError:
        return
    # Taken: its status came, and of its words no more was read than is shown.
    assert harm in (hostile.drip_body, hostile.flood, packed, packed_twice)


def ask_engine(there: HostileServer, harm: Say) -> None:
    there.otherwise = harm
    endpoint = Endpoint(address="127.0.0.1", port=there.port)
    assert probes.version(endpoint, "/version", "version") is None


ASKERS: dict[str, Callable[[HostileServer, Say], None]] = {
    "a registry's manifest": ask_manifest,
    "a registry's token": ask_token,
    "the Hub": ask_hub,
    "the Hub's list": list_files,
    "an alert": send_alert,
    "an engine": ask_engine,
}


def every_harm() -> list[tuple[str, str]]:
    """All of them to one that follows redirects; to the others what each has failed at alone."""
    some = ("a body drop by drop", "a bomb", "a bomb in a redirect")
    return [(who, what) for who in ASKERS for what in HARMS if who == "the Hub" or what in some]


@table(("who", "what"), every_harm)
def test_no_answer_takes_more_time_or_memory_than_its_bounds(
    who: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (hub, registry, alerts):
        monkeypatch.setattr(module, "WITHIN", IN_ALL, raising=False)
        monkeypatch.setattr(module, "SILENCE", SILENCE, raising=False)
    for module in (hub, registry):
        monkeypatch.setattr(module, "LONGEST", 4 * MIB)
    monkeypatch.setattr(listing, "_LONGEST", 4 * MIB)
    monkeypatch.setattr(
        probes._ask, "__kwdefaults__", (probes._ask.__kwdefaults__ or {}) | {"within": IN_ALL}
    )
    bomb()
    with hostile.hostile_server() as there:
        tracemalloc.start(1)
        began = time.monotonic()
        try:
            ASKERS[who](there, HARMS[what])
            took, peak = time.monotonic() - began, tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert there.asked
    assert took < PATIENCE
    assert peak < MOST_MEMORY, f"{peak / MIB:.0f} MiB were kept"


def test_a_token_of_more_than_64_kib_is_none(there: HostileServer) -> None:
    challenge = f'Bearer realm="{there.url}/token",service="x"'
    there.otherwise = lambda talk: talk.send("401 No", WWW_Authenticate=challenge)
    long = json.dumps({"token": "x" * (64 << 10)}).encode()
    there.says["/token"] = lambda talk: talk.send("200 OK", long)

    with pytest.raises(RegistryError, match="answers with more than 64 KiB"):
        registry.size(f"{there.host}/vllm:1", "amd64")


def test_what_is_packed_as_it_was_asked_for_is_read(there: HostileServer) -> None:
    said = json.dumps({"siblings": [], "more": "x" * 100_000}).encode()
    there.otherwise = lambda talk: talk.send(
        "200 OK", zlib.compress(said, wbits=31), Content_Encoding="gzip"
    )
    assert hub.look(there.url, "org/model").access == "open"

    there.otherwise = lambda talk: talk.send("200 OK", b"no gzip", Content_Encoding="gzip")
    with pytest.raises(HubError, match="cannot be unpacked"):
        hub.look(there.url, "org/model")


def test_an_answer_as_long_as_its_bound_is_read_and_one_byte_more_is_not(
    there: HostileServer,
) -> None:
    with Outside(within=PATIENCE, silence=PATIENCE) as outside:
        for pack in (bytes, partial(zlib.compress, wbits=31)):
            encoding = "identity" if pack is bytes else "gzip"

            def say(talk: Talk, pack: Callable[[bytes], bytes] = pack, of: str = encoding) -> None:
                talk.send("200 OK", pack(b"x" * 5000), Content_Encoding=of)

            there.otherwise = say
            assert len(outside.ask("GET", there.url, most=5000).body) == 5000
            assert outside.ask("GET", there.url, most=10, is_cut=True).body == b"x" * 10
            with pytest.raises(BoundsError, match="more than 4 KiB"):
                outside.ask("GET", there.url, most=4999)


def test_redirects_are_followed_so_far_and_not_out_of_encryption(there: HostileServer) -> None:
    there.otherwise = lambda talk: talk.send("302 Found", Location="/on")
    with Outside(within=PATIENCE, silence=PATIENCE) as outside:
        with pytest.raises(httpx.TooManyRedirects):
            outside.ask("GET", there.url, most=10, hops=3)
        assert len(there.asked) == 4
        got = outside.ask("GET", there.url, most=10)
        assert (got.status, str(got.leads_to)) == (302, f"{there.url}/on")

    secret = httpx.Request("GET", "https://hub.example/a", headers={"Authorization": "Bearer x"})
    with pytest.raises(BoundsError, match="without encryption"):
        bounded._build_next_request(secret, httpx.Request("GET", "http://hub.example/a"))


def test_a_file_is_read_behind_redirects_that_are_not(there: HostileServer, tmp_path: Path) -> None:
    """The bomb stands where nobody looks; a refusal's body does not have to be read either."""
    there.says["/file"] = packed_moved
    there.says["/elsewhere"] = lambda talk: talk.send("200 OK", b"weights")
    file = RepositoryFile.check({"name": "a", "size": 7, "blob": "0" * 40, "sha256": ""})

    def fill(path: str) -> None:
        part = (tmp_path / "part").open("ab", buffering=0)
        with part, httpx.Client(timeout=PATIENCE) as client:
            places.fill(
                client,
                f"{there.url}{path}",
                part,
                file,
                pace=Pace(),
                stop=threading.Event(),
                grew=lambda size: None,
            )

    bomb()
    tracemalloc.start(1)
    try:
        fill("/file")
        there.says["/file"] = packed_refusal
        (tmp_path / "part").unlink()
        with pytest.raises(places.HubRefusalError) as caught:
            fill("/file")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.status == 403
    assert peak < MOST_MEMORY


def test_a_name_with_several_addresses_is_asked_at_the_next_one(there: HostileServer) -> None:
    there.otherwise = lambda talk: talk.send("200 OK", talk.headers.encode())
    nobody, here = ipaddress.ip_address("127.0.0.9"), ipaddress.ip_address("127.0.0.1")
    with Outside(within=PATIENCE, silence=PATIENCE) as outside:
        url = f"http://box.example:{there.port}/"
        got = outside.ask("GET", url, most=1000, at=[nobody, here])
        assert f"Host: box.example:{there.port}".encode() in got.body
        with pytest.raises(httpx.ConnectError):
            outside.ask("GET", url, most=1000, at=[nobody])


def named(monkeypatch: pytest.MonkeyPatch, names: dict[str, list[str]]) -> None:
    """These names and no others are known."""

    def getaddrinfo(host: str, port: int, **_more: object) -> list[Any]:
        try:
            found = [str(ipaddress.ip_address(host))]
        except ValueError:
            found = names.get(host, [])
        if not found:
            raise socket.gaierror(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in found]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(bounded, "getproxies", dict)


NAMES = {
    "docker.io": ["52.1.1.1"], "auth.docker.io": ["52.1.1.2"], "ghcr.io": ["140.82.1.1"],
    "harbor.corp": ["10.0.0.5"], "gitlab.corp": ["10.0.0.5"], "other.corp": ["10.0.0.6"],
    "rebound.example": ["93.184.215.14", "10.0.0.6"], "meta.example": ["169.254.169.254"],
    "localhost": ["127.0.0.1"], "shared.example": ["100.64.0.1"],
}  # fmt: skip
IN_BOX_TOML = ("https://other.corp", "http://10.0.0.7:8000/")
LINK = "http://169.254.169.254"


@table(
    ("image", "realm", "in_toml", "is_asked"),
    [
        # To the internet, with encryption.
        ("vllm/vllm-openai", "https://auth.docker.io/token", (), True),
        ("ghcr.io/a/b", "https://ghcr.io/token", (), True),
        ("harbor.corp/a/b", "https://auth.docker.io/token", (), True),
        ("ghcr.io/a/b", "http://ghcr.io/token", (), False),
        # To the registry itself, or its machine.
        ("harbor.corp/a/b", "https://harbor.corp/service/token", (), True),
        ("harbor.corp:5050/a/b", "https://gitlab.corp/jwt/auth", (), True),
        ("harbor.corp/a/b", "http://harbor.corp/service/token", (), False),
        ("127.0.0.1:5000/a", "http://127.0.0.1:5000/token", (), True),
        ("localhost:5000/a", "http://127.0.0.1:5000/token", (), True),
        # To what only this box reaches.
        ("127.0.0.1:5000/a", "http://127.0.0.1:8499/meta", (), False),
        ("127.0.0.1:5000/a", "https://127.0.0.1:8499/meta", (), False),
        ("127.0.0.1:5000/a", "http://auth.docker.io/token", (), False),
        ("127.0.0.1:5000/a", "http://10.0.0.6/", (), False),
        ("ghcr.io/a/b", "https://other.corp/", (), False),
        ("ghcr.io/a/b", "https://10.0.0.6/", (), False),
        ("ghcr.io/a/b", "https://[::1]/", (), False),
        ("ghcr.io/a/b", "https://[::ffff:10.0.0.6]/", (), False),
        ("ghcr.io/a/b", "https://[64:ff9b::a00:6]/", (), False),
        ("ghcr.io/a/b", "https://shared.example/", (), False),
        ("ghcr.io/a/b", "https://rebound.example/", (), False),
        ("ghcr.io/a/b", "https://meta.example/", (), False),
        ("ghcr.io/a/b", "https://nobody.example/", (), False),
        ("ghcr.io/a/b", f"{LINK}/latest/", (), False),
        ("ghcr.io/a/b", "file:///etc/passwd", (), False),
        ("ghcr.io/a/b", "/token", (), False),
        ("ghcr.io/a/b", "", (), False),
        # Where who administers the box says so; their own link never.
        ("ghcr.io/a/b", "https://other.corp/x", IN_BOX_TOML, True),
        ("harbor.corp/a/b", "http://10.0.0.7:8000/x", IN_BOX_TOML, True),
        ("ghcr.io/a/b", "http://other.corp/x", IN_BOX_TOML, False),
        ("ghcr.io/a/b", "https://other.corp:8443/x", IN_BOX_TOML, False),
        ("ghcr.io/a/b", f"{LINK}/", (LINK,), False),
    ],
)
def test_a_registry_sends_for_a_token_to_itself_or_to_the_internet(
    image: str,
    realm: str,
    in_toml: tuple[str, ...],
    is_asked: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    named(monkeypatch, NAMES)
    try:
        found = Realms(in_toml).where(httpx.URL(realm), parse(image))
    except RealmError:
        assert not is_asked
    else:
        assert is_asked
        assert found
        assert not any(each.is_link_local for each in found)


def test_what_a_proxy_alone_knows_is_left_to_it_over_https(monkeypatch: pytest.MonkeyPatch) -> None:
    named(monkeypatch, NAMES)
    monkeypatch.setattr(bounded, "getproxies", lambda: {"all": "http://proxy.corp:3128"})
    ghcr = parse("ghcr.io/a/b")
    assert Realms().where(httpx.URL("https://far.example/token"), ghcr) is None
    assert Realms().where(httpx.URL("https://auth.docker.io/token"), ghcr) is None
    for realm in ("http://far.example/token", "https://10.0.0.6/", "https://other.corp/"):
        with pytest.raises(RealmError):
            Realms().where(httpx.URL(realm), ghcr)


def test_a_registry_of_this_box_does_not_have_another_port_asked(there: HostileServer) -> None:
    """What answers there would be sent back to it as a token."""
    with hostile.hostile_server() as inside:
        inside.otherwise = lambda talk: talk.send("200 OK", b'{"token": "INTERNAL"}')
        challenge = f'Bearer realm="{inside.url}/meta",service="x"'
        there.otherwise = lambda talk: talk.send("401 No", WWW_Authenticate=challenge)

        with pytest.raises(RegistryError, match="wants credentials without encryption"):
            registry.size(f"{there.host}/vllm:1", "amd64")

    assert not inside.asked
    assert len(there.asked) == 1


@table("size", [-1, "5", 1.5, 10**400, True, None, [], {"a": 1}])
def test_a_size_that_is_none_counts_nothing(size: object) -> None:
    with hostile.hostile_server() as there:
        said = json.dumps({"layers": [{"digest": "sha256:1", "size": size}, 5]}).encode()
        there.otherwise = lambda talk: talk.send("200 OK", said)
        found = registry.size(f"{there.host}/vllm:1", "amd64")
    assert found is not None
    assert found.total == 0
