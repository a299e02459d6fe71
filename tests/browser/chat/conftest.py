from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page

from tests.browser.chromium import chromium
from tests.chat_stack import Stack, chat_stack
from tests.scripted_engine import ScriptedEngine


@pytest.fixture(scope="package")
def engine() -> Iterator[ScriptedEngine]:
    with ScriptedEngine() as engine:
        yield engine


@pytest.fixture(scope="package")
def stack(engine: ScriptedEngine) -> Iterator[Stack]:
    with chat_stack(engine.port) as stack:
        yield stack


@pytest.fixture
def context(stack: Stack) -> Iterator[BrowserContext]:
    with chromium() as browser:
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        context.add_cookies([{"name": stack.cookie, "value": stack.session, "url": stack.url}])
        yield context


@pytest.fixture
def complaints() -> list[str]:
    return []


@pytest.fixture
def page(
    context: BrowserContext, stack: Stack, engine: ScriptedEngine, complaints: list[str]
) -> Iterator[Page]:
    """The open playground. What the browser finds wrong fails the test."""
    while not engine.outcomes.empty():
        engine.outcomes.get()
    page = context.new_page()
    page.set_default_timeout(15_000)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "console",
        lambda said: complaints.append(said.text) if "Security Policy" in said.text else None,
    )
    page.goto(f"{stack.url}/chat/")
    yield page
    assert complaints == []
