"""What lies on the disks, seen in a browser: named, asked for again, made into a profile."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import faults
from tests.installation import Installation
from tests.weights.test_inventory import blob, folder, hub, weights

pytestmark = [pytest.mark.docker, pytest.mark.browser]

CONFIG = {
    "architectures": ["MiniMaxM2ForCausalLM"],
    "max_position_embeddings": 196608,
    "quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"},
}
READ_ME = """# How it runs on eight cards

```bash
docker run --gpus all -v {here}:/model vllm/vllm-openai:v0.20.2 --model /model --tensor-parallel-size 2
```
"""


@pytest.fixture
def models(place: Installation) -> Path:
    """A folder of the box that profiles may mount."""
    found = place.data.parent / "models"
    (place.data / "box.toml").write_text(f'mount_roots = ["{found}"]\n')
    return found


def test_models_on_the_disks_are_found_and_become_profiles(
    page: Page, place: Installation, models: Path
) -> None:
    here = folder(models / "lukealonso" / "MiniMax-M2.5-NVFP4", config=CONFIG)
    weights(here / "model-00001.safetensors", 131 * 2**30)
    (here / "README.md").write_text(READ_ME.format(here=here))
    page.goto(f"{place.url}/settings/boxes/rtx8/")
    page.get_by_label("Folders with models").fill(f"{models}\n{models}/gone\n/etc")
    page.get_by_role("button", name="Save rtx8").click()

    page.get_by_role("link", name="Models", exact=True).click()
    page.get_by_role("button", name="Rescan the disks of rtx8").click()
    found = page.get_by_role("row").filter(has_text="lukealonso/MiniMax-M2.5-NVFP4")
    expect(found).to_contain_text("131 GiB")
    expect(found).to_contain_text("NVFP4")
    expect(found).to_contain_text("192k tokens")
    expect(found).to_contain_text("complete")
    expect(found).to_contain_text("on 2 GPUs")
    expect(found.get_by_title("needs 2 of 8 GPUs")).to_be_visible()
    expect(page.get_by_text(f"{models}/gone does not exist")).to_be_visible()
    expect(page.get_by_text("/etc is not scanned")).to_be_visible()

    # What changes on the disk is there as soon as somebody asks, without a reload.
    (here / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"a": "model-00001.safetensors", "b": "model-00002.safetensors"}})
    )
    partial = hub(models / "hub", "zai-org/GLM-5")
    blob(partial, "config.json", b"{}")
    (partial.parent.parent / "blobs" / "x.incomplete").write_bytes(b"x")
    page.get_by_role("button", name="Rescan the disks of rtx8").click()
    expect(found).to_contain_text("model-00002.safetensors is missing")
    glm = page.get_by_role("row").filter(has_text="zai-org/GLM-5")
    expect(glm).to_contain_text("a download has not ended")
    assert faults(page) == []

    page.get_by_role("searchbox", name="Filter models").fill("glm")
    expect(found).to_be_hidden()
    page.get_by_role("link", name="Incomplete 2").click()
    expect(page.get_by_role("row")).to_have_count(3)
    found.get_by_role("link").first.click()
    page.get_by_role("heading", name="README.md").click()
    assert faults(page) == []

    page.get_by_role("button", name="Import the command in it as a profile").click()
    expect(page.locator("#id_flags")).to_have_value("--tensor-parallel-size 2")
    page.go_back()
    page.get_by_role("link", name="New profile with it").click()
    expect(page.locator("#id_checkpoint")).to_have_value(str(here))
    expect(page.locator("#id_volumes")).to_have_value(f"{here}:{here}:ro")
    expect(page.locator("#id_flags")).to_have_value("--tensor-parallel-size 2")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("heading", name="minimax-m2.5-nvfp4", level=1)).to_be_visible()

    page.get_by_role("link", name="Models", exact=True).click()
    expect(found.get_by_role("link", name="minimax-m2.5-nvfp4", exact=True)).to_be_visible()

    folder(
        models / "a" / "model-with-a-name-that-goes-on-and-on-and-on-NVFP4-W4A16", "a.safetensors"
    )
    page.set_viewport_size({"width": 390, "height": 844})
    page.get_by_role("button", name="Rescan the disks of rtx8").click()
    expect(page.get_by_role("link", name="a/model-with-a-name")).to_be_visible()
    assert faults(page) == []
