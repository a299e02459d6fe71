"""A start that runs out of GPU memory is diagnosed, mended by one click, and becomes ready."""

import pytest
from playwright.sync_api import Page, expect

from tests.base_images import ENGINE
from tests.browser.chromium import PATIENCE
from tests.browser.steps import card, create_profile, fill_profile
from tests.installation import Installation

pytestmark = [pytest.mark.browser, pytest.mark.docker]

WITHIN = 2 * PATIENCE


def test_a_start_that_fails_for_memory_is_mended_by_one_click(
    page: Page, place: Installation
) -> None:
    page.goto(f"{place.url}/profiles/new/")
    values = {"name": "Tight", "checkpoint": "a/b", "image": ENGINE}
    values |= {"env": "ENGINE_SECONDS=0.5\nENGINE_FITS=0.9"}
    fill_profile(page, values)
    create_profile(page)

    page.goto(f"{place.url}/")
    found = card(page, "tight")
    found.get_by_role("button", name="Start", exact=True).click()
    expect(found).to_contain_text("GPU memory ran out: 2.00 GiB more", timeout=WITHIN)

    found.get_by_role("link", name="Why").click()
    why = page.get_by_role("region", name="Why it failed")
    expect(why).to_contain_text("torch.OutOfMemoryError")
    why.get_by_role("link", name="line").first.click()
    expect(page.locator("#log-lines")).to_contain_text("torch.OutOfMemoryError")
    page.go_back()
    expect(why).to_contain_text("+ --gpu-memory-utilization 0.87")
    why.get_by_role("button", name="Apply fix and start: --gpu-memory-utilization 0.87").click()

    state = page.locator("[data-name=tight]").first
    expect(state).to_have_attribute("data-state", "ready", timeout=WITHIN)
    expect(page.get_by_text("version 2")).to_be_visible()
    expect(why).to_have_count(0)
    page.goto(f"{place.url}/profiles/tight/versions/2/")
    expect(page.get_by_text("Fix: cuda-oom")).to_be_visible()
