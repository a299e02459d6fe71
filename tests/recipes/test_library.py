"""The recipes that ship: each against what its guide prints, counted by hand."""

from collections.abc import Iterator
from typing import Any

import pytest

from servers.launch.engines import ENGINES, flaglist
from servers.launch.engines.change import split_flags
from servers.launch.engines.engine import flag_value
from servers.launch.engines.launch import Launch
from servers.launch.engines.placement import parse_gpu_requirement
from servers.launch.recipes.catalogue import Overlay, Recipe, catalogue
from servers.launch.recipes.document import read, write
from tests.cases import table

CATALOGUE = catalogue()
RECIPES = {recipe.id: recipe for recipe in CATALOGUE.recipes}
OVERLAYS = {overlay.id: overlay for overlay in CATALOGUE.overlays}
OLD = "lmsysorg/sglang:v0.5.12-cu130"
NEW = "lmsysorg/sglang:v0.5.23"
PATCHED = "voipmonitor/llm-pytorch-blackwell:nightly"

# Flags without those of checkpoint, served name, host and port, which are fields of their own.
PUBLISHED = {
    # recipe: engine, image, checkpoint, served name, port, flags, variables, hardware
    "minimax-m25-nvfp4": ("sglang", OLD, "lukealonso/MiniMax-M2.5-NVFP4", "vllm", 8000, 6, 0, "2x RTX PRO 6000"),
    "minimax-m25-nvfp4-serve": ("sglang", OLD, "lukealonso/MiniMax-M2.5-NVFP4", "vllm", 8000, 6, 0, "2x RTX PRO 6000"),
    "minimax-m25-nvfp4-metrics": ("sglang", OLD, "lukealonso/MiniMax-M2.5-NVFP4", "vllm", 8000, 7, 0, "2x RTX PRO 6000"),
    "minimax-m25-nvfp4-summary": ("sglang", OLD, "lukealonso/MiniMax-M2.5-NVFP4", "vllm", 8000, 6, 0, "2x RTX PRO 6000"),
    "qwen35-397b-nvfp4": ("sglang", OLD, "nvidia/Qwen3.5-397B-A17B-NVFP4", "", 8000, 11, 5, "4x RTX PRO 6000"),
    "qwen35-397b-nvfp4-tuned": ("sglang", PATCHED, "nvidia/Qwen3.5-397B-A17B-NVFP4", "qwen3.5", 5000, 15, 2, "4x RTX PRO 6000"),
    "qwen35-397b-nvfp4-8x-fastest": ("sglang", OLD, "nvidia/Qwen3.5-397B-A17B-NVFP4", "Qwen3.5", 8000, 21, 1, "8x RTX PRO 6000"),
    "qwen35-397b-fp8": ("sglang", OLD, "Qwen/Qwen3.5-397B-A17B-FP8", "llm_model", 9501, 13, 0, "8x RTX PRO 6000"),
    "kimi-k25": ("sglang", OLD, "moonshotai/Kimi-K2.5", "kimi-k2.5", 5000, 12, 3, "8x RTX PRO 6000"),
    "kimi-k25-nvfp4": ("sglang", OLD, "nvidia/Kimi-K2.5-NVFP4", "", 0, 10, 1, "8x RTX PRO 6000"),
    "glm5-nvfp4-mtp": ("sglang", PATCHED, "festr2/GLM-5-NVFP4-MTP", "glm-5", 5000, 19, 10, "8x RTX PRO 6000"),
    "glm5-nvfp4": ("sglang", PATCHED, "lukealonso/GLM-5-NVFP4", "glm-5", 5000, 14, 7, "8x RTX PRO 6000"),
    "qwen35-397b-nvfp4-eagle": ("sglang", OLD, "nvidia/Qwen3.5-397B-A17B-NVFP4", "", 0, 16, 1, "4x RTX PRO 6000"),
    "station-qwen3-8b-sglang": ("sglang", "lmsysorg/sglang:latest-cu130", "Qwen/Qwen3-8B", "", 30000, 4, 0, "1x GB300"),
    "station-qwen36-35b-a3b-sglang": ("sglang", "lmsysorg/sglang:latest-cu130", "Qwen/Qwen3.6-35B-A3B", "", 30000, 4, 0, "1x GB300"),
    "deepseek-v4-flash-vllm": ("vllm", "vllm-ds4-sm120:preview", "deepseek-ai/DeepSeek-V4-Flash", "DeepSeek-V4-flash", 8005, 17, 6, "8x RTX PRO 6000"),
    "deepseek-v4-flash-sglang": ("sglang", "lmsysorg/sglang:deepseek-v4-blackwell", "sgl-project/DeepSeek-V4-Flash-FP8", "deepseek-v4-flash", 8000, 21, 4, "8x RTX PRO 6000"),
    "spark-2x-minimax-m27-fp8-sglang": ("sglang", OLD, "MiniMaxAI/MiniMax-M2.7", "", 0, 4, 0, "2x GB10"),
    "spark-2x-minimax-m27-nvfp4-vllm": ("vllm", "vllm-node:latest", "saricles/MiniMax-M2.7-NVFP4-GB10-AC", "", 0, 5, 4, "2x GB10"),
    "station-qwen3-235b-vllm": ("vllm", "nvcr.io/nvidia/vllm:26.01-py3", "nvidia/Qwen3-235B-A22B-NVFP4", "", 0, 2, 0, "1x GB300"),
    "spark-deepseek-v2-lite-sglang": ("sglang", "lmsysorg/sglang:latest-cu130", "deepseek-ai/DeepSeek-V2-Lite", "", 30000, 4, 0, "1x GB10"),
    "try-without-gpu": ("llamacpp", "ghcr.io/ggml-org/llama.cpp:server", "ggml-org/Qwen3-0.6B-GGUF:Q8_0", "qwen3-0.6b", 0, 1, 1, ""),
}  # fmt: skip

