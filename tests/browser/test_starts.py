"""People watch a start: its phases, how far each is, and what is left by the last one."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.base_images import ENGINE
from tests.browser.chromium import PATIENCE
from tests.browser.steps import card, fill_profile
from tests.installation import Installation

pytestmark = [pytest.mark.browser, pytest.mark.docker]

WITHIN = 2 * PATIENCE  # the start itself is part of it


@pytest.mark.takes(60)
def test_a_start_is_followed_phase_by_phase_without_a_reload(
    page: Page, place: Installation
) -> None:
    page.goto(f"{place.url}/profiles/new/")
    values = {"name": "Slow", "checkpoint": "a/b", "image": ENGINE, "env": "ENGINE_SECONDS=30"}
    fill_profile(page, values)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("heading", name="Slow", level=1)).to_be_visible()

    page.goto(f"{place.url}/")
    page.evaluate("window.neverReloaded = true")
    found = card(page, "slow")
    found.get_by_role("button", name="Start", exact=True).click()
    expect(found).to_contain_text(re.compile(r"Loading weights \d+\s%, \d of 5"), timeout=WITHIN)
    bar = found.get_by_role("progressbar", name="Loading weights")
    expect(bar).to_be_visible()
    expect(found).to_contain_text(re.compile(r"Capturing CUDA graphs \d+\s%"), timeout=WITHIN)
    expect(found).to_have_attribute("data-state", "ready", timeout=WITHIN)
    assert page.evaluate("window.neverReloaded")

    page.goto(f"{place.url}/servers/slow/")
    page.get_by_text(re.compile(r"^Ready in \d+(\.\d)? s: ")).click()
    steps = page.get_by_role("list", name="How the start went")
    for words in ("loading weights", "compiling", "capturing CUDA graphs"):
        step = steps.get_by_role("listitem").filter(has_text=words)
        expect(step).to_have_class(re.compile("is-done"))
        expect(step).to_contain_text(re.compile(r"\d s"))

    page.get_by_role("button", name="Restart").click()
    dialog = page.get_by_role("dialog")
    starting = page.locator("main header [data-state=starting]")
    expect(dialog.or_(starting).first).to_be_visible(timeout=WITHIN)
    if dialog.is_visible():
        dialog.get_by_role("button", name="Restart").click()
    expect(starting).to_be_visible(timeout=WITHIN)
    to_come = steps.get_by_role("listitem").filter(has_text="capturing CUDA graphs")
    expect(to_come).to_contain_text("usually", timeout=WITHIN)
    expect(page.locator(".start .phase")).to_contain_text("left", timeout=WITHIN)
