from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from tests.browser.chromium import PATIENCE
from tests.chat_stack import Stack


@pytest.fixture
def stack(chat: Stack) -> Stack:
    return chat


@pytest.fixture
def context(browser: Browser, stack: Stack) -> Iterator[BrowserContext]:
    with browser.new_context(viewport={"width": 1280, "height": 800}) as context:
        context.set_default_timeout(PATIENCE)
        context.add_cookies([{"name": stack.cookie, "value": stack.session, "url": stack.url}])
        yield context


@pytest.fixture
def complaints() -> list[str]:
    return []


@pytest.fixture
def page(context: BrowserContext, stack: Stack, complaints: list[str]) -> Iterator[Page]:
    """The open playground. What the browser finds wrong fails the test."""
    page = context.new_page()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "console",
        lambda said: complaints.append(said.text) if "Security Policy" in said.text else None,
    )
    page.goto(f"{stack.url}/chat/")
    # What is typed before the scripts have come is the browser's, and not yet the playground's.
    page.locator("#chat-server button").wait_for()
    yield page
    assert complaints == []
