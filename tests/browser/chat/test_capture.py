"""Capture: everybody is told on the pages that they have open, and an admin reads what was kept."""

import os
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.axe import faults
from tests.browser.steps import eventually
from tests.chat_stack import Stack, knows_engine
from tests.scripted_engine import ScriptedEngine

pytestmark = pytest.mark.browser

PICTURES = os.environ.get("PICTURES", "")
PHONE = {"width": 390, "height": 844}
MINE = """
print(Key.make(User.objects.get(username="ada"), "Open WebUI", Role.OPERATOR, expires_at=None)[1])
"""
ANOTHER = """
factories.capture(User.objects.get(username="otto"), reason="another admin’s")
events.publish_change('capture')
"""


def picture(page: Page, name: str) -> None:
    if PICTURES:
        page.screenshot(path=Path(PICTURES) / f"{name}.png", full_page=True)


def test_what_is_kept_is_told_on_open_pages_and_read_by_an_admin(
    page: Page, stack: Stack, browser: Browser, engine: ScriptedEngine
) -> None:
    """`page` is an operator's playground."""
    banner = page.locator("#capture")
    expect(banner).to_be_hidden()
    cookie: Any = stack.web.cookie("otto", "ADMIN")
    token = stack.shell(MINE).strip()
    knows_engine(stack, engine, token)
    with browser.new_context(viewport={"width": 1280, "height": 800}) as context:
        context.add_cookies([cookie])
        admin = context.new_page()
        admin.goto(f"{stack.url}/gateway/requests/")
        admin.get_by_role("link", name="Capture").click()
        expect(admin.get_by_role("heading", name="Capture", level=1)).to_be_visible()
        assert faults(admin) == []
        admin.get_by_label("Requests to").select_option("tiny")
        admin.get_by_label("Why").fill("tool calls come out as text")
        admin.get_by_role("button", name="Switch capture on").click()
        expect(banner).to_contain_text(
            "Prompts that programs send to tiny, and their answers, are being kept"
        )
        expect(banner).to_contain_text("by otto: tool calls come out as text")
        expect(banner).to_contain_text("Requests from the playground are not.")
        expect(admin.locator("#capture")).not_to_contain_text("playground")
        expect(banner.get_by_role("link")).to_have_count(0)
        picture(page, "capture-chat")

        def is_kept() -> bool:
            answer = httpx.post(
                f"{stack.url}/v1/chat/completions",
                headers={"Authorization": f"Bearer {token}"},
                json={"model": "tiny", "stream": True,
                      "messages": [{"role": "user", "content": "How far is the moon?"}]},
            )  # fmt: skip
            return "until=" in answer.headers.get("x-inferdash-capture", "")

        eventually(admin, is_kept)  # the gateway looks once a second
        row = admin.get_by_role("row").filter(has_text="Open WebUI")
        expect(row).to_contain_text("200")
        expect(admin.get_by_text("1 request kept")).to_be_visible()
        picture(admin, "capture")
        admin.emulate_media(color_scheme="dark")
        admin.set_viewport_size(PHONE)  # type: ignore[arg-type]
        assert faults(admin) == []
        picture(admin, "capture-phone-dark")
        admin.get_by_role("link", name="How far is the moon?").click()
        expect(admin.locator("#answered")).to_have_text("You said: How far is the moon? ")
        assert faults(admin) == []
        picture(admin, "captured-phone-dark")
        admin.emulate_media(color_scheme="light")
        admin.set_viewport_size({"width": 1280, "height": 800})
        picture(admin, "captured")

        admin.get_by_role("link", name="Show, or end it").click()
        admin.get_by_label("Search in what is kept").fill("half a wo")
        stack.shell(
            "Capture.objects.update(until=timezone.now()); events.publish_change('capture')"
        )
        expect(admin.get_by_role("heading", name="Switch capture on")).to_be_visible()
        expect(admin.get_by_role("region", name="Earlier captures")).to_contain_text("tool calls")
        expect(admin.get_by_label("Search in what is kept")).to_have_value("half a wo")
        expect(banner).to_be_hidden()
        stack.shell(ANOTHER)
        expect(admin.get_by_role("heading", name="Capture is on")).to_be_visible()
        admin.get_by_role("button", name="End now").click()
        expect(admin.get_by_role("heading", name="Switch capture on")).to_be_visible()
        admin.get_by_text("Delete all now…").click()
        admin.get_by_role("button", name="Delete 1 prompt and answer").click()
        expect(admin.get_by_text("No requests are kept.")).to_be_visible()
        picture(admin, "capture-off")
