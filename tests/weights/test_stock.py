"""The models on a box's disks: where they are looked for, what is kept, who uses them."""

import json
import os
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from servers.judge.weights import checkpoints as judge
from servers.lifecycle.weights import inventory
from servers.models import (
    Box,
    HostResources,
    ImageFacts,
    ModelInventory,
    Role,
    Run,
    Server,
    StoredCheckpoint,
)
from servers.models.runs.run import RunState
from servers.watcher.weights import ModelScan
from tests import factories
from tests.weights.test_inventory import CONFIG, blob, folder, gguf, hub

GIB = 2**30


def test_the_quantization_is_told_in_the_words_that_people_use() -> None:
    def told(**config: Any) -> str:
        return judge.quantization({"quantization_config": config})

    assert told(quant_method="fp8") == "FP8"
    assert told(quant_method="modelopt", quant_algo="NVFP4") == "NVFP4"
    assert told(quant_method="modelopt", quant_algo="MIXED_PRECISION") == "ModelOpt"
    assert told(quant_method="compressed-tensors", format="nvfp4-pack-quantized") == "NVFP4"
    packed = {"quant_method": "compressed-tensors"}
    assert told(**packed, format="float-quantized") == "FP8 compressed-tensors"
    four = {"group_0": {"weights": {"num_bits": 4, "type": "int"}}}
    assert told(**packed, format="pack-quantized", config_groups=four) == "INT4 compressed-tensors"
    assert told(**packed, config_groups="broken") == "compressed-tensors"
    assert told(quant_method="awq", bits=4) == "AWQ 4-bit"
    assert told(quant_method="mxfp4") == "MXFP4"
    assert told(quant_method="newest") == "newest"
    assert judge.quantization({"torch_dtype": "bfloat16"}) == "BF16"
    assert judge.quantization({"text_config": {"dtype": "float16"}}) == "FP16"
    assert judge.quantization({"text_config": "broken"}) == ""
    assert judge.quantization(None) == judge.quantization({}) == ""


def test_context_and_architecture_are_those_of_the_text_model() -> None:
    assert judge.context({"text_config": {"max_position_embeddings": 262144}}) == 262144
    assert judge.context({"max_position_embeddings": 40960}) == 40960
    assert judge.context({"max_position_embeddings": "many"}) is None
    assert judge.architecture({"architectures": ["LlamaForCausalLM"]}) == "LlamaForCausalLM"
    assert judge.architecture({"architectures": [], "model_type": "gemma3"}) == "gemma3"
    assert judge.architecture(None) == ""


def cards(*sizes: int, kind: str = "discrete") -> list[dict[str, Any]]:
    return [
        {"index": at, "name": "", "total": size * GIB, "kind": kind}
        for at, size in enumerate(sizes)
    ]


def test_the_weights_say_how_many_gpus_they_need() -> None:
    eight = cards(*[95] * 8)

    def told(weights: int, of: list[dict[str, Any]] | None) -> str | None:
        found = judge.room(weights * GIB, of)
        return found.words if found else None

    assert told(80, eight) == "fits on one of 8 GPUs"
    assert told(130, eight) == "needs 2 of 8 GPUs"
    assert told(300, eight) == "needs 4 of 8 GPUs"
    assert told(720, eight) == "too large for 8 × 95 GiB"
    assert told(20, cards(24)) == "fits on its GPU"
    # Engines divide by equal cards: the small one beside them is no third.
    assert told(150, cards(80, 80, 24)) == "too large for 2 × 80 GiB"
    assert told(100, cards(119, kind="unified")) == "fits in its memory"
    assert told(105, cards(119, kind="unified")) == "too large for its 119 GiB"
    assert told(80, None) is None
    assert told(80, [{"total": None}]) is None
    assert told(0, eight) is None


@pytest.fixture
def box() -> Box:
    found = factories.box(hf_cache="~/.cache/huggingface")
    found.facts["gpus"] = cards(*[95] * 8)
    found.save()
    return found


pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]


def look(box: Box) -> ModelInventory:
    ModelScan(box).look(go_on=lambda: True)
    return ModelInventory.objects.get(box=box)


def told(box: Box) -> dict[str, str]:
    return {each.name: each.state for each in StoredCheckpoint.objects.filter(box=box)}


