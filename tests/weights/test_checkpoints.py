"""What a checkpoint on the box says of a launch before it starts."""

import json
from pathlib import Path
from typing import Any

import pytest

from servers.host.weights import checkpoints
from servers.judge.memory import holders
from servers.lifecycle.profiles import checks
from servers.lifecycle.profiles.knowledge import LaunchContext
from servers.lifecycle.profiles.preflight import of_profiles
from servers.lifecycle.weights.inventory import source
from servers.models import Box, CheckpointFacts, Profile, Server
from servers.watcher.weights import look_at_checkpoints
from tests import factories, samples
from tests.box_files import anywhere, on_box

COMMIT = "c0ffee" + "0" * 34
CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "num_attention_heads": 24,
    "num_key_value_heads": 8,
    "layer_types": ["full_attention"] * 64,
    "max_window_layers_by_head": [1] * 64,
}


def checkpoint(folder: Path, config: Any = CONFIG, **sizes: int) -> Path:
    folder.mkdir(parents=True)
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    for name, size in sizes.items():
        with (folder / name.replace("__", ".")).open("wb") as file:
            file.truncate(size)  # sparse
    return folder


def test_config_and_size_are_read(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "m", a__safetensors=5 << 30, b__safetensors=1 << 30, c__bin=9)

    assert checkpoints.look(on_box(folder), anywhere()) == checkpoints.CheckpointFiles(
        config=CONFIG, weights=6 << 30
    )
    assert checkpoints.look(on_box(folder / "c.bin"), anywhere()) == checkpoints.CheckpointFiles(
        config=None, weights=9
    )
    assert checkpoints.look(on_box(tmp_path / "none"), anywhere()) is None


def test_the_index_says_which_weights_are_loaded_and_which_are_missing(tmp_path: Path) -> None:
    # The same weights under two names, as Mistral publishes them.
    folder = checkpoint(
        tmp_path / "m",
        a__safetensors=3 << 30,
        b__safetensors=1 << 30,
        consolidated__safetensors=4 << 30,
    )
    index = {"metadata": {"total_size": 4 << 30},
             "weight_map": {"x": "a.safetensors", "y": "b.safetensors", "z": "b.safetensors"}}  # fmt: skip
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert checkpoints.look(on_box(folder), anywhere()) == checkpoints.CheckpointFiles(
        config=CONFIG, weights=4 << 30
    )

    (folder / "b.safetensors").unlink()
    part = checkpoints.CheckpointFiles(config=CONFIG, weights=4 << 30, missing=1 << 30)
    assert checkpoints.look(on_box(folder), anywhere()) == part

    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {}}))
    assert checkpoints.look(on_box(folder), anywhere()) == checkpoints.CheckpointFiles(
        config=CONFIG, weights=7 << 30
    )


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 200_000, "\xff"])
def test_a_config_that_is_none_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text, encoding="latin-1")

    assert checkpoints.look(on_box(tmp_path), anywhere()) == checkpoints.CheckpointFiles(
        config=None, weights=None
    )


def test_a_checkpoint_is_found_in_the_cache_by_branch_and_by_commit(tmp_path: Path) -> None:
    model = tmp_path / "models--org--model"
    checkpoint(model / "snapshots" / COMMIT)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(f"{COMMIT}\n")

    def commit_of(name: str, revision: str = "") -> str:
        return checkpoints.commit_of(on_box(tmp_path), name, anywhere(), revision)

    assert commit_of("org/model") == COMMIT
    assert commit_of("org/model:Q4_K_M", COMMIT) == COMMIT
    assert commit_of("org/model", "v2") == ""
    (tmp_path / "secret").mkdir()
    for out in ("../../../secret", "/secret", "../../secret"):
        assert checkpoints.snapshot(on_box(tmp_path), "org/model", anywhere(), out) is None
    assert commit_of("org/other") == ""


@pytest.fixture
def box() -> Box:
    found = factories.box(hf_cache="~/.cache/huggingface")
    card = {"name": "RTX PRO 6000", "compute_capability": "12.0", "total": 95 << 30}
    found.facts["gpus"] = [{"index": n, "kind": "discrete", **card} for n in range(16)]
    found.save()
    return found


def place(box: Box, name: str = "coder", tp: int = 16, **values: Any) -> Server:
    flags = ("--tensor-parallel-size", str(tp))
    image = "vllm/vllm-openai:v0.20.2"
    return factories.server(
        box, name, "gpt-oss-120b", image=image, flags=flags, gpus="all", **values
    )


