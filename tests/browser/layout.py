"""The layout of a page once it has come to rest: it follows windows and colours in frames of its own."""

from typing import Any

from playwright.sync_api import Page
from playwright.sync_api import TimeoutError as TooLateError

from tests.browser.chromium import PATIENCE

# How far it goes beyond the window, in px.
BEYOND = "() => Math.max(0, document.documentElement.scrollWidth - innerWidth)"
EVERY = 50  # ms
STILL = """async (scroller) => {
    const frame = () => new Promise(requestAnimationFrame);
    let [before, still] = [NaN, 0];
    while (still < 5) {
        still = before === scroller.scrollTop ? still + 1 : 0;
        before = scroller.scrollTop;
        await frame();
    }
    return before;
}"""


def until(page: Page, claim: str, about: Any = None) -> None:
    """Wait until this function of JavaScript, "() => …", gives what is true.

    A bare expression would be compiled anew at every look, and pages forbid that by their
    Content-Security-Policy: it fails wherever the first look comes too early.
    """
    assert "=>" in claim, "not an expression, but a function"
    page.wait_for_function(claim, arg=about, polling=EVERY, timeout=PATIENCE)


def find_excess(page: Page) -> int:
    """How many px a page is wider than its window, and stays so."""
    if not page.evaluate(BEYOND):
        return 0
    try:
        until(page, f"() => !({BEYOND})()")
    except TooLateError:
        return int(page.evaluate(BEYOND))
    return 0


def rest(page: Page, scroller: str) -> float:
    """How far down this element is once it has come to rest: a wheel turns in the browser's own time."""
    found = page.locator(scroller).evaluate(STILL)
    return float(found)
