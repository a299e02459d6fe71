"""Lines that sound bad and need worry nobody are grey in runs that are well, and say why."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import faults_in_both_colours
from tests.browser.test_log import choose, context, open_log, page, stack, write
from tests.chat_stack import Stack

__all__ = ["context", "page", "stack"]

pytestmark = pytest.mark.browser

LINES = [
    "INFO 11-21 10:00:00 [core.py:12] Starting up",
    "\x1b[33mWARNING\x1b[0m 11-21 10:00:01 [fused_moe.py:9] Using default MoE kernel config. Performance might be sub-optimal!",
    "ERROR 11-21 10:00:02 [worker.py:5] something real",
    'INFO:     127.0.0.1:4 - "GET /metrics HTTP/1.1" 404 Not Found',
]  # fmt: skip
WHY = "There is no tuned configuration for this GPU"


def test_a_harmless_line_is_grey_and_says_why(page: Page, stack: Stack) -> None:
    write(stack, [("o", text) for text in LINES])
    open_log(page, stack)
    rows = page.locator(".log-row.is-harmless")
    expect(rows.locator(".log-number")).to_have_text(["2", "4"])
    expect(page.locator(".log-row.is-warning")).to_have_count(0)
    expect(page.locator(".log-gutter i")).to_have_count(1)
    expect(page.get_by_role("button", name="Warnings 0")).to_be_disabled()
    why = rows.first.get_by_role("button", name="harmless")
    expect(why).to_have_attribute("title", re.compile(f"^{WHY}"))

    why.focus()
    page.keyboard.press("Enter")
    expect(rows.first.locator(".log-harmless")).to_contain_text(WHY)
    expect(rows.first.locator(".log-harmless")).to_be_focused()
    assert faults_in_both_colours(page) == []
    page.keyboard.press("Enter")
    expect(rows.first.locator(".log-harmless")).to_have_text("harmless")

    choose(page, "Hide known noise")
    expect(rows).to_have_count(0)
    expect(page.locator(".log-row.is-warning .log-number")).to_have_text("2")
    page.reload()
    expect(page.locator(".log-row.is-warning .log-number")).to_have_text("2")
    expect(rows).to_have_count(0)


def test_in_a_run_that_failed_no_line_is_called_harmless(page: Page, stack: Stack) -> None:
    write(stack, [("o", text) for text in LINES])
    run = f"Run.objects.filter(pk={stack.run})"
    found = {"cause": "", "evidence": [[2, LINES[1]]]}
    stack.shell(f"{run}.write(state='failed', log__diagnosis={found})")
    page.goto(f"{stack.url}/servers/tiny/log/")
    expect(page.locator(".log-row.is-warning .log-number")).to_have_text("2")
    expect(page.locator(".is-harmless")).to_have_count(0)
    page.get_by_role("button", name="More", exact=True).click()
    expect(page.get_by_role("menuitem", name="Start")).to_be_visible()
    expect(page.locator("[data-action=harmless]")).to_be_hidden()
