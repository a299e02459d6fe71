import pytest
from playwright.sync_api import Page, expect

from tests.browser.chat.talk import answer, ask, finished, kept
from tests.scripted_engine import ScriptedEngine
from tests.waiting import PATIENCE

pytestmark = pytest.mark.browser


def test_stop_cancels_at_the_engine_and_keeps_what_arrived(
    page: Page, engine: ScriptedEngine
) -> None:
    ask(page, deltas=[{"content": "So far"}], then="hang")
    expect(answer(page).locator(".markdown")).to_have_text("So far")

    page.get_by_role("button", name="Stop", exact=True).click()

    assert engine.outcomes.get(timeout=PATIENCE) == "cancelled"
    expect(answer(page).locator(".markdown")).to_have_text("So far")
    expect(answer(page).locator(".message-foot")).to_contain_text("stopped by you")


def test_escape_stops_before_the_first_token(page: Page, engine: ScriptedEngine) -> None:
    ask(page, deltas=[], first_delay=3600)
    engine.arrived.get(timeout=PATIENCE)
    expect(answer(page).locator(".waiting")).to_contain_text("Waiting for the first token")

    page.keyboard.press("Escape")

    assert engine.outcomes.get(timeout=PATIENCE) == "cancelled"
    finished(page)


def test_a_double_click_on_send_stops_nothing(page: Page) -> None:
    page.get_by_label("Message", exact=True).fill("hello")

    page.get_by_role("button", name="Send", exact=True).dblclick()

    finished(page)
    expect(answer(page).locator(".markdown")).to_have_text("You said: hello")


def test_what_is_deleted_while_it_is_answered_comes_back_and_goes_on(page: Page) -> None:
    ask(page, deltas=[{"content": "So far"}], then="hang")
    expect(answer(page).locator(".markdown")).to_have_text("So far")
    kept(page)

    page.locator("#chat-conversations").get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Undo").click()

    expect(answer(page).get_by_role("alert")).to_contain_text("or the conversation deleted")
    ask(page, "and now?")
    expect(answer(page).locator(".markdown")).to_have_text("You said: and now?")


def test_who_goes_by_keys_is_not_lost(page: Page) -> None:
    composer = page.get_by_label("Message", exact=True)
    ask(page, deltas=[{"content": "So far"}], then="hang")
    expect(answer(page).locator(".markdown")).to_have_text("So far")

    for _each in ("pictures", "model", "Stop"):
        page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    finished(page)
    expect(composer).to_be_focused()

    page.keyboard.press("ArrowUp")
    page.keyboard.press("Escape")
    expect(composer).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ControlOrMeta+A")
    page.keyboard.type("again")
    page.keyboard.press("Enter")
    expect(answer(page).locator(".markdown")).to_have_text("You said: again")
    expect(composer).to_be_focused()

    finished(page)
    page.get_by_label("Regenerate this answer").focus()
    page.keyboard.press("Enter")
    finished(page)
    expect(composer).to_be_focused()
