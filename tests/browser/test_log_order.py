"""Whichever of the server's answers comes first, the page of a log shows its end, or where it was.

And nothing of it moves under a press.
"""

import json
from typing import Any

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from tests.browser.test_log import context, numbered, open_log, page, stack, write
from tests.chat_stack import Stack

__all__ = ["context", "page", "stack"]

pytestmark = pytest.mark.browser

LINES = 30_000


class Between:
    """Stands in the log's socket, and lets one kind of answer wait for the others."""

    def __init__(self, page: Page, *, late: str) -> None:
        self.late = late  # "pushes" or "windows"
        self.wishes: list[dict[str, Any]] = []
        self.unanswered = 0
        self.has_outline = self.has_end = False
        self.held: list[str] = []
        page.route_web_socket("**/log/", self._route)

    def _route(self, browser: WebSocketRoute) -> None:
        server = browser.connect_to_server()
        browser.on_message(lambda text: self._asked(server, str(text)))
        server.on_message(lambda text: self._said(browser, str(text)))

    def _asked(self, server: WebSocketRoute, text: str) -> None:
        wish = json.loads(text)
        self.wishes.append(wish)
        self.unanswered += "from" in wish or "before" in wish
        server.send(text)

    def _said(self, browser: WebSocketRoute, text: str) -> None:
        said = json.loads(text)
        is_push = isinstance(said, list)
        is_window = not is_push and "window" in said
        self.unanswered -= is_window
        self.has_outline |= "outline" in said
        self.has_end |= is_push and said[0] + len(said[1]) > LINES
        if self.late == "pushes":
            may_pass, waits = self.has_outline and not self.unanswered, is_push
        else:
            may_pass, waits = self.has_end and self.has_outline, is_window
        if waits:
            self.held.append(text)
        else:
            browser.send(text)
        if may_pass:
            for each in self.held:
                browser.send(each)
            self.held.clear()

    @property
    def walked(self) -> list[dict[str, Any]]:
        return [wish for wish in self.wishes if "from" in wish]


@pytest.mark.parametrize("late", ["pushes", "windows"])
def test_a_page_that_opens_goes_to_the_end_at_once(page: Page, stack: Stack, late: str) -> None:
    write(stack, numbered(LINES))
    between = Between(page, late=late)
    page.goto(f"{stack.url}/servers/tiny/log/")
    expect(page.locator(".log-number").last).to_have_text(str(LINES))
    expect(page.locator(".log-row").nth(20)).to_be_attached()

    # What it shows stays so, whatever comes late.
    write(stack, [("o", "one more")])
    expect(page.locator(".log-number").last).to_have_text(str(LINES + 1))
    assert between.walked == []
    expect(page.locator(".log-row").nth(20)).to_be_attached()


def test_a_connection_that_drops_before_the_first_line_loses_nothing(
    page: Page, stack: Stack
) -> None:
    write(stack, numbered(LINES))
    connections = 0

    def route(browser: WebSocketRoute) -> None:
        nonlocal connections
        connections += 1
        is_first = connections == 1
        server = browser.connect_to_server()

        def said(text: str | bytes) -> None:
            if not is_first or "hello" in str(text):
                browser.send(text)
            elif isinstance(json.loads(text), list):
                browser.close(code=3000)

        server.on_message(said)

    page.route_web_socket("**/log/", route)
    page.goto(f"{stack.url}/servers/tiny/log/")
    expect(page.locator(".log-number").last).to_have_text(str(LINES))
    expect(page.locator(".log-row").nth(20)).to_be_attached()
    assert connections == 2


def test_a_search_whose_answer_is_lost_goes_to_its_first_hit_all_the_same(
    page: Page, stack: Stack
) -> None:
    write(stack, [*numbered(50), ("o", "a shard"), ("o", "a shard")])
    lost: list[str] = []

    def route(browser: WebSocketRoute) -> None:
        server = browser.connect_to_server()

        def said(text: str | bytes) -> None:
            # The first answer to the search, and the connection with it.
            if "numbers" in str(text) and not lost:
                lost.append(str(text))
                browser.close(code=3000)
            else:
                browser.send(text)

        server.on_message(said)

    page.route_web_socket("**/log/", route)
    page.goto(f"{stack.url}/servers/tiny/log/")
    expect(page.locator(".log-number").last).to_have_text("52")
    page.get_by_role("button", name="Find", exact=True).click()
    page.get_by_label("Find in the whole log").fill("shard")
    expect(page.locator(".log-count")).to_contain_text("of 2")
    assert lost


def test_nothing_moves_under_a_press_while_lines_come(page: Page, stack: Stack) -> None:
    write(stack, [("o", "w" * 20_000)])
    open_log(page, stack)
    button = page.get_by_role("button", name="16,000 more characters")
    button.hover()
    page.mouse.down()
    write(stack, [*numbered(20), ("e", "RuntimeError: out of luck")])
    expect(page.locator(".log-row-e")).to_be_attached()
    page.mouse.up()

    expect(page.locator(".log-row-o .log-text").first).to_have_text("w" * 20_000)
    expect(page.locator(".log-row.is-error")).to_be_attached()
