"""What a person of the role chat has in a browser: the playground, the gateway, keys of their own."""

import re

from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.browser.axe import faults
from tests.browser.chat.talk import answer, ask, chosen, finished, kept, menu, pieces
from tests.browser.chromium import PATIENCE
from tests.browser.layout import find_excess
from tests.chat_stack import Stack

PHONE: ViewportSize = {"width": 390, "height": 844}


def test_who_may_only_chat_chats_and_is_shown_nothing_else(browser: Browser, stack: Stack) -> None:
    cookie = stack.web.cookie("carl", "CHAT")
    with browser.new_context(viewport={"width": 1280, "height": 800}) as context:
        context.set_default_timeout(PATIENCE)
        context.add_cookies([{"name": cookie["name"], "value": cookie["value"], "url": stack.url}])
        page = context.new_page()
        complaints: list[str] = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"{stack.url}/")

        page.wait_for_url(f"{stack.url}/chat/")
        page.locator("#chat-server button").wait_for()
        links = page.get_by_role("navigation", name="Pages").get_by_role("link")
        expect(links).to_have_text(["Playground", "Gateway & keys"])
        ask(page, deltas=pieces("Good morning, Carl."))
        finished(page)
        expect(answer(page)).to_contain_text("Good morning, Carl.")
        kept(page)
        page.reload()
        expect(answer(page)).to_contain_text("Good morning, Carl.")
        _look(page, "chat")

        page.get_by_role("link", name="Gateway").first.click()
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        _look(page, "gateway")

        # All of it on a phone, too.
        page.set_viewport_size(PHONE)
        page.get_by_role("link", name="Playground").first.click()
        page.locator("#chat-server button").wait_for()
        ask(page, deltas=[{"content": "So far"}], then="hang")
        expect(answer(page)).to_contain_text("So far")
        page.get_by_role("button", name="Stop", exact=True).click()
        finished(page)
        page.get_by_role("button", name="Conversations", exact=True).click()
        page.locator("#chat-conversations .open").last.click()
        expect(answer(page)).to_contain_text("Good morning, Carl.")
        menu(page, "Compare with …")
        expect(chosen(page, "Server of column A")).to_have_accessible_name(re.compile(": tiny,"))
        _look(page, "compare")

        page.set_viewport_size(PHONE)
        page.get_by_role("button", name="Menu").click()
        page.locator("#person-button").click()
        page.get_by_role("link", name="Keys for programs").click()
        # The least that a key may, and not for long.
        page.get_by_role("link", name="New key").click()
        expect(page.get_by_label("Scope")).to_have_value("0")
        expect(page.get_by_label("Expires")).to_have_value("90")
        page.get_by_label("Name").fill("my phone")
        page.get_by_role("button", name="Create key").click()
        asks = {"Authorization": f"Bearer {page.locator('#token').inner_text()}"}
        assert context.request.get(f"{stack.url}/v1/models", headers=asks).status == 200
        assert context.request.get(f"{stack.url}/api/v1/servers", headers=asks).status == 403
        _look(page, "keys")
        page.set_viewport_size(PHONE)
        page.get_by_role("link", name="Revoke my phone").click()
        page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
        expect(page.get_by_role("row").filter(has_text="my phone")).to_contain_text("revoked")

        page.goto(f"{stack.url}/servers/tiny/")
        expect(page.get_by_text("you are chat")).to_be_visible()
        assert complaints == []


def _look(page: Page, name: str) -> None:
    """Nothing that axe finds, and nothing wider than a phone."""
    assert faults(page) == [], name
    page.set_viewport_size(PHONE)
    assert not find_excess(page), name
    page.set_viewport_size({"width": 1280, "height": 800})
