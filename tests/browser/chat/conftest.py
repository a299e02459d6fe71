import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

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


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def context(browser: Browser, stack: Stack) -> Iterator[BrowserContext]:
    with browser.new_context(viewport={"width": 1280, "height": 800}) as context:
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
    forget_conversations(stack)
    page = context.new_page()
    page.set_default_timeout(15_000)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "console",
        lambda said: complaints.append(said.text) if "Security Policy" in said.text else None,
    )
    page.goto(f"{stack.url}/chat/")
    # What is typed before the scripts have come is the browser's, and not yet the playground's.
    page.locator("#chat-server option").first.wait_for(state="attached")
    yield page
    assert complaints == []


def forget_conversations(stack: Stack) -> None:
    """Each test begins without those of the one before."""
    with closing(sqlite3.connect(f"{stack.env['INFERDASH_DATA']}/inferdash.sqlite3")) as database:
        database.execute("DELETE FROM servers_message")
        database.execute("DELETE FROM servers_conversation")
        database.commit()
