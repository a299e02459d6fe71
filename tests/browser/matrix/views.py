"""Looks at pages in every width and colour: pictures for people, faults for the test.

INFERDASH_PICTURES names a folder, and the pictures are kept there: `make page-pictures`.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, expect

from tests.browser.axe import COLOURS, faults
from tests.browser.chromium import new_page
from tests.browser.layout import find_lasting
from tests.web_stack import WebStack

WIDE: Any = {"width": 1280, "height": 900}
PHONE: Any = {"width": 360, "height": 780}
# No pictures of these: 1280 at 200 % has 640; a tablet; a large screen.
BETWEEN: tuple[Any, ...] = (
    {"width": 640, "height": 450},
    {"width": 768, "height": 1024},
    {"width": 1920, "height": 1080},
)
# What a width changes, of all that axe looks at.
BY_WIDTH = ("color-contrast", "target-size", "scrollable-region-focusable")
# Figures and units of a letter are looked at, not read.
WORDS = """() => {
    const main = document.querySelector("main");
    const aside = [...main.querySelectorAll("run-log")].map((log) => log.innerText).join(" ");
    const count = (text) => text.split(/\\s+/).filter((word) => /\\p{L}{2}/u.test(word)).length;
    return count(main.innerText) - count(aside);
}"""
# Tables whose rows are blocks where there is little room: nothing of them is beside the window.
CUT_OFF = """() => [...document.querySelectorAll(".table-wrap:has(> .blocks-narrow, > .blocks)")]
    .filter((wrap) => wrap.scrollWidth > wrap.clientWidth + 1)
    .map((wrap) => wrap.getAttribute("aria-label"))"""
RUNNING = "document.getAnimations().filter((each) => each.playState === 'running').length"


class PageViewer:
    """A person's browser, which opens one page after another and looks at each in every way."""

    def __init__(self, stack: WebStack, browser: Browser, state: str, who: str = "ada") -> None:
        self.stack, self.state = stack, state
        self.complaints: list[str] = []
        context = browser.new_context(viewport=WIDE, reduced_motion="reduce")
        context.add_cookies([stack.cookie(who)])  # type: ignore[list-item]
        self.page = new_page(context, self.complaints)
        kept = os.environ.get("INFERDASH_PICTURES", "")
        self.folder = Path(kept) if kept else None

    def look(self, path: str, *, most_words: int = 0) -> Iterator[str]:
        """What is wrong with this page, each with where it was seen. 0: any number of words."""
        page, name = self.page, f"{self.state} {path}"
        page.set_viewport_size(WIDE)
        page.emulate_media(color_scheme="light")
        page.goto(self.stack.url + path)
        expect(page.locator("main h1")).to_be_visible()
        yield from (f"{name} wide: {fault}" for fault in faults(page))
        if most_words:
            yield from self._count_words(name, most_words)
        if running := page.evaluate(RUNNING):
            yield f"{name}: {running} animations run although less motion is wanted"
        self._take(path, "1280-light")
        yield from self._look_at_dark(name, path, "1280")
        page.set_viewport_size(PHONE)
        page.emulate_media(color_scheme="light")
        yield from (f"{name} phone: {fault}" for fault in faults(page, BY_WIDTH))
        yield from (f"{name} phone: {each} is cut off" for each in find_lasting(page, CUT_OFF))
        self._take(path, "360-light")
        yield from self._look_at_dark(name, path, "360")
        for size in BETWEEN:
            page.set_viewport_size(size)
            yield from (f"{name} at {size['width']}: {each}" for each in faults(page, BY_WIDTH[1:]))
        yield from (f"{name}: {each}" for each in self.complaints)
        self.complaints.clear()

    def paste(self, text: str, *, most_words: int) -> Iterator[str]:
        """The same words of the form, once it has checked what was pasted."""
        self.page.set_viewport_size(WIDE)
        self.page.goto(f"{self.stack.url}/profiles/paste/")
        self.page.get_by_label("Command or compose file").fill(text)
        self.page.get_by_role("button", name="Import", exact=True).click()
        expect(self.page.locator("#check .check-item").first).to_be_visible()
        yield from self._count_words("the form after a paste", most_words)

    def _count_words(self, name: str, most: int) -> Iterator[str]:
        if (words := self.page.evaluate(WORDS)) > most:
            yield f"{name}: {words} words are seen at once, more than {most}"

    def _look_at_dark(self, name: str, path: str, width: str) -> Iterator[str]:
        self.page.emulate_media(color_scheme="dark")
        yield from (f"{name} dark {width}: {each}" for each in faults(self.page, COLOURS))
        self._take(path, f"{width}-dark")

    def _take(self, path: str, view: str) -> None:
        if self.folder:
            slug = path.strip("/").replace("/", "-").replace("?", "-") or "dashboard"
            self.page.screenshot(
                path=self.folder / f"{slug}-{self.state}-{view}.png", full_page=True
            )

    def close(self) -> None:
        self.page.context.close()