def rules(server: Server) -> set[str]:
    launch = server.profile.launch
    return {each.rule for each in checks.findings(launch, server.box, server.profile)}


@pytest.mark.django_db
@pytest.mark.usefixtures("own_redis")
def test_the_heads_of_a_mounted_checkpoint_decide_how_it_can_be_divided(
    box: Box, root: Path
) -> None:
    checkpoint(root / "data/models/Qwen3", a__safetensors=6 << 30)
    server = place(box, checkpoint="/m/Qwen3", volumes=("/data/models:/m:ro",))
    assert "heads-not-divisible" not in rules(server)
    unknown = of_profiles([server.profile])[server.profile.pk]

    look_at_checkpoints(box)

    assert "heads-not-divisible" in rules(server)
    assert of_profiles([server.profile])[server.profile.pk].errors == unknown.errors + 1
    kept = CheckpointFacts.objects.get()
    assert (kept.source, kept.weights) == ("/data/models/Qwen3", 6 << 30)
    assert kept.config == {k: v for k, v in CONFIG.items() if k != "max_window_layers_by_head"}


@pytest.mark.django_db
@pytest.mark.usefixtures("own_redis")
def test_weights_that_leave_no_room_are_told_before_the_start(box: Box, root: Path) -> None:
    hub = root / "home/ada/.cache/huggingface/hub/models--openai--gpt-oss-120b"
    checkpoint(hub / "snapshots" / COMMIT, a__safetensors=190 << 30)
    (hub / "refs").mkdir()
    (hub / "refs" / "main").write_text(COMMIT)
    server = place(box, tp=2)

    look_at_checkpoints(box)

    assert "weights-leave-no-room" in rules(server)


@pytest.mark.django_db
@pytest.mark.usefixtures("own_redis")
def test_what_is_gone_is_forgotten_and_what_stays_is_not_touched(box: Box, root: Path) -> None:
    folder = checkpoint(root / "data/models/Qwen3", a__safetensors=6)
    checkpoint(root / "data/models/Other", a__safetensors=6)
    for name in ("Qwen3", "Other"):
        place(box, name, checkpoint=f"/m/{name}", volumes=("/data/models:/m",))
    look_at_checkpoints(box)
    before = CheckpointFacts.objects.get(source="/data/models/Other").changed_at
    for each in folder.iterdir():
        each.unlink()
    folder.rmdir()

    look_at_checkpoints(box)

    assert CheckpointFacts.objects.get().changed_at == before


@pytest.mark.django_db
@pytest.mark.usefixtures("own_redis")
@pytest.mark.parametrize("volume", ["/etc:/m", "~/x:/m", "models:/m", "/data:/other"])
def test_what_profiles_may_not_mount_is_not_looked_at(box: Box, root: Path, volume: str) -> None:
    checkpoint(root / "etc/Qwen3")
    place(box, checkpoint="/m/Qwen3", volumes=(volume,))

    look_at_checkpoints(box)

    assert not CheckpointFacts.objects.exists()


@pytest.mark.django_db
def test_one_quantization_of_many_is_not_measured_by_all(box: Box) -> None:
    server = factories.server(box, "gemma-tiny")

    assert server.profile.launch.engine == "llamacpp"
    assert source(server.profile.launch, box) == "unsloth/gemma-3-4b-it-GGUF:@main"


def sample() -> dict[str, Any]:
    cards = [samples.card(0, [(100, 30.0), (101, 1.0)])]
    return samples.sample(cards, [samples.process(100, "mine"), samples.process(101, None)])


def test_others_are_whoever_holds_gpu_memory_beside_the_own_container() -> None:
    told = sample()

    assert holders.others(told, {"mine"}) == (told["processes"][1]["name"],)
    assert holders.others({**told, "processes": [], "gpus": []}, set()) == ()
    assert holders.others({**told, "sees_host_pids": False}, {"mine"}) is None


@pytest.mark.django_db
@pytest.mark.usefixtures("own_redis")
def test_other_holders_on_a_spark_are_known_to_the_check(box: Box) -> None:
    server = place(box, tp=1)
    profile = Profile.objects.get()
    assert LaunchContext(server.profile.launch, box, profile).subject.others is None

    factories.tell(box, sample())

    assert LaunchContext(server.profile.launch, box, profile).subject.others != ()
