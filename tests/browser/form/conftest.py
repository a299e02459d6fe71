from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from tests.browser.chromium import new_page
from tests.browser.form.opened import DESK, opened
from tests.web_stack import WebStack


@pytest.fixture
def stack(web: WebStack) -> WebStack:
    web.run("factories.busy_team()")
    return web


@pytest.fixture
def eva(stack: WebStack) -> Any:
    return stack.cookie("eva", "EDITOR")


@pytest.fixture
def context(browser: Browser, eva: Any) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport=DESK)  # type: ignore[arg-type]
    context.add_cookies([eva])
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext, stack: WebStack) -> Iterator[Page]:
    complaints: list[str] = []
    page = new_page(context, complaints)
    yield opened(page, stack)
    assert complaints == []
