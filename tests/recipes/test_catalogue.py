from pathlib import Path

import pytest

from servers.launch.engines.change import LaunchChange
from servers.launch.recipes.catalogue import catalogue

PROFILE = "name: Mine\nengine: vllm\nimage: vllm/vllm-openai:v0.20.2\ncheckpoint: Qwen/Qwen3-8B\n"
MIGRATED = """\
flags: --old-flag 1 --keep
env: {OLD: a}
migrated:
  - checked_with: vllm/vllm-openai:v0.33.0
    why: New names.
    change:
      set_flags:
        --new-flag: 1
        --switch:
        --empty: ''
      drop_flags: [--old-flag]
      set_env: {NEW: b}
      drop_env: [OLD]
      fields:
        image: vllm/vllm-openai:v0.33.0
        shm_size: 2g
        entrypoint: [vllm, serve]
        init: false
      reasons: {--new-flag: It is called so now.}
"""


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return folder


def test_recipes_of_ones_own_stand_beside_the_shipped_ones(tmp_path: Path) -> None:
    shipped = catalogue()
    found = catalogue(write(tmp_path, mine=PROFILE, notes__ignored=PROFILE))

    assert len(found.recipes) == len(shipped.recipes) + 1
    mine = found.recipes[-1]
    assert found.broken == ()
    assert (mine.id, mine.is_own, mine.path) == ("mine", True, tmp_path / "mine.yaml")
    assert not any(recipe.is_own for recipe in shipped.recipes)


def test_one_of_the_same_name_takes_the_place_of_a_shipped_one(tmp_path: Path) -> None:
    shipped = catalogue().recipes[0]

    found = catalogue(write(tmp_path, **{shipped.id: PROFILE}))

    assert len(found.recipes) == len(catalogue().recipes)
    assert found.recipes[0].published.name == "Mine"


def test_overlays_of_ones_own_lie_in_a_folder_below(tmp_path: Path) -> None:
    text = "name: Long\nengine: vllm\nchange: {set_flags: {--max-model-len: 131072}}\n"

    found = catalogue(write(tmp_path, overlays__long=text))

    assert found.overlays[-1].id == "long"
    assert found.overlays[-1].change == LaunchChange(set_flags={"--max-model-len": "131072"})
    assert found.broken == ()


def test_a_migration_changes_the_published_launch(tmp_path: Path) -> None:
    recipe = catalogue(write(tmp_path, mine=PROFILE + MIGRATED)).recipes[-1]

    launch = recipe.launch(recipe.migrated[0])

    assert recipe.launch().flags == ("--old-flag", "1", "--keep")
    assert launch.flags == ("--keep", "--new-flag", "1", "--switch", "--empty", "")
    assert launch.env == {"NEW": "b"}
    assert launch.image == "vllm/vllm-openai:v0.33.0"
    assert launch.shm_size == 2 << 30
    assert launch.entrypoint == ("vllm", "serve")
    assert not launch.init
    assert launch.reasons == {"--new-flag": "It is called so now."}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name: [", "line 1: This is not YAML"),
        (PROFILE + "flgs: --tp 2\n", "line 5: flgs: There is no such key. Did you mean flags?"),
        (PROFILE + "migrated: [{why: a}]\n", "line 5: migrated: checked_with is missing"),
        (
            PROFILE + "migrated:\n  - checked_with: a\n    why: b\n    change:\n      fields: {imag: c}\n",
            "line 9: imag: A profile has no such key. Did you mean image?",
        ),
        (
            PROFILE + "migrated: [{checked_with: a, why: b, change: {fields: {flags: --a}}}]\n",
            "A launch has no field flags to change",
        ),
        (
            PROFILE + "migrated: [{checked_with: a, why: b, change: {fields: {secret_env: {}}}}]\n",
            "secret_env: A profile has no such key",
        ),
        (
            PROFILE + "migrated: [{checked_with: a, why: b, change: {set_flag: {}}}]\n",
            "set_flag: There is no such key. Did you mean set_flags?",
        ),
    ],
)  # fmt: skip
def test_a_broken_file_is_told_and_hides_no_other(tmp_path: Path, text: str, says: str) -> None:
    found = catalogue(write(tmp_path, broken=text, mine=PROFILE))

    assert found.recipes[-1].id == "mine"
    [broken] = found.broken
    assert broken.path == tmp_path / "broken.yaml"
    assert says in broken.reason
    assert str(tmp_path) in broken.reason


def test_files_that_are_no_text_or_cannot_be_named_are_told(tmp_path: Path) -> None:
    write(tmp_path, **{"my recipe": PROFILE})
    (tmp_path / "latin.yml").write_bytes(b"name: \xfc\n")
    (tmp_path / "folder.yaml").mkdir()

    reasons = {broken.path.name: broken.reason for broken in catalogue(tmp_path).broken}

    assert "Rename it" in reasons["my recipe.yaml"]
    assert "not UTF-8" in reasons["latin.yml"]
    assert "This is not a file" in reasons["folder.yaml"]


def test_a_folder_that_is_missing_is_told(tmp_path: Path) -> None:
    found = catalogue(tmp_path / "gone")

    assert found.recipes == catalogue().recipes
    [broken] = found.broken
    assert broken.path == tmp_path / "gone"
    assert "No such file" in broken.reason


def test_an_overlay_may_give_a_flag_several_values(tmp_path: Path) -> None:
    text = "name: x\nchange:\n  set_flags:\n    --lora-modules:\n      - sql=/a\n      - law=/b\n"

    found = catalogue(write(tmp_path, overlays__x=text))

    assert found.broken == ()
    [overlay] = (each for each in found.overlays if each.id == "x")
    assert overlay.change.set_flags == {"--lora-modules": ("sql=/a", "law=/b")}


def test_an_overlay_for_an_engine_that_there_is_not_is_told(tmp_path: Path) -> None:
    found = catalogue(write(tmp_path, overlays__x="name: x\nengine: tgi\nchange: {}\n"))

    assert "“tgi” is not one of vllm, sglang, llamacpp" in found.broken[0].reason
