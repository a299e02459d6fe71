import json
from typing import Any

from playwright.sync_api import Page, expect


def ask(page: Page, text: str = "", **script: Any) -> None:
    page.get_by_label("Message", exact=True).fill(text or json.dumps(script))
    page.keyboard.press("Enter")


def answer(page: Page) -> Any:
    return page.locator(".answer").last


def parameters(page: Page) -> None:
    """Open them, unless they stand there already; their fields are read once they have come."""
    button = page.locator("#chat-params-button")
    if button.get_attribute("aria-expanded") != "true":
        button.click()
    expect(page.locator("#tools-choice option").first).to_be_attached()


def menu(page: Page, item: str) -> None:
    """Press this in the menu above the conversation."""
    page.get_by_role("button", name="More", exact=True).click()
    page.locator("#chat-menu").get_by_text(item, exact=True).click()


def choose(page: Page, label: str, slug: str) -> None:
    """Pick a server by the button that this names."""
    page.get_by_role("button", name=f"{label}: ").click()
    page.locator(f'[role=option][data-slug="{slug}"]:visible').click()


def chosen(page: Page, label: str) -> Any:
    return page.get_by_role("button", name=f"{label}: ")


def details(page: Page) -> None:
    """Of the last answer."""
    answer(page).get_by_label("Details of this answer").click()


def unfold(page: Page, title: str) -> None:
    """Open what is folded beside the conversation."""
    parameters(page)
    fold = page.locator("#chat-params details").filter(has=page.locator("summary", has_text=title))
    if fold.get_attribute("open") is None:
        fold.locator("> summary").click()


def finished(page: Page) -> None:
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()


def kept(page: Page) -> None:
    """The conversation has an address of its own, which a reload comes back to."""
    page.wait_for_url(lambda url: not url.endswith("/chat/"))


def pieces(text: str, size: int = 7) -> list[dict[str, str]]:
    return [{"content": text[at : at + size]} for at in range(0, len(text), size)]
