"""A picture of the dashboard can be taken. README's are made by tests.pictures."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.chromium import new_page
from tests.web_stack import ROOT, WebStack

pytestmark = [pytest.mark.browser, pytest.mark.screenshots]

KEPT = ROOT / "docs/images"


@pytest.fixture
def stack(web: WebStack) -> WebStack:
    web.run("factories.busy_team()")
    return web


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_readmes_picture_can_be_taken_of_the_dashboard(
    stack: WebStack, browser: Browser, scheme: Any, tmp_path: Path
) -> None:
    name = f"dashboard-{scheme}.png"
    complaints: list[str] = []
    context = browser.new_context(
        viewport={"width": 1440, "height": 900}, color_scheme=scheme, device_scale_factor=1.5
    )
    context.add_cookies([stack.cookie("ada")])  # type: ignore[list-item]
    page = new_page(context, complaints)
    page.goto(stack.url)
    expect(page.locator("gpu-line path")).to_have_count(9)
    expect(page.locator(".card")).to_have_count(7)
    picture = page.screenshot(path=tmp_path / name)

    assert complaints == []
    assert len(picture) > 50_000
    assert (KEPT / name).is_file()