def test_the_usual_folders_are_looked_into(box: Box, root: Path) -> None:
    folder(root / "home/ada/models/org/one", "a.safetensors")
    folder(root / "mnt/models/two", "a.safetensors", "b.safetensors", index=True)
    (root / "mnt/models/two/b.safetensors").unlink()
    snapshot = hub(root / "home/ada/.cache/huggingface/hub", "Qwen/Qwen3-8B")
    blob(snapshot, "model.safetensors", 4096)
    folder(root / "home/ada/thesis/secret", "a.safetensors")

    seen = look(box)

    assert told(box) == {"org/one": "complete", "two": "partial", "Qwen/Qwen3-8B": "complete"}
    assert [each["path"] for each in seen.roots] == [
        "/home/ada/.cache/huggingface", "/home/ada/models", "/home/ada/.cache/modelscope",
        "/home/ada/.cache/llama.cpp", "/models", "/data", "/mnt", "/srv", "/raid",
    ]  # fmt: skip
    assert [each["path"] for each in seen.roots if each["absent"]] == [
        "/home/ada/.cache/modelscope", "/home/ada/.cache/llama.cpp",
        "/models", "/data", "/srv", "/raid",
    ]  # fmt: skip
    assert seen.looked_at is not None
    assert not seen.looking_since


def test_a_start_that_mounts_something_is_looked_after_and_many_are_not_without_end(
    box: Box, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder(root / "mnt/models/one", "a.safetensors")
    now = [100.0]
    monkeypatch.setattr("servers.watcher.weights.time.monotonic", lambda: now[0])
    watcher = ModelScan(box)
    assert watcher.look(go_on=lambda: True) is None
    mounts = factories.server(box, "mounts", mount_hf_cache=False, volumes=("/mnt:/mnt",))
    nothing = factories.server(box, "mounts-nothing", mount_hf_cache=False)

    def start(
        server: Server, state: RunState = RunState.STARTING, **at: Any
    ) -> tuple[Any, set[str]]:
        factories.run(server, state, **({"started_at": timezone.now()} | at))
        due_in = watcher.look(go_on=lambda: True)
        Run.objects.all().delete()
        return due_in, set(told(box))

    now[0] += 60
    folder(root / "mnt/models/two", "a.safetensors")
    assert start(nothing) == (None, {"one"})
    assert start(mounts) == (None, {"one", "two"})
    folder(root / "mnt/models/three", "a.safetensors")
    now[0] += 3
    assert start(mounts) == (2.0, {"one", "two"}), "it rests, and says when it looks again"
    now[0] += 3
    assert start(mounts) == (None, {"one", "two", "three"})
    now[0] += 60
    folder(root / "mnt/models/four", "a.safetensors")
    long_ago = timezone.now() - timedelta(hours=1)
    assert start(mounts, started_at=long_ago) == (None, {"one", "two", "three"})
    # What the engine itself has downloaded is whole when it is ready.
    ready = start(mounts, RunState.READY, started_at=long_ago, ready_at=timezone.now())
    assert ready == (None, {"one", "two", "three", "four"})


def test_named_folders_are_looked_into_instead_and_only_where_profiles_may_mount(
    box: Box, root: Path
) -> None:
    folder(root / "mnt/one", "a.safetensors")
    folder(root / "data/two", "a.safetensors")
    folder(root / "etc/three", "a.safetensors")
    (root / "data/link").symlink_to("/etc")
    box.model_folders = "/data\n/etc\n/data/link\n/mnt/gone"
    box.save()

    seen = look(box)

    assert told(box) == {"two": "complete"}
    refused = {each["path"]: each["refused"] for each in seen.roots if each["refused"]}
    assert sorted(refused) == ["/data/link", "/etc"]
    assert "lies outside the folders" in refused["/data/link"]
    gone = [each["path"] for each in seen.roots if each["absent"] and not each["is_usual"]]
    assert gone == ["/mnt/gone"]


def test_what_is_gone_is_forgotten_and_what_stays_keeps_its_row(box: Box, root: Path) -> None:
    folder(root / "data/one", "a.safetensors")
    two = folder(root / "data/two", "a.safetensors")
    look(box)
    kept = StoredCheckpoint.objects.get(name="one").pk

    for each in two.iterdir():
        each.unlink()
    (root / "data/one/run.sh").write_text("vllm serve .")
    ModelInventory.objects.update(wanted_at=timezone.now())
    look(box)

    assert told(box) == {"one": "complete"}
    assert list(StoredCheckpoint.objects.get(pk=kept).texts) == ["run.sh"]


@pytest.mark.parametrize("said", [float("inf"), float("nan"), "\0", "\ud800", {"\0": [1]}])
def test_a_config_that_no_database_keeps_hides_no_model(box: Box, root: Path, said: Any) -> None:
    models = root / "home/ada/models"
    folder(models / "odd", "model.safetensors", config={**CONFIG, "limit": said})
    folder(models / "plain", "model.safetensors")

    look(box)

    found = {each.path.rpartition("/")[2]: each for each in StoredCheckpoint.objects.all()}
    assert set(found) == {"odd", "plain"}
    assert found["odd"].config is not None
    assert found["odd"].config["architectures"] == CONFIG["architectures"]
    written = str(found["odd"].config)
    assert not {"inf", "nan", "\\x00", "\\ud800"} & {*written.replace("'", " ").split(), written}


def test_an_index_that_names_more_than_any_disk_has_hides_no_model(box: Box, root: Path) -> None:
    models = root / "home/ada/models"
    odd = folder(models / "odd", "model-1.safetensors", index=True)
    told_by_index = {
        "weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"},
        "metadata": {"total_size": 10**30},
    }
    (odd / "model.safetensors.index.json").write_text(json.dumps(told_by_index))
    folder(models / "plain", "model.safetensors")

    look(box)

    assert {each.rpartition("/")[2]: state for each, state in told(box).items()} == {
        "odd": "partial", "plain": "complete",
    }  # fmt: skip


