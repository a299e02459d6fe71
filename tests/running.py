"""What takes seconds to start runs once a process of tests, and is empty again for each of them.

A test that asks for one of these finds nothing of the test before it, whichever that was.
"""

import asyncio
import tempfile
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests import durations, scheduling
from tests.browser.chromium import chromium
from tests.chaos.mothers import Mothers
from tests.chat_stack import Stack, seeded
from tests.emptied import Emptied
from tests.installation import Installation, installation
from tests.nvml import profiles
from tests.scripted_engine import ScriptedEngine
from tests.web_stack import WebStack, web_stack

CHROMIUM = "only_chromium"

# Playwright's, once it has begun.
_loop: asyncio.AbstractEventLoop | None = None
_place: "OnlyPlace | None" = None


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
def browser(only_chromium: Browser, monkeypatch: pytest.MonkeyPatch) -> Iterator[Browser]:
    """Its contexts are this test's alone.

    Nobody sees what turns and breathes in them, and without a GPU each of its frames takes a core.
    """
    still = partial(only_chromium.new_context, reduced_motion="reduce")
    monkeypatch.setattr(only_chromium, "new_context", still)
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


class OnlyPlace:
    """An installation from the first test that asks for it to the last."""

    def __init__(self, docker_host: str) -> None:
        self._docker_host = docker_host
        self._made = ExitStack()
        self._emptied: Emptied | None = None

    def find(self) -> Emptied:
        if self._emptied is None:
            machine = profiles.rtx_pro_6000()
            made = self._made.enter_context(installation(self._docker_host, machine))
            self._emptied = Emptied(made, machine)
        return self._emptied

    def close(self) -> None:
        self._emptied = None
        self._made.close()


@pytest.fixture(scope="session")
def only_place(docker_host: str) -> Iterator[OnlyPlace]:
    global _place
    _place = OnlyPlace(docker_host)
    yield _place
    _place.close()
    _place = None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Ends the installation where tests.scheduling has put all that need it before what comes."""
    told = yield
    is_sorted = hasattr(item.config, "workerinput")
    if _place is not None and is_sorted and nextitem is not None:
        module = nextitem.nodeid.partition("::")[0]
        if module not in scheduling.share_installations():
            _place.close()
    return told


@pytest.fixture
def place(only_place: OnlyPlace, request: pytest.FixtureRequest) -> Installation:
    """With eight cards, as after its first start: the first link is still to be opened."""
    with durations.note_shared(request.node):
        emptied = only_place.find()
    emptied.empty()
    return emptied.place


@pytest.fixture(scope="session")
def mothers() -> Iterator[Mothers]:
    """Of the workers and watchers of tests.chaos.place."""
    with tempfile.TemporaryDirectory(prefix="ifd-") as folder:
        mothers = Mothers(Path(folder))
        yield mothers
        mothers.close()
