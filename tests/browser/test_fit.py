"""Whether it fits, seen while typing, mended by one click, and asked about before a start."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.base_images import ENGINE
from tests.browser.chromium import PATIENCE
from tests.browser.steps import card, create_profile, eventually, fill_profile, unfold
from tests.installation import Installation
from tests.nvml import profiles
from tests.weights.fit.models import LLAMA_8B

pytestmark = [pytest.mark.browser, pytest.mark.docker]

WITHIN = 2 * PATIENCE
GIB = 2**30
WEIGHTS = 16_060_522_496  # bytes, as the index of Llama-3.1-8B says


@pytest.fixture
def place(place: Installation, tmp_path: Path) -> Installation:
    """With two cards, and a model in the box's cache."""
    cache = tmp_path / "huggingface"
    model = cache / "hub/models--org--small"
    snapshot = model / "snapshots" / ("c0ffee" + "0" * 34)
    snapshot.mkdir(parents=True)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("c0ffee" + "0" * 34)
    (snapshot / "config.json").write_text(json.dumps(LLAMA_8B))
    with (snapshot / "model.safetensors").open("wb") as file:
        file.truncate(WEIGHTS)  # sparse
    (place.data / "box.toml").write_text(f'mount_roots = ["{tmp_path}"]\n')
    place.run(f"Box.objects.update(hf_cache='{cache}')")
    occupy(place, 0)
    return place


def fill(page: Page, place: Installation, name: str, **values: str) -> None:
    page.goto(f"{place.url}/profiles/new/")
    values = {"name": name, "checkpoint": "org/small", "image": ENGINE, "gpus": "0", **values}
    values["env"] = "ENGINE_SECONDS=0.3"
    fill_profile(page, values)


def occupy(place: Installation, gib: int) -> None:
    """Somebody else's process holds so much of the first GPU."""
    machine = profiles.rtx_pro_6000(2)
    if gib:
        machine.cards[0].run(1, gib * GIB)
    place.gpus.show(machine)


def test_a_launch_that_does_not_fit_is_made_to_fit_by_one_click(
    page: Page, place: Installation
) -> None:
    fill(page, place, "Small", flags="--gpu-memory-utilization 0.3 --max-num-seqs 16")
    fit = page.locator("#check").get_by_role("region", name="Will it fit")
    expect(fit).to_contain_text("Does not fit: one request of 131,072 tokens takes 16.0 GiB")
    expect(fit.get_by_role("img")).to_have_attribute("aria-label", _names("weights 15.0 GiB"))

    fit.get_by_role("button", name="Make it fit: --gpu-memory-utilization 0.38").click()

    expect(page.locator("#id_flags")).to_have_value(_names("--gpu-memory-utilization 0.38"))
    expect(fit).to_contain_text("Fits: room for about")
    fit.get_by_text("The numbers").click()
    expect(fit.get_by_role("row", name="KV cache 128.0 KiB a token")).to_be_visible()
    # Typing changes it at once.
    unfold(page, "flags")
    page.locator("#id_flags").fill("--gpu-memory-utilization 0.9 --max-model-len 900000")
    expect(fit).to_contain_text("Does not fit: one request of 900,000 tokens")
    page.locator("#id_flags").fill("--gpu-memory-utilization 0.9 --max-model-len 32768")
    expect(fit).to_contain_text("Fits: room for about")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("heading", name="Small", level=1)).to_be_visible()


@pytest.mark.takes(45)
def test_a_box_that_answers_late_is_asked_again(page: Page, place: Installation) -> None:
    worker = place.up.children()["celery"]
    family = [worker, *worker.children(recursive=True)]
    for process in family:
        process.suspend()
    try:
        fill(page, place, "Late", flags="--gpu-memory-utilization 0.3 --max-num-seqs 16")
        late = page.locator("#check").get_by_text("has not said yet whether it has the model")
        expect(late).to_be_visible()
    finally:
        for process in family:
            process.resume()

    fit = page.locator("#check").get_by_role("region", name="Will it fit")
    expect(fit).to_contain_text("Does not fit: one request of 131,072 tokens takes 16.0 GiB")
    expect(late).to_have_count(0)


@pytest.mark.takes(40)
def test_a_start_that_the_engine_would_refuse_asks_first_and_shows_why(
    page: Page, place: Installation
) -> None:
    fill(page, place, "Crowded", flags="--gpu-memory-utilization 0.9 --max-model-len 32768")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("heading", name="Crowded", level=1)).to_be_visible()
    occupy(place, 40)
    page.goto(f"{place.url}/")
    expect(page.locator("main")).to_contain_text("40.0")

    card(page, "crowded").get_by_role("button", name="Start", exact=True).click()

    dialog = page.locator("#dialog")
    expect(dialog).to_contain_text("is less than desired GPU memory utilization")
    expect(dialog).to_contain_text("GPU 0 is taken")
    expect(dialog).to_contain_text("GPU 0 has 54.97 of 94.97 GiB free")
    fixed = dialog.get_by_role("button", name="Apply fix and start: --gpu-memory-utilization 0.57")
    fixed.click()
    found = card(page, "crowded")
    expect(found).to_have_attribute("data-state", "ready", timeout=WITHIN)
    expect(dialog).to_be_hidden()

    # The watcher asks for images each ten seconds, and this page says what it knows when it is opened.
    eventually(page, lambda: bool(place.ask(f"{ENGINE!r} in HostResources.objects.get().images")))
    page.goto(f"{place.url}/profiles/crowded/")
    before = page.locator("#checks [data-fold=rest]")
    before.locator("summary").first.click()
    expect(page.locator("#checks")).to_contain_text("NVIDIA's container toolkit")
    expect(before).to_contain_text(f"{ENGINE} is on the box")
    page.goto(f"{place.url}/")
    occupy(place, 0)
    found.get_by_role("button", name="Stop", exact=True).click()
    expect(found).to_have_attribute("data-state", "stopped", timeout=WITHIN)


def test_a_port_that_somebody_listens_on_is_named_before_the_start(
    page: Page, place: Installation
) -> None:
    port = place.url.rpartition(":")[2]
    fill(page, place, "Doubled", host_port=port, flags="--max-model-len 32768")
    create_profile(page)
    page.goto(f"{place.url}/")
    found = card(page, "doubled")
    found.get_by_role("button", name="Start", exact=True).click()

    dialog = page.locator("#dialog")
    expect(dialog).to_contain_text(f"Port {port} of rtx8 is taken by another program")
    expect(dialog).to_contain_text("without one, a free port is chosen")
    dialog.get_by_role("button", name="Cancel").click()
    assert place.ask("Run.objects.filter(server__slug='doubled').count()") == 0


def _names(text: str) -> re.Pattern[str]:
    return re.compile(re.escape(text))
