"""A busy team's pages, seen by an admin: no complaint of the browser."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from tests.browser.chromium import new_page
from tests.browser.pages.sizes import DESK
from tests.web_stack import WebStack


@pytest.fixture
def ada(stack: WebStack) -> Any:
    return stack.cookie("ada")


@pytest.fixture
def busy(stack: WebStack) -> WebStack:
    stack.run("factories.busy_team()")
    return stack


@pytest.fixture
def complaints() -> Iterator[list[str]]:
    found: list[str] = []
    yield found
    assert found == []


@pytest.fixture
def context(browser: Browser, ada: Any) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport=DESK)
    context.add_cookies([ada])
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext, complaints: list[str]) -> Page:
    return new_page(context, complaints)
