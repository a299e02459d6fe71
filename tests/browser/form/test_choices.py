"""GPUs and models are chosen from what the box has, and an unsaved form survives a reload."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import faults
from tests.browser.steps import fill_profile
from tests.web_stack import WebStack

pytestmark = pytest.mark.browser

STOCK = """
from django.utils import timezone
from servers.models import StoredCheckpoint
box = Box.objects.get(slug='rtx8')
card = {'name': 'NVIDIA RTX PRO 6000', 'compute_capability': '12.0', 'total': 96 << 30, 'kind': 'discrete'}
box.facts['gpus'] = [{'index': at, **card} for at in range(4)]
box.save()
StoredCheckpoint.objects.create(
    box=box, path='/mnt/models/GLM-5', name='GLM-5', format='safetensors', weights=130 << 30,
    size=130 << 30, files=3, state='complete', changed_at=timezone.now())
"""


def test_gpus_and_models_are_chosen_and_what_is_typed_survives_a_reload(
    page: Page, stack: WebStack
) -> None:
    stack.run(STOCK)
    page.goto(f"{stack.url}/profiles/new/")
    gpus, model = page.locator("#id_gpus"), page.get_by_role("combobox", name="Model", exact=True)

    # --- GPUs ---
    expect(page.locator(".gpu-tile").first).to_contain_text("minimax-m27")
    page.get_by_role("button", name="None", exact=True).click()
    expect(gpus).to_have_value("none")
    page.get_by_role("checkbox", name="GPU 1").check()
    page.get_by_role("checkbox", name="GPU 3").check()
    expect(gpus).to_have_value("1,3")
    page.get_by_label("Any GPUs of a kind").select_option("any 2")
    expect(gpus).to_have_value("2x RTX PRO 6000")
    expect(page.get_by_role("checkbox", name="GPU 3")).not_to_be_checked()
    gpus.fill("0,9")
    expect(page.locator("gpu-picker")).to_contain_text("by hand")

    # --- the model, by keyboard ---
    model.focus()
    page.keyboard.type("glm")
    option = page.get_by_role("option", name="GLM-5")
    expect(option).to_contain_text("130 GiB · safetensors · complete · needs 2 of 4 GPUs")
    page.keyboard.press("ArrowDown")
    expect(option).to_have_attribute("aria-selected", "true")
    assert faults(page) == []
    page.keyboard.press("Enter")
    expect(model).to_have_value("/mnt/models/GLM-5")
    expect(page.locator("#id_volumes")).to_have_value("/mnt/models/GLM-5:/mnt/models/GLM-5:ro")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Escape")
    expect(option).to_be_hidden()
    expect(model).to_be_focused()

    # --- a reload ---
    fill_profile(page, {"name": "Unsaved", "env": "HF_TOKEN=hf_abcdefghijkl\nOTHER=1"})
    expect(page.locator("#summary-environment")).to_contain_text("HF_TOKEN (secret), OTHER=1")
    page.reload()
    expect(page.locator("#restored")).to_contain_text("Restored your unsaved changes. Secrets")
    expect(page.locator("#id_name")).to_have_value("Unsaved")
    expect(page.locator("#id_env")).to_have_value("HF_TOKEN=\nOTHER=1")
    # As it was left.
    expect(page.locator("#id_env")).to_be_visible()
    page.get_by_role("button", name="Discard").click()
    expect(page.locator("#id_name")).to_have_value("")
    page.reload()
    expect(page.locator("#check")).to_contain_text("Still to be filled in")
    expect(page.locator("#restored")).to_be_empty()

    # --- a reload of what was the answer to a paste ---
    page.goto(f"{stack.url}/profiles/paste/")
    page.get_by_label("Command or compose file").fill("vllm serve /mnt/models/GLM-5 --seed 7")
    page.get_by_role("button", name="Import", exact=True).click()
    fill_profile(page, {"name": "Pasted", "env": "OTHER=2"})
    expect(page.locator("#summary-environment")).to_contain_text("OTHER=2")
    page.reload()
    page.wait_for_url("**/profiles/new/")
    expect(page.locator("#restored")).to_contain_text("Restored your unsaved changes.")
    expect(page.locator("#id_name")).to_have_value("Pasted")
    expect(model).to_have_value("/mnt/models/GLM-5")
    expect(page.locator("#id_flags")).to_have_value(re.compile("--seed"))
