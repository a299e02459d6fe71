"""Notifications of the browser: turned on by a press, shown once, by one tab of several."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.axe import faults
from tests.browser.chromium import new_page
from tests.browser.steps import eventually
from tests.web_stack import WebStack

pytestmark = pytest.mark.browser

# What the desktop would show is kept in the page. Whether it may is asked of the browser; what came of
# that is kept too, since Chromium without a window calls it "denied" whatever was granted.
STUB = """
const Real = window.Notification;
window.shown = [];
window.Notification = class extends EventTarget {
    static get permission() { return localStorage.getItem("permission") ?? "default"; }
    static async requestPermission() {
        const found = await Real.requestPermission();
        localStorage.setItem("permission", found);
        return found;
    }
    constructor(title, { body, tag }) {
        super();
        shown.push({ title, body, tag, press: () => this.dispatchEvent(new Event("click")) });
    }
    close() {}
};
"""
KEPT = "inferdash.notifications.shown"
INSECURE = "Object.defineProperty(window, 'isSecureContext', { value: false });"
READY = """
from django.utils import timezone
server = factories.server(Box.objects.get(), {name!r})
run = factories.run(server, RunState.READY, started_by=User.objects.get(username="kim"))
Run.objects.filter(pk=run.pk).write(ready_at=timezone.now())
events.publish_change("server", server.pk)
"""


@pytest.fixture
def context(stack: WebStack, browser: Browser) -> Iterator[BrowserContext]:
    stack.run("factories.box('rtx8')")
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.add_init_script(STUB)
    cookie: Any = stack.cookie("kim", "OPERATOR")
    context.add_cookies([cookie])
    yield context
    context.close()


def shown(*tabs: Page) -> list[str]:
    return sorted(
        title for tab in tabs for title in tab.evaluate("shown.map((each) => each.title)")
    )


def test_what_is_ready_is_shown_once_by_whichever_tab_listens(
    stack: WebStack, context: BrowserContext
) -> None:
    complaints: list[str] = []
    page = new_page(context, complaints)
    stack.run(READY.format(name="before"))
    page.goto(f"{stack.url}/settings/")
    expect(page.get_by_text("Off in this browser.")).to_be_visible()
    assert faults(page) == []
    page.evaluate("localStorage.setItem('permission', 'denied')")
    page.reload()
    expect(page.get_by_text("This browser blocks them here.")).to_be_visible()
    assert faults(page) == []
    context.grant_permissions(["notifications"])
    page.evaluate("localStorage.removeItem('permission')")
    page.reload()
    page.get_by_role("button", name="Turn on").press("Enter")
    expect(page.get_by_role("button", name="Turn off")).to_be_visible()
    eventually(page, lambda: shown(page) == ["inferdash"])
    # What was there before they were turned on is no news.
    eventually(page, lambda: page.evaluate(f"localStorage.getItem('{KEPT}')") is not None)

    other = new_page(context, complaints)
    other.goto(f"{stack.url}/")
    stack.run(READY.format(name="one"))
    stack.run(READY.format(name="two"))
    expected = ["inferdash", "one is ready", "two is ready"]
    eventually(page, lambda: shown(page, other) == expected)

    # The tab that listened is gone: the next one does, and shows nothing again.
    page.close()
    stack.run(READY.format(name="three"))
    eventually(other, lambda: shown(other) == ["three is ready"])
    with other.expect_navigation():
        other.evaluate("shown[0].press()")
    expect(other).to_have_url(f"{stack.url}/servers/three/")
    stack.run(READY.format(name="four"))
    eventually(other, lambda: shown(other) == ["four is ready"])

    other.goto(f"{stack.url}/settings/")
    other.get_by_role("button", name="Turn off").click()
    expect(other.get_by_role("button", name="Turn on")).to_be_visible()

    # Every critical alert is chosen without a mouse, and stays so.
    tick = other.get_by_role("checkbox", name="Every critical alert: in the browser")
    tick.press("Space")
    other.get_by_role("button", name="Save notifications").press("Enter")
    expect(other.get_by_text("Your notifications are saved.")).to_be_visible()
    expect(tick).to_be_checked()
    assert complaints == []


def test_without_tls_the_page_says_why_there_are_none_and_what_to_do(
    stack: WebStack, context: BrowserContext
) -> None:
    complaints: list[str] = []
    page = new_page(context, complaints)
    page.add_init_script(INSECURE)
    page.goto(f"{stack.url}/settings/")

    said = page.get_by_text("on HTTPS and localhost only")
    expect(said).to_be_visible()
    expect(said).to_contain_text("TLS=self")
    expect(page.get_by_role("button", name="Turn on")).to_be_hidden()
    assert faults(page) == []
    assert complaints == []
