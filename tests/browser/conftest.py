"""What the walks through an installation of their own begin with."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.chromium import new_page
from tests.browser.steps import admitted
from tests.installation import Installation
from tests.web_stack import WebStack


@pytest.fixture
def stack(web: WebStack) -> WebStack:
    return web


@pytest.fixture
def page(browser: Browser, place: Installation) -> Iterator[Page]:
    """The first admin's, who has the dashboard before her: no complaint of the browser."""
    complaints: list[str] = []
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = new_page(admitted(context, place), complaints)
    page.goto(f"{place.url}/")
    yield page
    assert complaints == []
