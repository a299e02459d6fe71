import pytest
from playwright.sync_api import Page, expect

from tests.browser.chat.talk import answer, ask, finished, kept
from tests.scripted_engine import ScriptedEngine

pytestmark = pytest.mark.browser


def test_stop_cancels_at_the_engine_and_keeps_what_arrived(
    page: Page, engine: ScriptedEngine
) -> None:
    ask(page, deltas=[{"content": "So far"}], then="hang")
    expect(answer(page).locator(".markdown")).to_have_text("So far")

    page.get_by_role("button", name="Stop", exact=True).click()

    assert engine.outcomes.get(timeout=5) == "cancelled"
    expect(answer(page).locator(".markdown")).to_have_text("So far")
    expect(answer(page).locator(".message-foot")).to_contain_text("stopped by you")


def test_escape_stops_before_the_first_token(page: Page, engine: ScriptedEngine) -> None:
    ask(page, deltas=[], first_delay=3600)
    engine.arrived.get(timeout=5)
    expect(answer(page).locator(".waiting")).to_contain_text("Waiting for the first token")

    page.keyboard.press("Escape")

    assert engine.outcomes.get(timeout=5) == "cancelled"
    finished(page)


def test_closing_the_page_cancels_at_the_engine(page: Page, engine: ScriptedEngine) -> None:
    ask(page, deltas=[{"content": "So far"}], then="hang")
    expect(answer(page).locator(".markdown")).to_have_text("So far")

    kept(page)
    page.reload()

    assert engine.outcomes.get(timeout=5) == "cancelled"
    expect(answer(page).locator(".markdown")).to_have_text("So far")
    expect(answer(page).get_by_role("alert")).to_contain_text("The page was closed")
