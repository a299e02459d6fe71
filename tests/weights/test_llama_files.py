"""The GGUF file that a llama.cpp profile names: found on the box, or offered to be downloaded."""

from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from servers.host.weights import checkpoints, stored
from servers.host.weights.fetch import listing
from servers.host.weights.fetch.places import RepositoryFile
from servers.launch.engines import llamacpp
from servers.launch.engines.launch import Launch
from servers.lifecycle.profiles import preflight
from servers.lifecycle.profiles.knowledge import LaunchContext
from servers.lifecycle.weights import fetch
from servers.lifecycle.weights import inventory as lifecycle
from servers.lifecycle.weights.downloads import DownloadRequest
from servers.models import Box, CheckpointFacts, Download, ModelInventory, Server, User
from servers.watcher.weights import HubSizes, look_at_checkpoints
from tests import factories
from tests.box_files import anywhere, on_box
from tests.cases import table
from tests.llamacpp.gguf_file import header
from tests.model_hub import COMMIT, model_hub
from tests.weights.test_downloading import CACHE, Watch, ada, box, root, watch
from tests.weights.test_gguf import QWEN

__all__ = ["ada", "box", "root", "watch"]  # fixtures

REPOSITORY = "unsloth/gemma-3-4b-it-GGUF"
PARTS = [f"UD-Q2_K_XL/gemma-UD-Q2_K_XL-0000{n}-of-00002.gguf" for n in (1, 2)]
NAMES = [
    "README.md", "gemma-BF16.gguf", "gemma-Q4_K_M.gguf", "gemma-Q8_0.gguf", "imatrix_q.gguf",
    "mmproj-F16.gguf", *reversed(PARTS),
]  # fmt: skip


@table(
    ("wanted", "found"),
    [
        ("", ["gemma-Q4_K_M.gguf"]),
        ("q8_0", ["gemma-Q8_0.gguf"]),
        ("UD-Q2_K_XL", PARTS),
        (PARTS[0], PARTS),
        ("GEMMA-bf16.gguf", ["gemma-BF16.gguf"]),
        ("Q4_K_S", []),
        ("none.gguf", []),
        ("F16", ["gemma-BF16.gguf"]),  # as llama.cpp reads it
    ],
)
def test_llama_cpp_loads_one_model_of_many(wanted: str, found: list[str]) -> None:
    assert stored.find_model(NAMES, wanted) == found


def test_what_llama_cpp_takes_by_itself() -> None:
    assert stored.find_model(["b-F32.gguf", "a-BF16.gguf"]) == ["a-BF16.gguf"]
    assert stored.find_model(["b-Q8_0.gguf", "a-BF16.gguf"]) == ["b-Q8_0.gguf"]
    assert stored.find_model(["mmproj-F16.gguf"]) == []
    assert not stored.is_whole(PARTS[:1])
    assert not stored.is_whole([])


def test_a_download_takes_all_parts_and_what_stands_beside_them() -> None:
    files = [RepositoryFile(name=name, size=1, blob="0" * 40) for name in NAMES]
    chosen = listing.choose_files(files, [f":{PARTS[0]}"])
    assert {each.name for each in chosen} == {*PARTS, "README.md", "mmproj-F16.gguf"}
    assert "gemma-Q4_K_M.gguf" in {each.name for each in listing.choose_files(files, [":"])}


def launch(checkpoint: str, *flags: str, **more: Any) -> Launch:
    return Launch(engine="llamacpp", image="x", checkpoint=checkpoint, flags=flags, **more)


def test_a_launch_names_a_repository_and_what_of_it() -> None:
    assert llamacpp.of_hub(launch(f"{REPOSITORY}:Q4_K_M")) == (REPOSITORY, "Q4_K_M")
    assert llamacpp.of_hub(launch(REPOSITORY)) == (REPOSITORY, "")
    assert llamacpp.of_hub(launch(REPOSITORY, "--hf-file", "a.gguf")) == (REPOSITORY, "a.gguf")
    assert llamacpp.of_hub(launch(f"{REPOSITORY}:x", "-hff=a.gguf")) == (REPOSITORY, "a.gguf")
    assert llamacpp.of_hub(launch("/models/a.gguf")) is None
    assert llamacpp.of_hub(launch("a.gguf")) is None


