"""The distribution's Chromium, quiet on the network, and complaints of its pages collected."""

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright

FLAGS = [
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 30_000  # ms


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        yield browser
        browser.close()


def new_page(context: BrowserContext, complaints: list[str]) -> Page:
    """A page whose script errors, policy violations and failed loads end up in `complaints`."""
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "console",
        lambda said: complaints.append(said.text) if _counts(said) else None,
    )
    return page


def _counts(said: ConsoleMessage) -> bool:
    # ERR_NETWORK_CHANGED: a Docker bridge came or went meanwhile, which is not the page's fault.
    return said.type == "error" and "ERR_NETWORK_CHANGED" not in said.text
