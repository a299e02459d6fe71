"""What the Hub says of models that are not on the box, asked of one that stands here."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from servers.host.weights import hub
from servers.host.weights.hub import HubError, RemoteModel
from servers.lifecycle.profiles import preflight
from servers.lifecycle.profiles.knowledge import LaunchContext
from servers.models import Box, CheckpointFacts, Secret, Server
from servers.watcher.weights import HubSizes, look_at_checkpoints
from tests import factories
from tests.weights.test_inventory import blob
from tests.weights.test_inventory import hub as snapshot_of

GIB = 2**30
CONFIG = {"architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": 64}
INDEX = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
SIZES = {
    "config.json": 900, "README.md": 5000, "model-1.safetensors": 40 * GIB,
    "model-2.safetensors": 23 * GIB, "consolidated.safetensors": 63 * GIB,
    "original/model.safetensors": 63 * GIB, "pytorch_model.bin": 63 * GIB,
}  # fmt: skip


class Hub(ThreadingHTTPServer):
    """Speaks as much of the Hub's API as is asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _HubReplyHandler)
        self.models: dict[str, dict[str, Any]] = {}
        self.needs_token: set[str] = set()  # for the files, not for the list of them
        self.asked: list[str] = []
        self.body: bytes | None = None  # instead of every answer

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def has(self, name: str, sizes: dict[str, int], **files: Any) -> None:
        self.models[name] = {
            "list": {"siblings": [{"rfilename": k, "size": v} for k, v in sizes.items()]},
            **{key.replace("__", "."): value for key, value in files.items()},
        }


