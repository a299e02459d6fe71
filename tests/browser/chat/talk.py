import json
from typing import Any

from playwright.sync_api import Page, expect


def ask(page: Page, text: str = "", **script: Any) -> None:
    page.get_by_label("Message", exact=True).fill(text or json.dumps(script))
    page.keyboard.press("Enter")


def answer(page: Page) -> Any:
    return page.locator(".answer").last


def unfold(page: Page, title: str) -> None:
    """Open what is folded beside the conversation."""
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