@pytest.mark.django_db
def test_what_a_profile_needs_of_the_hub(root: Path, box: Box) -> None:
    def of(
        checkpoint: str, *flags: str, engine: str = "llamacpp", **more: Any
    ) -> DownloadRequest | None:
        made = Launch(engine=engine, image="x", checkpoint=checkpoint, flags=flags, **more)
        return fetch.build_download_request(made, box)

    assert of("Qwen/Qwen3-8B", engine="vllm", revision="v1") == DownloadRequest(
        repository="Qwen/Qwen3-8B", revision="v1"
    )
    assert of("Qwen/../x", engine="vllm") is None
    assert of(f"{REPOSITORY}:Q4_K_M") == DownloadRequest(
        repository=REPOSITORY, patterns=(":Q4_K_M",)
    )
    assert of(REPOSITORY) == DownloadRequest(repository=REPOSITORY, patterns=(":",))
    assert of(REPOSITORY, "-hff", PARTS[0]) == DownloadRequest(
        repository=REPOSITORY, patterns=(f":{PARTS[0]}",)
    )

    # A path tells it where downloads would have put it.
    factories.observation(
        ModelInventory,
        box,
        roots=[{"path": "/mnt/models", "refused": ""}, {"path": "/srv/closed", "refused": "no"}],
    )
    mounts = ("/mnt/models:/models:ro", "/srv/closed:/closed:ro")
    here = of(f"/models/{REPOSITORY}/{PARTS[0]}", volumes=mounts)
    assert here == DownloadRequest(
        repository=REPOSITORY, patterns=(f":{PARTS[0]}",), into="/mnt/models"
    )
    assert of("/models/Qwen/Qwen3-8B", engine="vllm", volumes=mounts) == DownloadRequest(
        repository="Qwen/Qwen3-8B", into="/mnt/models"
    )
    for path in ("/models/a.gguf", f"/closed/{REPOSITORY}/a.gguf", f"/other/{REPOSITORY}/a.gguf"):
        assert of(path, volumes=mounts) is None, path
    hub = "/root/.cache/huggingface/hub"
    snapshot = f"{hub}/models--unsloth--gemma-3-4b-it-GGUF/snapshots/{COMMIT}"
    assert of(f"{snapshot}/gemma-Q4_K_M.gguf") == DownloadRequest(
        repository=REPOSITORY, revision=COMMIT, patterns=(":gemma-Q4_K_M.gguf",)
    )
    assert of(f"{hub}/models--unsloth--gemma-3-4b-it-GGUF/blobs/0") is None


def test_a_model_is_whole_with_all_of_its_parts(tmp_path: Path) -> None:
    folder = tmp_path / "UD-Q2_K_XL"
    folder.mkdir()
    (tmp_path / PARTS[0]).write_bytes(header(QWEN) + b"\0" * 100)
    assert checkpoints.look_for_gguf(on_box(tmp_path), "UD-Q2_K_XL", anywhere()) is None
    (tmp_path / PARTS[1]).symlink_to(tmp_path / "nothing")
    assert checkpoints.look_for_gguf(on_box(tmp_path), "UD-Q2_K_XL", anywhere()) is None
    (tmp_path / "nothing").write_bytes(b"\0" * 50)
    found = checkpoints.look_for_gguf(on_box(tmp_path), PARTS[0], anywhere())
    assert found is not None
    assert found.weights == len(header(QWEN)) + 150
    assert found.config
    assert found.config["num_hidden_layers"] == 36


@pytest.fixture
def server(box: Box) -> Server:
    return factories.server(
        box, "gemma", engine="llamacpp", checkpoint=f"{REPOSITORY}:UD-Q2_K_XL", gpus="none"
    )


