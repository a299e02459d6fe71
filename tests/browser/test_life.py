"""A server that ends unasked is started again, on every open page, until somebody stops it."""

import pytest
from playwright.sync_api import Page, expect

from tests.base_images import ENGINE
from tests.browser.chromium import PATIENCE
from tests.browser.steps import card, fill_profile, kill_engine
from tests.installation import Installation

pytestmark = [pytest.mark.browser, pytest.mark.docker]

WITHIN = 2 * PATIENCE  # pauses between tries are part of it


@pytest.mark.takes(60)
def test_an_engine_that_dies_is_started_again_until_the_tries_or_patience_are_over(
    page: Page, place: Installation
) -> None:
    page.goto(f"{place.url}/profiles/new/")
    values = {"name": "Shaky", "checkpoint": "a/b", "image": ENGINE, "restart_tries": "1"}
    values |= {"env": "ENGINE_SECONDS=0", "log_must": "never said"}
    fill_profile(page, values)
    page.locator("#id_restart").select_option("on-failure")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("when it fails, up to 1 time in a row")).to_be_visible()

    page.goto(f"{place.url}/")
    found = card(page, "shaky")
    found.get_by_role("button", name="Start", exact=True).click()
    expect(found).to_contain_text("Ready, but its log does not say “never said”", timeout=WITHIN)
    kill_engine(found)
    expect(found).to_contain_text("Starts again", timeout=WITHIN)
    expect(found).to_contain_text("try 1 of 1")
    expect(found).to_have_attribute("data-state", "ready", timeout=WITHIN)
    kill_engine(found)
    expect(found).to_contain_text("has started it again once, and does not try", timeout=WITHIN)

    found.get_by_role("button", name="Start", exact=True).click()
    expect(found).to_have_attribute("data-state", "ready", timeout=WITHIN)
    kill_engine(found)
    expect(found).to_contain_text("Starts again", timeout=WITHIN)
    found.get_by_role("button", name="Stop", exact=True).click()
    expect(found).not_to_contain_text("Starts again")
    found.get_by_role("button", name="More for").click()
    expect(found.get_by_role("button", name="Remove")).to_be_visible()

    page.goto(f"{place.url}/activity/")
    again = page.get_by_role("listitem").filter(has_text="inferdash started again shaky")
    expect(again).to_contain_text("try 1")
    page.goto(f"{place.url}/profiles/shaky/")
    page.get_by_role("button", name="Start with these settings").last.click()
    page.wait_for_url(f"{place.url}/servers/shaky/")
    expect(page.get_by_text("the same version, image and commit")).to_be_visible(timeout=WITHIN)
