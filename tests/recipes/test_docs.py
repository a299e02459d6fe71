"""docs/profiles.md: what it shows is read as it says, and no key is missing."""

import re
from pathlib import Path

import pytest

from servers.launch.engines.launch import fill_parameters
from servers.launch.engines.placement import parse_gpu_requirement
from servers.launch.recipes.catalogue import catalogue
from servers.launch.recipes.document import KEYS, read, write

TEXT = (Path(__file__).parents[2] / "docs/profiles.md").read_text()
[WHOLE, TABLE, MIGRATED, OVERLAY] = re.findall(
    r"^```yaml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL
)


def test_the_example_is_a_profile_as_inferdash_writes_it() -> None:
    document = read(WHOLE, where="docs/profiles.md")

    assert write(document) == WHOLE
    assert document.launch.shm_size == 64 << 30
    assert document.launch.gpus == "0,1,2,3"
    assert document.launch.flags[-1] == '{"method": "ngram", "num_speculative_tokens": 5}'
    assert document.secrets == ("VLLM_API_KEY",)


def test_the_example_with_parameters_is_one_too() -> None:
    document = read(TABLE, where="docs/profiles.md")

    assert write(document) == TABLE
    launch = fill_parameters(document.launch, {"context": "65536"})
    assert (launch.checkpoint, launch.flags) == ("Qwen/Qwen3-8B", ("--max-model-len", "65536"))


def test_the_other_examples_are_a_recipe_and_an_overlay(tmp_path: Path) -> None:
    (tmp_path / "overlays").mkdir()
    (tmp_path / "qwen3-coder.yaml").write_text(WHOLE + MIGRATED)
    (tmp_path / "overlays/long-context.yaml").write_text(OVERLAY)

    found = catalogue(tmp_path)

    assert found.broken == ()
    recipe = found.recipes[-1]
    launch = recipe.launch(recipe.migrated[0])
    assert launch.flags[-3:] == ("--cuda-graph-max-bs-decode", "8", "--enable-metrics")
    assert found.overlays[-1].change.apply(launch).flags[3] == "131072"


def test_every_key_is_described() -> None:
    table = TEXT[TEXT.index("## The keys") : TEXT.index("## Hardware")]

    assert [key for key in KEYS if f"`{key}`" not in table] == []


@pytest.mark.parametrize("text", re.findall(r"^\| `(\d+x .*?)` \|", TEXT, re.MULTILINE))
def test_the_hardware_that_is_shown_follows_the_grammar(text: str) -> None:
    assert parse_gpu_requirement(text) is not None
