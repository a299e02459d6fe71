"""What several walks do alike."""

import time
from collections.abc import Callable
from typing import Protocol

from playwright.sync_api import Locator, Page, expect

from tests.browser.chromium import PATIENCE


class Place(Protocol):
    """An installation, however it was started."""

    @property
    def url(self) -> str: ...
    @property
    def link(self) -> str: ...


class Asked(Place, Protocol):
    def ask(self, expression: str) -> object: ...


PASSWORD = "correct horse battery"

expect.set_options(timeout=PATIENCE)


def join(page: Page, place: Place, name: str = "ana") -> None:
    """Open the first link, become the admin, and go from what was found to the dashboard."""
    page.goto(place.link)
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_label("Password again").fill(PASSWORD)
    page.locator("main form button").click()
    page.wait_for_url(lambda url: "/join/" not in url)
    page.goto(f"{place.url}/")


def card(page: Page, slug: str) -> Locator:
    return page.locator("article").filter(has=page.get_by_text(slug, exact=True))


def eventually(page: Page, holds: Callable[[], bool]) -> None:
    """Wait for something that the page does not show."""
    deadline = time.monotonic() + PATIENCE / 1000
    while not holds():
        assert time.monotonic() < deadline, "it never came to be"
        page.wait_for_timeout(100)


def key(page: Page, place: Place) -> str:
    """Of whoever is logged in, for a program."""
    page.goto(f"{place.url}/keys/")
    page.get_by_label("What is it for?").fill("a program")
    page.get_by_role("button", name="Make a key").click()
    token = page.locator("#token").text_content()
    assert token is not None
    return token.strip()


def log_in(page: Page, place: Asked) -> None:
    """As who has joined in the test before, or joins now."""
    page.goto(f"{place.url}/login/")
    if not place.ask("User.objects.count()"):
        join(page, place)
        return
    page.get_by_label("Name").fill("ana")
    page.get_by_label("Password").fill(PASSWORD)
    with page.expect_navigation():
        page.locator("main form button").click()
