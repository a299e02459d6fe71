"""What several walks do alike."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.dying import let_die
from tests.installation import Installation
from tests.waiting import wait_until
from tests.web_stack import log_in


class WalkedSite(Protocol):
    """An installation, however it was started."""

    @property
    def url(self) -> str: ...
    @property
    def link(self) -> str: ...


PASSWORD = "correct horse battery"


def join(page: Page, place: WalkedSite, name: str = "ana") -> None:
    """Open the first link, become the admin, and go from what was found to the dashboard."""
    page.goto(place.link)
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_label("Password again").fill(PASSWORD)
    page.locator("main form button").click()
    page.wait_for_url(lambda url: "/join/" not in url)
    page.goto(f"{place.url}/")


def unfold(page: Page, *names: str) -> None:
    """Open the sections of the profile form in which these fields stand."""
    for name in names:
        field = page.locator(f"#id_{name}")
        # The first click closes one that a check has opened meanwhile, for what is wrong in it.
        for _ in range(2):
            if not field.is_visible():
                page.locator("details.fold", has=field).locator("summary").click()


def fill_profile(page: Page, values: Mapping[str, str]) -> None:
    """Type into fields of the profile form."""
    for name, value in values.items():
        unfold(page, name)
        page.locator(f"#id_{name}").fill(value)


def create_profile(page: Page) -> None:
    """Until its page is there: who goes elsewhere before that may take the request back."""
    page.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_url(lambda url: not url.endswith("/profiles/new/"))


def allow_mounts(place: Installation, folder: Path) -> None:
    """Let profiles of its box mount what lies in this folder, too."""
    limits = place.data / "box.toml"
    before = limits.read_text()
    limits.write_text(before.replace("mount_roots = [", f'mount_roots = ["{folder}", ', 1))
    assert limits.read_text() != before


def card(page: Page, slug: str) -> Locator:
    return page.locator("article").filter(has=page.get_by_text(slug, exact=True))


def choose(card: Locator, action: str) -> None:
    """Of the menu of a card's rarer actions."""
    card.get_by_role("button", name="More for").click()
    card.get_by_role("button", name=action, exact=True).click()


def stop(page: Page, card: Locator, *, within: float) -> None:
    """By its card; milliseconds. What has served a moment ago is asked about first."""
    card.get_by_role("button", name="Stop").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.or_(card.get_by_text("stopped")).first).to_be_visible()
    if dialog.is_visible():
        dialog.get_by_role("button", name="Stop now").click()
    expect(card).to_have_attribute("data-state", "stopped", timeout=within)


def kill_engine(card: Locator) -> None:
    """The scripted one of a server, at the address that its card names."""
    address = re.search(r"(127\.0\.0\.1):(\d+)", card.text_content() or "")
    assert address, card.text_content()
    let_die(address[1], int(address[2]))


def eventually(page: Page, holds: Callable[[], bool]) -> None:
    """Wait for something that the page does not show, and let it go on meanwhile."""
    wait_until(
        holds,
        "what was waited for",
        every=0.1,
        pause=lambda seconds: page.wait_for_timeout(1000 * seconds),
    )


def key(page: Page, place: WalkedSite) -> str:
    """Of whoever is logged in, for a program."""
    page.goto(f"{place.url}/keys/new/")
    page.get_by_label("Name").fill("a program")
    page.get_by_role("button", name="Create key").click()
    token = page.locator("#token").text_content()
    assert token is not None
    return token.strip()


def admitted(
    context: BrowserContext, place: Installation, name: str = "ana", role: str = "ADMIN"
) -> BrowserContext:
    """The browser of a person who has logged in."""
    cookie = log_in(place.shell, place.url, name, role)
    context.add_cookies([cookie])  # type: ignore[list-item]
    return context