# What SGLang 0.5.23 and vLLM 0.33.0 refuse, and what stands there instead.
REFUSED = {
    "qwen35-397b-nvfp4-tuned": (
        {"--enable-pcie-oneshot-allreduce", "--cuda-graph-max-bs"},
        {"--cuda-graph-max-bs-decode": "8", "--tool-call-parser": "qwen3_coder"},
    ),
    "qwen35-397b-nvfp4-8x-fastest": (
        {"--cuda-graph-max-bs", "--mamba-scheduler-strategy"},
        {"--cuda-graph-max-bs-decode": "4", "--mamba-radix-cache-strategy": "extra_buffer"},
    ),
    "qwen35-397b-nvfp4-eagle": (
        {"--mamba-scheduler-strategy"},
        {"--mamba-radix-cache-strategy": "extra_buffer"},
    ),
    "kimi-k25": ({"--cuda-graph-max-bs"}, {"--cuda-graph-max-bs-decode": "16"}),
    "kimi-k25-nvfp4": ({"--cuda-graph-max-bs"}, {"--cuda-graph-max-bs-decode": "8"}),
    "glm5-nvfp4-mtp": (
        {"--enable-pcie-oneshot-allreduce", "--cuda-graph-max-bs"},
        {"--cuda-graph-max-bs-decode": "32"},
    ),
    "glm5-nvfp4": (
        {"--enable-pcie-oneshot-allreduce", "--cuda-graph-max-bs"},
        {"--cuda-graph-max-bs-decode": "8"},
    ),
    "deepseek-v4-flash-sglang": ({"--cuda-graph-max-bs"}, {"--cuda-graph-max-bs-decode": "32"}),
    "deepseek-v4-flash-vllm": (set(), {}),
}


def test_every_file_that_ships_can_be_read() -> None:
    assert CATALOGUE.broken == ()
    assert set(RECIPES) == set(PUBLISHED)
    assert len(OVERLAYS) == 9


@table("recipe", RECIPES.values(), ids=RECIPES)
def test_a_recipe_says_what_its_guide_prints(recipe: Recipe) -> None:
    launch = recipe.published.launch
    flags = split_flags(launch.flags)

    assert (
        launch.engine,
        launch.image,
        launch.checkpoint,
        launch.served_name,
        launch.port,
        len(flags),
        len(launch.env),
        launch.hardware,
    ) == PUBLISHED[recipe.id]
    names = [name for name, _values in flags]
    assert all(name.startswith("-") for name in names)
    assert len(set(names)) == len(names)
    for kept_elsewhere in ("--model", "--model-path", "--served-model-name", "--host", "--port"):
        assert kept_elsewhere not in names


@table("recipe", RECIPES.values(), ids=RECIPES)
def test_a_recipe_can_be_understood_and_shared(recipe: Recipe) -> None:
    published = recipe.published
    launch = published.launch

    assert published.notes.endswith("\n")
    assert published.source.title
    assert published.tags
    assert parse_gpu_requirement(launch.hardware) or launch.gpus == "none"
    assert read(write(published), where=recipe.id) == published
    # Loopback until somebody decides otherwise.
    assert launch.host_address == "127.0.0.1"
    explained = {name for name, _values in split_flags(launch.flags)} | set(launch.env)
    assert set(launch.reasons) <= explained | set(launch.cap_add)


