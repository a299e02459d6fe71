"""What was asked again or changed stays beside what came of it, and is come back to."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.axe import faults
from tests.browser.chat.talk import answer, ask, finished, kept, menu
from tests.scripted_engine import ScriptedEngine

pytestmark = pytest.mark.browser


def said(page: Page) -> Locator:
    return page.locator(".question .text")


def edit(page: Page, at: int, text: str) -> None:
    page.get_by_label("Edit this message and send it again").nth(at).click()
    page.get_by_label("Edit the message").fill(text)
    page.get_by_role("button", name="Send again").click()
    finished(page)


def versions(message: Locator) -> Locator:
    return message.get_by_role("group", name="Versions")


def test_a_changed_question_is_another_version(page: Page, engine: ScriptedEngine) -> None:
    for words in ("first", "second", "third"):
        ask(page, words)
        finished(page)
    edit(page, 1, "better")
    expect(said(page)).to_have_text(["first", "better"])
    expect(answer(page).locator(".markdown")).to_have_text("You said: better")
    assert [each["content"] for each in engine.requests[-1]["messages"]][-1] == "better"
    assert len(engine.requests[-1]["messages"]) == 3
    changed = page.locator(".question").nth(1)
    expect(versions(changed)).to_contain_text("2 of 2")
    assert faults(page) == []

    versions(changed).get_by_label("Version before").click()

    expect(said(page)).to_have_text(["first", "second", "third"])
    expect(versions(changed)).to_contain_text("1 of 2")
    expect(versions(changed).get_by_label("Next version")).to_be_focused()
    ask(page, "fourth")
    finished(page)
    kept(page)
    page.reload()
    expect(said(page)).to_have_text(["first", "second", "third", "fourth"])
    page.locator(".question").nth(1).get_by_label("Next version").click()
    expect(said(page)).to_have_text(["first", "better"])
    ask(page, "and on")
    finished(page)
    assert [each["content"] for each in engine.requests[-1]["messages"]] == [
        "first", "You said: first ", "better", "You said: better ", "and on",
    ]  # fmt: skip


def test_an_answer_that_is_asked_for_again_stays(page: Page, tmp_path: Path) -> None:
    ask(page, "once")
    finished(page)
    edit(page, 0, "twice")
    page.get_by_label("Regenerate this answer").click()
    finished(page)
    expect(versions(answer(page))).to_contain_text("2 of 2")
    question = page.locator(".question")
    versions(question).get_by_label("Version before").click()
    expect(said(page)).to_have_text(["once"])
    expect(versions(answer(page))).to_have_count(0)
    expect(page.locator("#chat-conversations .open")).to_have_text(["once"])

    with page.expect_download() as got:
        menu(page, "JSON")
    got.value.save_as(tmp_path / "said.json")
    whole = json.loads((tmp_path / "said.json").read_text())
    assert [each["content"] for each in whole["messages"]] == ["once", "You said: once "]
    assert [each.get("parent") for each in whole["every"]] == [None, None, -1, None, 2]

    kept(page)
    menu(page, "Share")
    page.get_by_role("button", name="Make a link").click()
    link = page.get_by_label("Link to this conversation").input_value()
    page.keyboard.press("Escape")
    with page.expect_response("**/chat/conversations/**"):
        versions(question).get_by_label("Next version").click()
    expect(said(page)).to_have_text(["twice"])
    expect(versions(answer(page))).to_contain_text("2 of 2")
    page.goto(link)
    expect(said(page)).to_have_text(["twice"])
    expect(page.locator(".answer")).to_have_count(1)
    expect(page.get_by_role("group", name="Versions")).to_have_count(0)


def test_an_answer_in_which_nothing_came_is_no_version(page: Page) -> None:
    ask(page, deltas=[], status=500, error={"error": {"message": "no"}})
    expect(answer(page).get_by_role("alert")).to_be_visible()

    page.get_by_role("button", name="Retry").click()

    expect(answer(page).get_by_role("alert")).to_be_visible()
    expect(versions(answer(page))).to_have_count(0)