def test_a_path_that_is_longer_than_a_row_holds_hides_no_model(box: Box, root: Path) -> None:
    models = root / "home/ada/models"
    folder(models / "/".join(["d" * 240] * 5), "model.safetensors")
    folder(models / "plain", "model.safetensors")

    look(box)

    longest = StoredCheckpoint._meta.get_field("path").max_length
    assert longest is not None
    paths = list(StoredCheckpoint.objects.values_list("path", flat=True))
    assert [path.rpartition("/")[2] for path in paths] == ["plain"]
    assert all(len(path) <= longest for path in paths), "PostgreSQL takes no longer one"


def test_a_header_with_an_endless_number_hides_no_model(box: Box, root: Path) -> None:
    models = root / "home/ada/models"
    odd = folder(models / "odd", "model.safetensors")
    header = b'{"a": {"data_offsets": [0, ' + b"9" * 5000 + b"]}}"
    (odd / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    folder(models / "plain", "model.safetensors")

    look(box)

    assert {each.rpartition("/")[2] for each in told(box)} == {"odd", "plain"}


def test_names_and_times_that_no_database_keeps_hide_no_model(box: Box, root: Path) -> None:
    """Disks of old have names in other letters than UTF-8."""
    models = root / "home/ada/models"
    folder(models / "plain", "model.safetensors")
    folder(models / os.fsdecode(b"alt-gef\xe4hrt"), "model.safetensors")
    odd = folder(models / "odd", "model.safetensors")
    (odd / os.fsdecode(b"licence-\xe4")).write_text("")
    snapshot = hub(root / "home/ada/.cache/huggingface/hub", "org/hub")
    folder(snapshot / "sub")
    blob(snapshot, "model.safetensors", 4096)
    (snapshot / os.fsdecode(b"\xe4.safetensors")).symlink_to("nowhere")
    (snapshot.parent.parent / "refs" / os.fsdecode(b"\xe4")).write_text(snapshot.name)
    with suppress(OSError):  # not every file system knows such years
        os.utime(odd / "model.safetensors", (2**38, 2**38))

    look(box)

    assert {each.name.rpartition("/")[2] for each in StoredCheckpoint.objects.all()} == {
        "plain", "odd", "hub",
    }  # fmt: skip


def test_nobody_looks_before_it_is_time_unless_somebody_asks(box: Box, root: Path) -> None:
    first = look(box).looked_at
    folder(root / "data/one", "a.safetensors")
    assert look(box).looked_at == first
    assert told(box) == {}

    ModelInventory.objects.update(wanted_at=timezone.now())
    assert look(box).is_wanted is False
    assert told(box) == {"one": "complete"}


def test_a_wish_that_comes_while_a_look_begins_is_not_taken_for_done(
    box: Box, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder(root / "data/one", "a.safetensors")

    def wished(*_of: object) -> None:
        monkeypatch.undo()
        Box.objects.update(model_folders="/data")
        ModelInventory.objects.update(wanted_at=timezone.now())

    Box.objects.update(model_folders="/mnt")
    monkeypatch.setattr("servers.events.publish_change", wished)

    assert look(box).is_wanted
    assert told(box) == {}
    assert not look(box).is_wanted
    assert told(box) == {"one": "complete"}


def test_a_limits_file_that_cannot_be_read_loses_nothing(
    box: Box, root: Path, settings: Any
) -> None:
    folder(root / "data/one", "a.safetensors")
    look(box)
    settings.BOX_FILE.write_text("mount_roots = 3")
    ModelInventory.objects.update(wanted_at=timezone.now())
    assert look(box).looking_since == ""
    assert told(box) == {"one": "complete"}


def test_profiles_that_name_a_model_are_its_users(box: Box, root: Path) -> None:
    snapshot = hub(root / "home/ada/.cache/huggingface/hub", "Qwen/Qwen3-8B")
    blob(snapshot, "model.safetensors", 4096)
    old = hub(root / "home/ada/.cache/huggingface/hub", "Qwen/Qwen3-8B", "b" * 40, ref="v1")
    blob(old, "model.safetensors.old", 4096)
    blob(old, "model.safetensors", 4097)
    folder(root / "data/models/one", "a.safetensors")
    gguf(root / "data/models/two/q4.gguf")
    look(box)
    by_id = factories.server(box, "by-id", checkpoint="Qwen/Qwen3-8B")
    factories.server(box, "pinned", checkpoint="qwen/qwen3-8b", revision="bbbbbbb")
    factories.server(
        box, "by-path", checkpoint="/m/{{which}}", volumes=("/data/models:/m:ro",),
        parameters={"which": "one"},
    )  # fmt: skip
    factories.server(box, "by-file", checkpoint="/m/two/q4.gguf", volumes=("/data/models:/m",))
    factories.server(box, "elsewhere", checkpoint="/other/one")
    run = factories.run(by_id)

    uses = inventory.uses(box, factories.person())

    by_path = {each.path.removeprefix("/home/ada/.cache/huggingface/hub/"): each for each in
               StoredCheckpoint.objects.all()}  # fmt: skip
    names = {
        path: [(use.profile.name, use.last_started) for use in uses.get(each.pk, [])]
        for path, each in by_path.items()
    }
    assert names == {
        f"models--Qwen--Qwen3-8B/snapshots/{'a' * 40}": [("by-id", run.created_at)],
        f"models--Qwen--Qwen3-8B/snapshots/{'b' * 40}": [("pinned", None)],
        "/data/models/one": [("by-path", None)],
        "/data/models/two/q4.gguf": [("by-file", None)],
    }


def test_a_profile_can_be_made_of_what_lies_there(box: Box, root: Path) -> None:
    snapshot = hub(root / "data/hub", "unsloth/gemma-GGUF")
    kept = gguf(snapshot.parent.parent / "blobs" / "x")
    (snapshot / "gemma-Q4.gguf").symlink_to(kept)
    folder(root / "data/GLM-4.5", "a.safetensors", config=CONFIG)
    box.model_folders = "/data"
    box.save()
    look(box)
    StoredCheckpoint.objects.filter(name="GLM-4.5").update(weights=130 * GIB)
    ImageFacts.objects.create(
        box=box, engine="vllm", reference="team/vllm:7", asked_at=timezone.now()
    )

    glm = inventory.launch(StoredCheckpoint.objects.get(name="GLM-4.5"))
    assert (glm.engine, glm.image, glm.checkpoint) == ("vllm", "team/vllm:7", "/data/GLM-4.5")
    assert glm.volumes == ("/data/GLM-4.5:/data/GLM-4.5:ro",)
    assert glm.flags == ("--tensor-parallel-size", "2")

    gemma = inventory.launch(StoredCheckpoint.objects.get(name="unsloth/gemma-GGUF"))
    assert (gemma.engine, gemma.flags) == ("llamacpp", ())
    mounted = "/data/hub/models--unsloth--gemma-GGUF"
    assert gemma.volumes == (f"{mounted}:{mounted}:ro",)
    assert gemma.checkpoint.startswith(mounted)


@pytest.fixture
def ada() -> Client:
    return factories.log_in(factories.person("ada", Role.EDITOR))


def test_the_page_names_what_lies_there_and_what_cannot_be_seen(
    box: Box, root: Path, ada: Client
) -> None:
    assert "not scanned yet" in ada.get("/models/").content.decode()

    one = folder(root / "data/models/one", "a.safetensors")
    (one / "README.md").write_text("# <b>One</b>\n\n```\nvllm serve /data/models/one\n```\n")
    folder(root / "data/copy", "a.safetensors")
    box.model_folders = "/data\n/data/gone\n/etc"
    box.save()
    look(box)

    text = ada.get("/models/").content.decode()
    assert "2 models" in text
    assert "Same weights as /data/copy" in text
    assert "/data/gone does not exist." in text
    assert "/etc is not scanned" in text
    text = ada.get("/models/", {"q": "copy"}).content.decode()
    assert text.count('<th scope="row"') == 1
    assert "No model matches" in ada.get("/models/", {"state": "partial"}).content.decode()
    assert "/data/copy" in ada.get("/models/", {"state": "twice"}).content.decode()

    pk = StoredCheckpoint.objects.get(name="one").pk
    text = ada.get(f"/models/{pk}/").content.decode()
    assert "&lt;b&gt;One&lt;/b&gt;" in text
    assert "Import the command in it as a profile" in text

    form = ada.get("/profiles/new/", {"model": pk}).content.decode()
    assert 'value="/data/models/one"' in form
    assert ada.get("/profiles/new/", {"model": "999"}).status_code == 404


def test_each_disk_with_models_says_how_full_it_is(box: Box, root: Path, ada: Client) -> None:
    folder(root / "mnt/models/one", "a.safetensors")
    disk = {"total": 1000 * GIB, "device": 7}
    factories.observation(HostResources, box, found={
        "disks": {"cache": {"path": "/home/ada/.cache/huggingface", "free": 50 * GIB, **disk}}
    })  # fmt: skip
    seen = look(box)
    assert {"/mnt", "/data"} <= {each["path"] for each in seen.roots if each["disk"]["total"]}
    StoredCheckpoint.objects.update(size=400 * GIB)

    def told(*roots: tuple[str, int, int]) -> list[tuple[str, int, int, str]]:
        """Of folders on disks, as path, device and free bytes: path, percent, share and tone."""
        kept = [
            {"path": path, "is_usual": False, "absent": False, "refused": "", "hidden": [],
             "is_cut": False, "disk": {"free": free, "total": 1000 * GIB, "device": device}}
            for path, device, free in roots
        ]  # fmt: skip
        seen.write(roots=kept)
        (found,) = ada.get("/models/").context["boxes"]
        return [(each.path, each.percent, each.share, each.tone) for each in found.disks]

    assert told() == [("/home/ada/.cache/huggingface", 95, 0, "attention")]
    # The cache’s own disk as it is now; a disk without models is left out.
    assert told(("/mnt", 7, 400 * GIB)) == [("/mnt", 95, 40, "attention")]
    assert told(("/mnt", 8, 400 * GIB)) == [("/mnt", 60, 40, "")]
    assert told(("/mnt", 8, 10 * GIB), ("/data", 9, 0)) == [("/mnt", 99, 40, "failed")]


def test_somebody_may_ask_for_a_look(box: Box, ada: Client) -> None:
    assert ada.post(f"/models/on/{box.slug}/look/").status_code == 204
    assert ModelInventory.objects.get(box=box).is_wanted
    assert "Scan requested" in ada.get("/models/").content.decode()
    Box.objects.update(seen_at=None)
    assert "Waits until rtx8 reports again" in ada.get("/models/").content.decode()


def test_the_settings_say_what_is_wrong_with_a_folder(box: Box) -> None:
    admin = factories.log_in(factories.person())
    values = {f"{box.slug}-{name}": value for name, value in
              {"home": "/home/ada", "hf_cache": "", "model_folders": "/mnt\nmodels"}.items()}  # fmt: skip
    text = admin.post(f"/settings/boxes/{box.slug}/", values).content.decode()
    assert "“models” must be an absolute path" in text

    values[f"{box.slug}-model_folders"] = " ~/models \r\n\r\n/mnt"
    assert admin.post(f"/settings/boxes/{box.slug}/", values).status_code == 302
    box.refresh_from_db()
    assert box.model_folders == "~/models\n/mnt"
