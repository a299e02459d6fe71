"""Answers that go on in the server while no page looks at them, and what was not sent yet."""

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.chat.talk import answer, ask, finished, kept, pieces
from tests.browser.chat.test_answers import AT_THE_END
from tests.scripted_engine import ScriptedEngine
from tests.waiting import PATIENCE

pytestmark = pytest.mark.browser

WORDS = pieces("word " * 100, 5)


def test_an_answer_goes_on_through_a_reload(page: Page, engine: ScriptedEngine) -> None:
    ask(page, deltas=WORDS, delay=0.03)
    expect(answer(page).locator(".markdown")).to_contain_text("word")
    kept(page)

    page.reload()

    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_visible()
    finished(page)
    assert answer(page).locator(".markdown").inner_text().split() == ["word"] * 100
    expect(answer(page).locator(".message-foot")).to_contain_text(f"{len(WORDS)} completion tokens")
    assert engine.outcomes.get(timeout=PATIENCE) == "complete"
    assert len(engine.requests) == 1
    # It is kept: another reload has nothing to take up.
    page.reload()
    expect(answer(page).locator(".markdown")).to_contain_text("word")
    finished(page)


def test_an_answer_that_ended_without_a_page_is_there(page: Page, engine: ScriptedEngine) -> None:
    ask(page, deltas=WORDS, delay=0.01)
    expect(answer(page).locator(".markdown")).to_contain_text("word")
    kept(page)
    address = page.url

    page.goto("about:blank")
    assert engine.outcomes.get(timeout=PATIENCE) == "complete"
    page.goto(address)

    expect(answer(page).locator(".markdown")).to_have_text(" ".join(["word"] * 100))
    finished(page)


def test_a_second_tab_follows_and_may_stop(
    page: Page, context: BrowserContext, engine: ScriptedEngine
) -> None:
    ask(page, deltas=[{"content": "line\n\n" * 60 + "So far"}], then="hang")
    expect(answer(page).locator(".markdown")).to_contain_text("So far")
    kept(page)
    other = context.new_page()
    other.goto(page.url)
    expect(answer(other).locator(".markdown")).to_contain_text("So far")

    other.get_by_role("button", name="Stop", exact=True).click()

    assert engine.outcomes.get(timeout=PATIENCE) == "cancelled"
    for each in (page, other):
        finished(each)
        expect(answer(each).locator(".markdown")).to_contain_text("So far")
        expect(answer(each).locator(".message-foot")).to_contain_text("stopped by you")
        expect(each.locator("#chat-notice")).to_be_hidden()
        expect(each.locator("#chat-conversations .open")).to_have_count(1)
        each.evaluate(AT_THE_END)


def test_who_reads_a_conversation_keeps_the_place_when_another_tab_changes_it(
    page: Page, context: BrowserContext
) -> None:
    ask(page, deltas=[{"content": "line\n\n" * 60}])
    finished(page)
    kept(page)
    other = context.new_page()
    other.goto(page.url)
    expect(answer(other).locator(".markdown")).to_contain_text("line")
    other.evaluate(AT_THE_END)
    # It does not hear of the other tab's change before it makes its own.
    other.route("**/chat/conversations/?*", lambda _route: None)
    with page.expect_response(lambda said: said.request.method == "POST" and said.ok):
        page.get_by_label("Name of the conversation").fill("theirs")
        page.keyboard.press("Tab")

    other.get_by_label("Name of the conversation").evaluate(
        "field => { field.value = 'mine'; field.dispatchEvent(new Event('change')); }"
    )

    expect(other.locator("#chat-notice")).to_contain_text("You see it as it is now")
    other.evaluate(AT_THE_END)


def test_stop_after_a_reload_stops_the_engine(page: Page, engine: ScriptedEngine) -> None:
    ask(page, deltas=[{"content": "So far"}], then="hang")
    expect(answer(page).locator(".markdown")).to_have_text("So far")
    kept(page)
    page.reload()
    expect(answer(page).locator(".markdown")).to_have_text("So far")

    page.get_by_role("button", name="Stop", exact=True).click()

    assert engine.outcomes.get(timeout=PATIENCE) == "cancelled"
    expect(answer(page).locator(".message-foot")).to_contain_text("stopped by you")


CUT = """() => {
  const real = window.fetch;
  window.fetch = async (url, how) => {
    const response = await real(url, how);
    if (!String(url).endsWith("/chat/completions/")) return response;
    const reader = response.body.getReader();
    const { value } = await reader.read();
    reader.cancel();
    const body = new ReadableStream({
      start: (controller) => controller.enqueue(value),
      pull: (controller) => controller.error(new TypeError("network error")),
    });
    return new Response(body, { headers: response.headers });
  };
}"""


def test_a_cut_connection_is_taken_up_again(page: Page, engine: ScriptedEngine) -> None:
    page.evaluate(CUT)

    ask(page, deltas=WORDS, delay=0.01)

    finished(page)
    assert answer(page).locator(".markdown").inner_text().split() == ["word"] * 100
    assert engine.outcomes.get(timeout=PATIENCE) == "complete"
    assert len(engine.requests) == 1


def test_a_deleted_conversations_answer_is_stopped(page: Page, engine: ScriptedEngine) -> None:
    ask(page, deltas=[{"content": "So far"}], then="hang")
    expect(answer(page).locator(".markdown")).to_have_text("So far")
    kept(page)
    address = page.url
    page.goto(address.removesuffix(address.split("/chat/")[1]))

    page.locator("#chat-conversations").get_by_role("button", name="Delete").click()

    assert engine.outcomes.get(timeout=PATIENCE) == "cancelled"


def test_what_was_not_sent_survives_a_reload(page: Page) -> None:
    composer = page.get_by_label("Message", exact=True)
    composer.fill("half a thought")
    page.reload()
    expect(composer).to_have_value("half a thought")

    expect(page.get_by_role("button", name="Send", exact=True)).to_be_enabled()
    page.get_by_role("button", name="Send", exact=True).click()
    finished(page)
    kept(page)
    page.reload()
    expect(answer(page).locator(".markdown")).to_have_text("You said: half a thought")
    expect(composer).to_have_value("")