@table("recipe", RECIPES.values(), ids=RECIPES)
def test_the_tensor_parallel_size_is_the_number_of_cards(recipe: Recipe) -> None:
    launch = recipe.published.launch
    wanted = parse_gpu_requirement(launch.hardware)
    said = flag_value(launch.flags, "--tensor-parallel-size", "--tp-size", "--tp")

    assert int(said or 1) == (wanted.count if wanted else 1)


@table("recipe", RECIPES.values(), ids=RECIPES)
def test_what_todays_engine_refuses_is_migrated(recipe: Recipe) -> None:
    if recipe.id not in REFUSED:
        assert recipe.migrated == ()
        return
    gone, new = REFUSED[recipe.id]
    [migration] = recipe.migrated
    launch = recipe.launch(migration)

    before = dict(split_flags(recipe.published.launch.flags))
    after = dict(split_flags(launch.flags))
    assert set(before) - set(after) == gone
    assert {
        name: value for name, [*value] in after.items() if before.get(name) != tuple(value)
    } == {name: [value] for name, value in new.items()}
    assert launch.image == migration.checked_with
    assert migration.why


def versioned() -> Iterator[Any]:
    """Every launch, published or migrated, whose image says which release it is."""
    for recipe in RECIPES.values():
        for launch in (recipe.launch(), *map(recipe.launch, recipe.migrated)):
            if version := flaglist.of_image(launch.engine, launch.image):
                yield pytest.param(launch, version, id=f"{recipe.id} with {version}")


@table(("launch", "version"), list(versioned()))
def test_the_image_of_a_recipe_has_its_flags_and_values(launch: Launch, version: str) -> None:
    listed = flaglist.load_shipped(launch.engine, version)
    assert listed is not None

    for name, values in split_flags(launch.flags):
        flag = listed.find(name)
        assert flag is not None, (name, listed.matches(name))
        assert bool(values) is (flag.takes != "none"), name
        if flag.choices:
            assert set(values) <= set(flag.choices), name


@table("overlay", OVERLAYS.values(), ids=OVERLAYS)
def test_every_release_that_is_known_has_the_flags_of_an_overlay(overlay: Overlay) -> None:
    for listed in flaglist.all_shipped(overlay.engine or "sglang"):
        for name, value in overlay.change.set_flags.items():
            flag = listed.find(name)
            assert flag is not None, (listed.version, name)
            assert (value is None) is (flag.takes == "none"), (listed.version, name)
            assert not flag.choices or value in flag.choices, (listed.version, name)


def test_only_what_needs_two_boxes_cannot_be_started() -> None:
    assert {recipe.id for recipe in RECIPES.values() if not recipe.is_startable} == {
        "spark-2x-minimax-m27-fp8-sglang",
        "spark-2x-minimax-m27-nvfp4-vllm",
    }


def laid() -> Iterator[tuple[Overlay, Recipe]]:
    for overlay in OVERLAYS.values():
        for recipe in RECIPES.values():
            if overlay.is_for(recipe.published.launch):
                yield overlay, recipe


@table(
    ("overlay", "recipe"), [pytest.param(*each, id=f"{each[0].id}-{each[1].id}") for each in laid()]
)
def test_an_overlay_can_be_laid_over_every_recipe_of_its_engine(
    overlay: Overlay, recipe: Recipe
) -> None:
    published = recipe.published.launch

    launch = overlay.change.apply(published)

    flags = dict(split_flags(launch.flags))
    for name, value in overlay.change.set_flags.items():
        assert flags[name] == (() if value is None else (value,))
    for name in overlay.change.drop_flags:
        assert name not in flags
    assert launch.env.items() >= overlay.change.set_env.items()
    assert overlay.change.apply(launch) == launch
    kept = [
        each for each in split_flags(published.flags) if each[0] not in overlay.change.set_flags
    ]
    assert set(kept) - set(flags.items()) <= {
        each for each in kept if each[0] in overlay.change.drop_flags
    }


def test_overlays_know_their_engines() -> None:
    assert {overlay.engine for overlay in OVERLAYS.values()} <= {"", *ENGINES}
    assert {overlay.id for overlay in OVERLAYS.values() if not overlay.engine} == {
        "blackwell-environment"
    }