class _HubReplyHandler(BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        status, said = self._said()
        body = self.server.body if self.server.body is not None else json.dumps(said).encode()
        self.send_response(status)
        if status == 307:
            self.send_header("Location", self.path.replace("/resolve/", "/cache/"))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _said(self) -> tuple[int, Any]:
        path = self.path.partition("?")[0].split("/")
        name = "/".join(path[3:5]) if path[1] == "api" else "/".join(path[1:3])
        model = self.server.models.get(name)
        if model is None:
            return 401, {"error": "Invalid username or password."}
        if path[1] == "api":
            return 200, model["list"]
        token = self.headers.get("Authorization")
        if name in self.server.needs_token and token != "Bearer hf_accepted":
            return (403 if token else 401), {"error": "Access to this model is restricted."}
        if path[3] == "resolve":
            return 307, {}
        return (200, model[path[5]]) if path[5] in model else (404, {})

    def log_message(self, *_args: Any) -> None:
        """Not into the tests' output."""


@pytest.fixture
def there(settings: Any) -> Iterator[Hub]:
    with Hub() as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        settings.HUB = made.url
        yield made
        made.shutdown()
        thread.join()


def coder(there: Hub) -> None:
    files = {"config__json": CONFIG, "model__safetensors__index__json": INDEX}
    there.has("Qwen/Coder", SIZES | {"model.safetensors.index.json": 70}, **files)


def test_the_files_of_the_index_are_what_an_engine_loads(there: Hub) -> None:
    coder(there)
    found = hub.look(there.url, "Qwen/Coder")
    assert found == RemoteModel(access="open", config=CONFIG, weights=63 * GIB)
    assert there.asked[0] == "/api/models/Qwen/Coder/revision/main?blobs=true"


def test_without_an_index_one_format_counts_once(there: Hub) -> None:
    there.has("a/b", SIZES)
    assert hub.look(there.url, "a/b", "refs/pr/1").weights == 63 * GIB
    assert "/revision/refs%2Fpr%2F1?" in there.asked[0]
    there.has("a/mistral", {"consolidated.safetensors": 7 * GIB})
    assert hub.look(there.url, "a/mistral").weights == 7 * GIB
    there.has("a/data", {"README.md": 7})
    assert hub.look(there.url, "a/data") == RemoteModel(access="open")


def test_a_licence_that_nobody_accepted_and_a_name_that_is_none(there: Hub) -> None:
    coder(there)
    there.needs_token.add("Qwen/Coder")
    refused = RemoteModel(access="refused", weights=63 * GIB)
    assert hub.look(there.url, "Qwen/Coder") == refused
    assert hub.look(there.url, "Qwen/Coder", token="hf_other") == refused  # noqa: S106
    assert hub.look(there.url, "Qwen/Coder", token="hf_accepted").config == CONFIG  # noqa: S106
    assert hub.look(there.url, "Qwen/Codr") == RemoteModel(access="gone")


@pytest.mark.parametrize("body", [b"", b"<html>captive portal</html>", b"[]", b'{"siblings": 3}'])
def test_what_is_no_hub_is_told(there: Hub, body: bytes) -> None:
    coder(there)
    there.body = body
    with pytest.raises(HubError, match="without a list of files"):
        hub.look(there.url, "Qwen/Coder")


def test_an_endless_answer_is_not_read_to_its_end(
    there: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "LONGEST", 1000)
    coder(there)
    there.body = b"x" * 2000
    with pytest.raises(HubError, match="answers with more than"):
        hub.look(there.url, "Qwen/Coder")


def test_nobody_there_is_told() -> None:
    with pytest.raises(HubError, match="does not answer"):
        hub.look("http://127.0.0.1:9", "Qwen/Coder")


@pytest.fixture
def box(root: Path) -> Box:
    found = factories.box(hf_cache="~/.cache/huggingface")
    card = {"name": "RTX PRO 6000", "compute_capability": "12.0", "total": 95 << 30}
    found.facts["gpus"] = [{"index": n, "kind": "discrete", **card} for n in range(8)]
    found.save()
    return found


def place(box: Box) -> Server:
    image = "vllm/vllm-openai:v0.20.2"
    return factories.server(
        box, "coder", "gpt-oss-120b", image=image, checkpoint="Qwen/Coder",
        flags=("--tensor-parallel-size", "2"), gpus="all",
    )  # fmt: skip


def items(server: Server) -> dict[str, tuple[str, str]]:
    checked = preflight.check(
        LaunchContext(server.profile.launch, server.box, server.profile, server)
    )
    return {each.id: (each.level, each.says) for each in checked.items}


@pytest.mark.django_db
@pytest.mark.usefixtures("own_redis")
def test_what_is_to_be_downloaded_is_judged_before_it_is(
    there: Hub, box: Box, settings: Any
) -> None:
    coder(there)
    server, asking = place(box), HubSizes()

    look_at_checkpoints(box, asking)

    kept = CheckpointFacts.objects.get()
    assert (kept.remote, kept.weights, kept.missing) == ("open", 63 * GIB, 63 * GIB)
    checked = preflight.check(LaunchContext(server.profile.launch, box, server.profile, server))
    assert checked.fit is not None
    level, says = items(server)["checkpoint"]
    assert (level, says) == (
        "ok", "Qwen/Coder is not on rtx8; the engine downloads it, 63.0 GiB.",
    )  # fmt: skip

    # Asked once, and what is on the disk outranks it.
    count = len(there.asked)
    look_at_checkpoints(box, asking)
    assert len(there.asked) == count
    cache = settings.HOST_ROOT / "home/ada/.cache/huggingface/hub"
    blob(snapshot_of(cache, "Qwen/Coder"), "model.safetensors", 4096)
    look_at_checkpoints(box, asking)
    kept = CheckpointFacts.objects.get()
    assert (kept.remote, kept.missing) == ("", 0)
    assert items(server)["checkpoint"][1] == "Qwen/Coder is on rtx8."


@pytest.mark.django_db
@pytest.mark.usefixtures("own_redis")
def test_a_licence_or_a_wrong_name_is_told_before_the_start(there: Hub, box: Box) -> None:
    server = place(box)
    look_at_checkpoints(box, HubSizes())
    level, says = items(server)["checkpoint"]
    assert level == "error"
    assert "shows no such model to requests without a token" in says

    coder(there)
    there.needs_token.add("Qwen/Coder")
    look_at_checkpoints(box, HubSizes())
    level, says = items(server)["token"]
    assert level == "error"
    assert "the engine is given no token" in says

    box.hf_token = Secret.seal("HF_TOKEN", "hf_other", None)
    box.save()
    look_at_checkpoints(box, HubSizes())
    assert items(server)["token"][0] == "warning"
    Secret.objects.filter(pk=box.hf_token.pk).delete()
    box.refresh_from_db()
    box.hf_token = Secret.seal("HF_TOKEN", "hf_accepted", None)
    box.save()
    look_at_checkpoints(box, HubSizes())
    assert "token" not in items(server)


@pytest.mark.django_db
@pytest.mark.usefixtures("own_redis")
def test_an_offline_box_is_left_alone(box: Box, settings: Any) -> None:
    settings.HUB = "http://127.0.0.1:9"
    server, asking = place(box), HubSizes()
    look_at_checkpoints(box, asking)
    assert not CheckpointFacts.objects.exists()
    assert items(server)["checkpoint"][0] == "unknown"

    settings.HUB = ""
    look_at_checkpoints(box, HubSizes())
    assert not CheckpointFacts.objects.exists()


@pytest.mark.django_db
@pytest.mark.usefixtures("own_redis")
def test_what_the_hub_has_said_stays_while_it_is_away(there: Hub, box: Box, settings: Any) -> None:
    coder(there)
    place(box)
    look_at_checkpoints(box, HubSizes())
    settings.HUB = "http://127.0.0.1:9"
    look_at_checkpoints(box, HubSizes())
    assert CheckpointFacts.objects.get().remote == "open"

    settings.HUB = ""
    look_at_checkpoints(box, HubSizes())
    assert not CheckpointFacts.objects.exists()
