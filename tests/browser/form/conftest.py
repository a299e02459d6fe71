from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from tests.browser.chromium import chromium, new_page
from tests.browser.form.opened import DESK, opened
from tests.web_stack import WebStack, web_stack


@pytest.fixture(scope="package")
def stack() -> Iterator[WebStack]:
    with web_stack() as stack:
        stack.run("factories.busy_team()")
        yield stack


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="package")
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
