"""What is pressed before a page's scripts have come."""

import threading

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.browser.chromium import new_page
from tests.browser.layout import until
from tests.browser.steps import eventually
from tests.web_stack import WebStack

pytestmark = pytest.mark.browser


def test_a_button_that_is_pressed_too_early_is_not_pressed_in_vain(
    stack: WebStack, browser: Browser
) -> None:
    stack.run('factories.server(factories.box("rtx8"), "qwen3-8b")')
    complaints: list[str] = []
    context = browser.new_context()
    context.add_cookies([stack.cookie("ada")])  # type: ignore[list-item]
    page = new_page(context, complaints)
    held: list[Route] = []
    came = threading.Event()

    def hold(route: Route) -> None:
        held.append(route)
        came.set()

    page.route("**/js/page/index*.js", hold)
    page.goto(f"{stack.url}/", wait_until="commit")
    card = page.get_by_role("article").filter(has_text="qwen3-8b")
    card.get_by_role("button", name="Start", exact=True).click()
    eventually(page, came.is_set)
    until(page, "() => document.readyState === 'interactive'")
    assert stack.run("print(Run.objects.count())").strip() == "0"

    for route in held:
        route.continue_()

    expect(card).to_have_attribute("data-state", "queued")
    assert stack.run("print(Run.objects.count())").strip() == "1"

    held.clear()
    came.clear()
    page.goto(f"{stack.url}/", wait_until="commit")
    page.locator(".palette-button .icon").click()
    eventually(page, came.is_set)
    for route in held:
        route.continue_()
    expect(page.get_by_role("dialog", name="Search and commands")).to_be_visible()
    assert complaints == []
