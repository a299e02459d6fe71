import pytest
from playwright.sync_api import Page, expect

from tests.browser.chat.talk import answer, ask, finished, pieces
from tests.chat_stack import Stack
from tests.scripted_engine import ScriptedEngine
from tests.waiting import PATIENCE

pytestmark = pytest.mark.browser


def test_edit_and_resend_replaces_what_follows(page: Page, engine: ScriptedEngine) -> None:
    ask(page, "first")
    finished(page)
    ask(page, "second")
    finished(page)

    page.get_by_label("Edit this message and send it again").first.click()
    page.get_by_label("Edit the message").fill("changed")
    page.get_by_role("button", name="Send again").click()
    finished(page)

    expect(page.locator(".question .text")).to_have_text(["changed"])
    expect(answer(page).locator(".markdown")).to_have_text("You said: changed")
    assert engine.requests[-1]["messages"] == [{"role": "user", "content": "changed"}]


def test_regenerate_asks_for_the_same_again(page: Page, engine: ScriptedEngine) -> None:
    ask(page, "again")
    finished(page)
    before = len(engine.requests)

    page.get_by_label("Regenerate this answer").click()
    finished(page)

    assert len(engine.requests) == before + 1
    assert engine.requests[-1]["messages"] == [{"role": "user", "content": "again"}]
    expect(page.locator(".answer")).to_have_count(1)


def test_conversations_are_kept_named_and_deleted_with_undo(page: Page) -> None:
    ask(page, "about boxes")
    finished(page)
    page.get_by_role("button", name="New conversation").click()
    ask(page, "about engines")
    finished(page)
    page.get_by_label("Name of the conversation").fill("Engines!")
    page.get_by_label("Name of the conversation").press("Tab")
    page.reload()

    listed = page.locator("#chat-conversations .open")
    expect(listed).to_have_text(["Engines!", "about boxes"])
    listed.nth(1).click()
    expect(answer(page).locator(".markdown")).to_have_text("You said: about boxes")
    page.get_by_label("Delete “about boxes”").click()
    expect(listed).to_have_text(["Engines!"])
    page.get_by_role("button", name="Undo").click()
    expect(listed).to_have_count(2)


def test_a_press_on_a_conversation_outlasts_news_of_the_list(page: Page) -> None:
    ask(page, "first")
    finished(page)
    page.get_by_role("button", name="New conversation").click()
    ask(page, "second")
    finished(page)
    # Else the second one comes in above the first while that is pressed.
    expect(page.locator("#chat-conversations .open")).to_have_text(["second", "first"])
    row = page.locator("#chat-conversations .open", has_text="first")
    shown = row.element_handle()

    row.hover()
    page.mouse.down()
    # The page is looked at again, and asks what other tabs have kept.
    with page.expect_response(lambda response: "?q=" in response.url) as listed:
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    listed.value.finished()
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)))")
    page.mouse.up()

    expect(answer(page).locator(".markdown")).to_have_text("You said: first")
    assert row.evaluate("(now, before) => now === before", shown)
    expect(row).to_have_attribute("aria-current", "true")
    expect(page.locator("#chat-conversations [aria-current]")).to_have_count(1)


def test_an_answer_goes_on_while_another_conversation_is_looked_at(
    page: Page, engine: ScriptedEngine
) -> None:
    ask(page, "short one")
    finished(page)
    page.get_by_role("button", name="New conversation").click()
    ask(page, deltas=pieces("word " * 60, 5), hold=20)
    expect(answer(page).locator(".markdown")).to_contain_text("word")
    rows = page.locator("#chat-conversations .open")
    # It is listed once it is kept: until then the first row is the short one's.
    expect(rows).to_have_count(2)

    rows.filter(has_text="short one").click()
    expect(page.locator(".hint")).to_contain_text("is being answered")
    rows.filter(has_not_text="short one").click()
    # Until it is shown, the other one's answer is, and that has finished.
    expect(answer(page).locator(".markdown")).to_contain_text("word")
    engine.go_on()
    finished(page)

    expect(answer(page).locator(".markdown")).to_have_text(" ".join(["word"] * 60))
    assert engine.outcomes.get(timeout=PATIENCE) == "complete"


def test_servers_come_and_go_in_the_open_page(page: Page, stack: Stack) -> None:
    change = "from servers import events\nRun.objects.update(state={!r})\nevents.publish_change('servers')"
    page.get_by_label("Message", exact=True).fill("hello")
    send = page.get_by_role("button", name="Send", exact=True)
    expect(send).to_be_enabled()
    try:
        stack.shell(change.format("starting"))
        expect(page.locator("#chat-standing")).to_contain_text("tiny is starting")
        expect(send).to_be_disabled()
        stack.shell(change.format("failed"))
        expect(page.get_by_role("button", name="Start tiny")).to_be_visible()
    finally:
        stack.shell(change.format("ready"))
    expect(send).to_be_enabled()
    expect(page.get_by_label("Message", exact=True)).to_have_value("hello")


def test_a_server_that_was_stopped_meanwhile_is_said_in_the_conversation(
    page: Page, stack: Stack
) -> None:
    page.get_by_label("Message", exact=True).fill("hello")
    stack.shell("Run.objects.update(wanted='stopped')")
    try:
        page.keyboard.press("Enter")
        expect(answer(page).get_by_role("alert")).to_contain_text("tiny was told to stop")
    finally:
        stack.shell("Run.objects.update(wanted='running')")
