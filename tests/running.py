"""What takes seconds to start runs once a process of tests, and is empty again for each of them.

A test that asks for one of these finds nothing of the test before it, whichever that was.
"""

import asyncio
from collections.abc import Generator, Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import chromium
from tests.chat_stack import Stack, seeded
from tests.emptied import Emptied
from tests.installation import Installation, installation
from tests.nvml import profiles
from tests.scripted_engine import ScriptedEngine
from tests.web_stack import WebStack, web_stack

CHROMIUM = "only_chromium"

# Playwright's, once it has begun.
_loop: asyncio.AbstractEventLoop | None = None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Playwright's loop counts as the thread's running one only in tests that have a browser.

    Playwright lets it count as such from its start to its end, and in others Django then takes
    its models for used in a coroutine, and asyncio refuses to run another loop.
    """
    has_browser = CHROMIUM in getattr(item, "fixturenames", ())
    asyncio._set_running_loop(_loop if has_browser else None)
    try:
        return (yield)
    finally:
        asyncio._set_running_loop(None)


@pytest.fixture(scope="session")
def only_chromium() -> Iterator[Browser]:
    global _loop
    with chromium() as browser:
        _loop = asyncio.get_running_loop()
        yield browser
        asyncio._set_running_loop(_loop)  # whichever test was the last
    _loop = None


@pytest.fixture
def browser(only_chromium: Browser) -> Iterator[Browser]:
    """Its contexts are this test's alone."""
    yield only_chromium
    for context in only_chromium.contexts:
        context.close()


@pytest.fixture(scope="session")
def only_web() -> Iterator[WebStack]:
    with web_stack() as stack:
        yield stack


@pytest.fixture
def web(only_web: WebStack) -> WebStack:
    """As after the first start: no box, nobody."""
    only_web.empty()
    return only_web


@pytest.fixture
def engine() -> Iterator[ScriptedEngine]:
    with ScriptedEngine() as engine:
        yield engine


@pytest.fixture
def chat(web: WebStack, engine: ScriptedEngine) -> Stack:
    """A box with one ready server, which is the scripted engine."""
    return seeded(web, engine.port)


@pytest.fixture(scope="session")
def only_place(docker_host: str) -> Iterator[Emptied]:
    machine = profiles.rtx_pro_6000()
    with installation(docker_host, machine) as made:
        yield Emptied(made, machine)


@pytest.fixture
def place(only_place: Emptied) -> Installation:
    """With eight cards, as after its first start: the first link is still to be opened."""
    only_place.empty()
    return only_place.place