def download(client: Client, server: Server) -> tuple[str, Download]:
    """What the profile's page shows, and what its button asks for."""
    page = f"/profiles/{server.profile.slug}/"
    shown = client.get(page)
    (offered,) = [each["offer"] for each in shown.context["servers"]]
    wish = offered.wish
    sent = {
        "of": wish.repository, "revision": wish.revision, "box": "rtx8", "into": wish.into,
        "files": list(wish.patterns),
    }  # fmt: skip
    client.post("/models/download/start/", sent)
    return shown.content.decode(), Download.objects.get()


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("own_redis")
def test_a_gguf_that_is_not_here_is_offered_downloaded_and_found(
    root: Path, box: Box, ada: User, watch: Watch, server: Server, settings: Any
) -> None:
    content = {name: header(QWEN) + bytes([n]) * 3000 for n, name in enumerate(NAMES)}
    size = sum(len(content[name]) for name in PARTS)
    with model_hub() as hub:
        settings.HUB = hub.url
        hub.has(REPOSITORY, content)
        look_at_checkpoints(box, HubSizes())
        facts = CheckpointFacts.objects.get()
        assert (facts.source, facts.remote) == (f"{REPOSITORY}:UD-Q2_K_XL@main", "open")
        assert (facts.weights, facts.missing) == (size, size)

        client = factories.log_in(ada)
        page, row = download(client, server)
        assert "Download it to rtx8" in page
        assert f"?of={REPOSITORY}%3AUD-Q2_K_XL&amp;".replace("/", "%2F") in page
        assert row.patterns == [":UD-Q2_K_XL"]
        assert (
            "It is on its way" in client.get(f"/profiles/{server.profile.slug}/").content.decode()
        )

        watch.until_over(row)
        assert row.state == "done", row.said
    folder = root / CACHE / "models--unsloth--gemma-3-4b-it-GGUF/snapshots" / COMMIT
    there = {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()}
    assert there == {*PARTS, "README.md", "mmproj-F16.gguf"}
    look_at_checkpoints(box, HubSizes())
    facts = CheckpointFacts.objects.get()
    assert (facts.remote, facts.weights, facts.missing) == ("", size, 0)
    assert fetch.find_offer(LaunchContext(server.profile.launch, box, server.profile)) is None


@pytest.mark.django_db
@pytest.mark.usefixtures("own_redis")
def test_a_path_where_nothing_lies_is_offered_too(
    root: Path, box: Box, ada: User, settings: Any
) -> None:
    settings.HUB = "http://127.0.0.1:9"  # which nobody asks for a path
    factories.observation(ModelInventory, box, roots=[{"path": "/mnt/models", "refused": ""}])
    server = factories.server(
        box, "gemma", engine="llamacpp", checkpoint=f"/models/{REPOSITORY}/gemma-Q8_0.gguf",
        volumes=("/mnt/models:/models:ro",),
    )  # fmt: skip
    profile, made = server.profile, server.profile.launch
    look_at_checkpoints(box, HubSizes())
    assert fetch.find_offer(LaunchContext(made, box, profile)) is None, (
        "the watcher has not had its time"
    )
    assert profile.current is not None
    profile.current.created_at = timezone.now() - 2 * preflight.LOOKED_WITHIN
    profile.current.save()
    client = factories.log_in(ada)
    _page, row = download(client, server)
    assert (row.into, row.patterns) == ("/mnt/models", [":gemma-Q8_0.gguf"])

    path = root / "mnt/models" / REPOSITORY / "gemma-Q8_0.gguf"
    path.parent.mkdir(parents=True)
    path.write_bytes(header(QWEN))
    look_at_checkpoints(box, HubSizes())
    assert fetch.find_offer(LaunchContext(made, box, profile)) is None


@pytest.mark.django_db
def test_what_keeps_its_own_cache_is_not_looked_for(root: Path, box: Box) -> None:
    def source(**env: str) -> str:
        return lifecycle.source(launch(f"{REPOSITORY}:Q8_0", env=env), box)

    assert source() == f"{REPOSITORY}:Q8_0@main"
    assert source(LLAMA_CACHE="/root/.cache/huggingface/hub")
    assert source(LLAMA_CACHE="/root/.cache/llama.cpp") == ""
