"""The README's pictures. SCREENSHOTS=docs/images renews them; otherwise they are only tried."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.chromium import chromium, new_page
from tests.web_stack import ROOT, WebStack, web_stack

pytestmark = pytest.mark.browser

KEPT = ROOT / "docs/images"


@pytest.fixture(scope="module")
def stack() -> Iterator[WebStack]:
    with web_stack() as stack:
        stack.run("factories.busy_team()")
        yield stack


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_readmes_picture_can_be_taken_of_the_dashboard(
    stack: WebStack, scheme: Any, tmp_path: Path
) -> None:
    name = f"dashboard-{scheme}.png"
    complaints: list[str] = []
    with chromium() as browser:
        context = browser.new_context(
            viewport={"width": 1440, "height": 900}, color_scheme=scheme, device_scale_factor=1.5
        )
        context.add_cookies([stack.cookie("ada")])  # type: ignore[list-item]
        page = new_page(context, complaints)
        page.goto(stack.url)
        expect(page.locator("gpu-chart canvas")).to_have_count(9)
        expect(page.locator(".card")).to_have_count(7)
        picture = page.screenshot(path=Path(os.environ.get("SCREENSHOTS", tmp_path)) / name)

    assert complaints == []
    assert len(picture) > 50_000
    assert (KEPT / name).is_file()
