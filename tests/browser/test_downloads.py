"""A model comes from a Hub that stands here, is seen coming, becomes a profile, and goes again."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from playwright.sync_api import Page, expect

from servers.host.weights.fetch.places import COMMIT
from tests.browser.axe import faults
from tests.browser.layout import find_excess
from tests.browser.steps import eventually
from tests.installation import Installation, installation
from tests.model_hub import ModelHub, model_hub
from tests.nvml import profiles
from tests.terminal import ROOT
from tests.waiting import PATIENCE
from tests.weights.test_fetch import MIB, shard

pytestmark = [pytest.mark.docker, pytest.mark.browser]

NAME = "Qwen/Qwen3-Coder-with-a-name-that-goes-on-and-on-NVFP4"
CONFIG = b'{"architectures": ["Qwen3ForCausalLM"], "max_position_embeddings": 40960}'


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelHub]:
    folder = tmp_path_factory.mktemp("made")
    with model_hub() as made:
        made.has(
            NAME,
            {
                "config.json": CONFIG,
                "README.md": b"# Coder",
                "model-00001-of-00002.safetensors": shard(folder, 12 * MIB, 1),
                "model-00002-of-00002.safetensors": shard(folder, 12 * MIB, 2),
                "original/consolidated.pth": b"o" * 4000,
            },
        )
        made.has("meta/Gated", {"config.json": CONFIG, "model.safetensors": b"g" * 2000})
        made.repositories["meta/Gated"].is_gated = True
        yield made


@pytest.fixture(scope="module")
def place(docker_host: str, hub: ModelHub) -> Iterator[Installation]:
    """Its own: whose Hub it asks stands in the environment of its processes."""
    with installation(docker_host, profiles.rtx_pro_6000(), INFERDASH_HUB=hub.url) as made:
        yield made


@pytest.fixture(scope="module")
def models(place: Installation) -> Path:
    """A folder of the box with its cache in it, which profiles may mount."""
    found = place.data.parent / "models"
    found.mkdir()
    (place.data / "box.toml").write_text(f'mount_roots = ["{found}"]\n')
    place.run(f"Box.objects.update(hf_cache='{found}/hf', model_folders='{found}')")
    return found


@pytest.mark.takes(60)
def test_a_model_is_downloaded_seen_used_and_deleted(
    page: Page, place: Installation, hub: ModelHub, models: Path
) -> None:
    page.goto(f"{place.url}/models/")
    page.get_by_label("Model to download").fill("meta/Gated")
    page.get_by_role("button", name="Download", exact=True).click()
    expect(page.get_by_role("alert").filter(has_text="meta/Gated is gated")).to_be_visible()
    expect(page.get_by_role("link", name=f"{hub.url}/meta/Gated")).to_be_visible()

    page.get_by_label("Model on the Hugging Face Hub").fill(f"{hub.url}/{NAME}")
    page.get_by_role("button", name="Show files").click()
    weights = page.get_by_role("row").filter(has_text="safetensors")
    expect(weights).to_contain_text("24.0 MiB")
    expect(weights).to_contain_text("fits on one of 8 GPUs")
    expect(weights.get_by_role("checkbox")).to_be_checked()
    original = page.get_by_role("row").filter(has_text="original/")
    expect(original.get_by_role("checkbox")).not_to_be_checked()
    expect(page.locator("#needs")).to_contain_text("0.02 GiB")
    expect(page.get_by_label(f"{models}/hf")).to_be_checked()
    assert faults(page) == []

    hub.hold_after(15 * MIB)
    page.get_by_role("button", name="Download", exact=True).click()
    card = page.get_by_role("listitem").filter(has_text=NAME)
    # It moves by itself, without a reload.
    expect(card).to_contain_text(re.compile("6[0-2] %"))
    expect(card.get_by_role("progressbar")).to_have_attribute("value", re.compile("6[0-2]"))
    assert faults(page) == []
    card.get_by_role("button", name="Pause").click()
    expect(card.get_by_text("paused", exact=True)).to_be_visible()
    expect(card.get_by_role("button", name="Resume")).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 844})
    assert not find_excess(page)
    page.set_viewport_size({"width": 1280, "height": 800})

    hub.hold_after(2 * MIB)
    card.get_by_role("button", name="Resume").click()
    expect(card).to_contain_text(re.compile("(6[4-9]|7.) %"))
    card.get_by_role("button", name="Limit the speed").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("At most").select_option("500")
    dialog.get_by_role("button", name="Set limit").click()
    expect(card).to_contain_text("at most 500 MiB/s")
    card.get_by_role("button", name="Cancel").click()
    expect(dialog).to_contain_text("Complete files stay")
    dialog.get_by_role("button", name="Go on downloading").click()
    hub.release()

    # Done, and in the list at once.
    expect(card.get_by_text("done", exact=True)).to_be_visible()
    expect(card).to_contain_text("All of it is in")
    row = page.get_by_role("row").filter(has_text=NAME)
    expect(row).to_contain_text("complete")
    files = hub.repositories[NAME].files
    snapshot = next((models / "hf/hub").glob("models--*/snapshots/*"))
    assert COMMIT.fullmatch(snapshot.name)
    for name, content in files.items():
        assert "original" in name or (snapshot / name).read_bytes() == content

    row.get_by_role("link", name=NAME).click()
    page.get_by_role("link", name="New profile with it").click()
    expect(page.locator("#id_checkpoint")).to_have_value(NAME)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("qwen3-coder")
    profile = page.url

    page.goto(f"{place.url}/models/")
    row.get_by_role("link", name=NAME).click()
    page.get_by_role("link", name="Delete…").click()
    expect(dialog.get_by_text("become free")).to_be_visible()
    expect(dialog).to_contain_text("qwen3-coder")
    assert faults(page) == []
    page.get_by_role("button", name="Delete 0.02 GiB").click()
    expect(page.get_by_role("heading", name="Models", level=1)).to_be_visible()
    expect(row).to_have_count(0)
    assert not list((models / "hf/hub").glob("models--*"))
    wanted = {"download", "pause download", "resume download", "delete", "delete done"}
    noted = "list(AuditEntry.objects.values_list('action', flat=True))"
    eventually(page, lambda: wanted <= set(cast(list[str], place.ask(noted))))
    assert profile


@pytest.mark.takes(60)
def test_a_terminal_pulls_and_leaves_it_running(
    place: Installation, hub: ModelHub, models: Path
) -> None:
    hub.has("a/small", {"config.json": CONFIG, "model.safetensors": b"s" * 200_000})
    key = place.ask(
        "Key.make(User.objects.create(username='tim', role=Role.OPERATOR), 'laptop', "
        "Role.OPERATOR, expires_at=None)[1]"
    )
    environment = {
        "INFERDASH_URL": place.url,
        "INFERDASH_KEY": str(key),
        "PATH": os.environ["PATH"],
    }
    command = [sys.executable, "-m", "inferdash.terminal"]

    def terminal(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*command, *words],
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    hub.hold_after(100_000)
    with subprocess.Popen(
        # As in a terminal, also where the tests run in the background, in which Ctrl-C is ignored.
        ["env", "--default-signal=INT", *command, "pull", "a/small"],
        env=environment, cwd=ROOT, stderr=subprocess.PIPE, text=True,
    ) as following:  # fmt: skip
        try:
            hub.wait_until_held()
            following.send_signal(signal.SIGINT)
            _out, words = following.communicate(timeout=PATIENCE)
        finally:
            following.kill()
    assert following.returncode == 130
    assert "It goes on without this terminal." in words
    listed = terminal("pulls")
    assert "a/small" in listed.stdout, listed.stderr

    hub.release()
    done = terminal("pull", "a/small", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["state"] == "done"
    blobs = [each.read_bytes() for each in (models / "hf/hub/models--a--small/blobs").iterdir()]
    assert b"s" * 200_000 in blobs

    gated = terminal("pull", "meta/Gated")
    assert gated.returncode == 1
    assert "meta/Gated is gated" in gated.stdout
    assert terminal("pull", "no such thing").returncode == 2
    assert terminal("pulls", "pause").returncode == 2
    assert terminal("pulls", "pause", "99999").returncode == 3
