"""A registry on loopback with one image, for tests of pulls. Docker takes http from 127.0.0.0/8."""

import base64
import gzip
import hashlib
import io
import json
import random
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from urllib.parse import parse_qs, urlsplit

from servers.host.docker.containers import DockerContainers

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
PIECE = 1 << 16
# What Docker has, as it names it.
ARCHITECTURES = MappingProxyType({"x86_64": "amd64", "aarch64": "arm64"})


@dataclass
class Registry:
    """`hold` lets the rest of each layer trickle until `go_on` is set."""

    name: str
    blobs: dict[str, bytes]
    manifest: bytes
    hold: bool = False
    whole: int = 0  # so many layers come whole all the same, the first ones
    go_on: threading.Event = field(default_factory=threading.Event)
    # Set when a client leaves in the middle of a layer.
    left: threading.Event = field(default_factory=threading.Event)
    port: int = 0
    login: str = ""  # "name:password" that it wants; "": everybody is let in
    # Whether it wants a token, which /token gives to who logs in there, as the Docker Hub does.
    by_token: bool = False
    tokens: dict[str, str] = field(default_factory=dict)  # that were given, and for which scope

    @property
    def image(self) -> str:
        return f"127.0.0.1:{self.port}/{self.name}:1"


def pull(docker: DockerContainers, reference: str) -> None:
    for _line in docker.begin_pull(reference):
        pass


@contextmanager
def registry(architecture: str, *, layers: int = 2, size: int = 1 << 20) -> Iterator[Registry]:
    """`size` is a layer's, in bytes."""
    made = _registry(ARCHITECTURES[architecture], layers, size)

    class RegistryRequestHandler(_RegistryHandler):
        serves = made

    with ThreadingHTTPServer(("127.0.0.1", 0), RegistryRequestHandler) as server:
        made.port = server.server_port
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield made
        finally:
            made.go_on.set()
            server.shutdown()
            thread.join()


class _RegistryHandler(BaseHTTPRequestHandler):
    serves: Registry

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        if self.serves.by_token and urlsplit(self.path).path == "/token":
            self._give_token()
            return
        if not (self._has_token() if self.serves.by_token else self._knows_login()):
            self._refuse()
            return
        kind, content = self._find()
        self.send_response(404 if content is None else 200)
        body = b'{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}'
        body = body if content is None else content
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Docker-Content-Digest", _digest(body))
        self.end_headers()
        if not with_body:
            return
        try:
            self.wfile.write(body[:PIECE])
            rest = memoryview(body)[PIECE:]
            while rest and self._is_held(body) and not self.serves.go_on.wait(0.05):
                # In silence Docker would not notice that nobody wants the layer any more.
                self.wfile.write(rest[:1])
                rest = rest[1:]
            self.wfile.write(rest)
        except OSError:
            self.serves.left.set()

    def _knows_login(self) -> bool:
        wanted = base64.b64encode(self.serves.login.encode()).decode()
        return not self.serves.login or self.headers.get("Authorization") == f"Basic {wanted}"

    def _has_token(self) -> bool:
        """One for this repository; Docker asks /v2/ itself with one for nothing."""
        kind, _space, token = self.headers.get("Authorization", "").partition(" ")
        scope = self.serves.tokens.get(token)
        is_enough = self.path.strip("/") == "v2" or scope == self._scope
        return kind == "Bearer" and scope is not None and is_enough

    @property
    def _scope(self) -> str:
        return f"repository:{self.serves.name}:pull"

    def _give_token(self) -> None:
        if not self._knows_login():
            self._refuse()
            return
        asked = parse_qs(urlsplit(self.path).query)
        token = f"token-{len(self.serves.tokens)}"
        is_known = asked.get("service") == ["tests"]
        self.serves.tokens[token] = asked.get("scope", [""])[0] if is_known else "another service"
        self._send(200, json.dumps({"token": token}).encode())

    def _is_held(self, body: bytes) -> bool:
        if not self.serves.hold:
            return False
        listed = json.loads(self.serves.manifest)["layers"][self.serves.whole :]
        return _digest(body) in {each["digest"] for each in listed}

    def _refuse(self) -> None:
        body = b'{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}'
        wanted = 'Basic realm="tests"'
        if self.serves.by_token and urlsplit(self.path).path != "/token":
            realm = f"http://127.0.0.1:{self.serves.port}/token"
            wanted = f'Bearer realm="{realm}",service="tests",scope="{self._scope}"'
        self._send(401, body, ("WWW-Authenticate", wanted))

    def _send(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (("Content-Type", "application/json"), *headers):
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _find(self) -> tuple[str, bytes | None]:
        words = self.path.strip("/").split("/")
        match words[-2:]:
            case ["v2"] | [_, "v2"]:
                return "application/json", b"{}"
            case ["manifests", reference]:
                known = ("1", _digest(self.serves.manifest))
                return MANIFEST, self.serves.manifest if reference in known else None
            case ["blobs", digest]:
                content = self.serves.blobs.get(digest)
                return LAYER if content and content[:2] == b"\x1f\x8b" else CONFIG, content
        return "application/json", None

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing; pytest shows what matters."""


def _registry(architecture: str, layers: int, size: int) -> Registry:
    # Not the same layers every time: Docker would have them.
    seed = random.Random()  # noqa: S311
    blobs: dict[str, bytes] = {}
    described, digests = [], []
    for number in range(layers):
        tar = _tar(f"weights-{number}", seed.randbytes(size))
        packed = gzip.compress(tar, compresslevel=1)
        blobs[_digest(packed)] = packed
        digests.append(_digest(tar))
        described.append({"mediaType": LAYER, "size": len(packed), "digest": _digest(packed)})
    config = json.dumps(
        {
            "architecture": architecture,
            "os": "linux",
            "config": {"Entrypoint": ["/weights-0"], "Labels": {"made": "by a test"}},
            "rootfs": {"type": "layers", "diff_ids": digests},
            "history": [{"created_by": "test"} for _ in digests],
        }
    ).encode()
    blobs[_digest(config)] = config
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {"mediaType": CONFIG, "size": len(config), "digest": _digest(config)},
        "layers": described,
    }
    return Registry(
        name=f"engine-{seed.randrange(10**9)}", blobs=blobs, manifest=json.dumps(manifest).encode()
    )


def _tar(name: str, content: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
