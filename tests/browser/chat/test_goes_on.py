"""Answers that go on in the server while no page looks at them, and what was not sent yet."""

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.chat.talk import answer, ask, finished, kept, pieces
from tests.browser.chat.test_answers import AT_THE_END
from tests.chat_stack import Stack
from tests.scripted_engine import EngineScript, ScriptedEngine
from tests.waiting import PATIENCE

pytestmark = pytest.mark.browser

WORDS = pieces("word " * 100, 5)


def test_an_answer_goes_on_through_a_reload(page: Page, engine: ScriptedEngine) -> None:
    ask(page, deltas=WORDS, hold=20)
    expect(answer(page).locator(".markdown")).to_contain_text("word")
    kept(page)

    page.reload()

    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_visible()
    engine.go_on()
    finished(page)
    expect(answer(page).locator(".markdown")).to_have_text(" ".join(["word"] * 100))
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


def test_another_device_takes_it_up_and_another_person_does_not(
    page: Page, context: BrowserContext, browser: Browser, stack: Stack, engine: ScriptedEngine
) -> None:
    ask(page, deltas=[{"content": "So far"}], then="hang")
    expect(answer(page).locator(".markdown")).to_have_text("So far")
    kept(page)
    # Another answer arrives in another tab at the same time.
    tab = context.new_page()
    tab.goto(f"{stack.url}/chat/")
    ask(tab, deltas=[{"content": "The other"}], then="hang")
    expect(answer(tab).locator(".markdown")).to_have_text("The other")

    bob = stack.web.cookie("bob", "OPERATOR")
    with browser.new_context() as theirs:
        theirs.add_cookies([{"name": bob["name"], "value": bob["value"], "url": stack.url}])
        paths = page.evaluate(PATHS)
        assert [each for each in paths if theirs.request.get(stack.url + each).status != 404] == []
        assert theirs.request.get(page.url).status == 404

    with browser.new_context() as device:
        device.set_default_timeout(PATIENCE * 1000)
        device.add_cookies([{"name": stack.cookie, "value": stack.session, "url": stack.url}])
        other = device.new_page()
        other.goto(page.url)
        expect(answer(other).locator(".markdown")).to_have_text("So far")
        # Also where it was away meanwhile.
        device.set_offline(True)
        other.evaluate("window.dispatchEvent(new Event('online'))")
        device.set_offline(False)
        expect(answer(other).locator(".markdown")).to_have_text("So far")
        other.get_by_role("button", name="Stop", exact=True).click()
        assert engine.outcomes.get(timeout=PATIENCE) == "cancelled"
        for each in (page, other):
            finished(each)
            expect(answer(each).locator(".message-foot")).to_contain_text("stopped by you")
        expect(tab.get_by_role("button", name="Stop", exact=True)).to_be_visible()

        # What was taken up is a conversation as any other.
        engine.plan = lambda _body: EngineScript(deltas=[{"content": "Whole"}])
        other.get_by_label("Regenerate this answer").click()
        expect(answer(other).locator(".markdown")).to_have_text("Whole")
        finished(other)
        expect(answer(other).locator(".versions")).to_contain_text("2 of 2")
        ask(other, "and more")
        finished(other)
        other.reload()
        expect(other.locator(".question .text").last).to_have_text("and more")
        expect(answer(other).locator(".markdown")).to_have_text("Whole")
    tab.keyboard.press("Escape")
    assert [engine.outcomes.get(timeout=PATIENCE) for _each in range(3)].count("cancelled") == 1


# Where the answers of this page's conversations are taken up.
PATHS = """async () => {
  const list = await (await fetch("/chat/conversations/")).json();
  const found = await Promise.all(list.conversations.map(async ({ id }) => (await fetch(`/chat/conversations/${id}/`)).json()));
  return found.flatMap(({ messages }) => messages.filter(({ key }) => key).map(({ key }) => `/chat/answers/${key}/`));
}"""


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


# Chromium that is set offline leaves connections alone that are there.
CUT = """() => {
  const real = window.fetch;
  const cut = new Promise((_resolve, reject) => (window.cut = () => reject(new TypeError("network error"))));
  window.fetch = async (url, how) => {
    const response = await real(url, how);
    if (!String(url).endsWith("/chat/completions/")) return response;
    const reader = response.body.getReader();
    const pull = async (controller) => controller.enqueue((await Promise.race([cut, reader.read()])).value);
    const cancel = () => reader.cancel();
    cut.catch(cancel);
    return new Response(new ReadableStream({ pull, cancel }), { headers: response.headers });
  };
}"""


def test_an_answer_goes_on_while_the_network_is_away(
    page: Page, context: BrowserContext, engine: ScriptedEngine
) -> None:
    page.evaluate(CUT)
    ask(page, deltas=WORDS, hold=20)
    expect(answer(page).locator(".markdown")).to_contain_text("word")

    context.set_offline(True)
    page.evaluate("window.cut()")
    expect(answer(page).locator(".waiting")).to_contain_text("Trying to take the answer up again")
    engine.go_on()
    assert engine.outcomes.get(timeout=PATIENCE) == "complete"
    context.set_offline(False)

    finished(page)
    expect(answer(page).locator(".markdown")).to_have_text(" ".join(["word"] * 100))
    expect(answer(page).locator(".message-foot")).to_contain_text("complete")
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

    # Each conversation has its own.
    composer.fill("more of it")
    page.get_by_role("button", name="New conversation").click()
    expect(composer).to_have_value("")
    composer.fill("another matter")
    page.locator("#chat-conversations .open").click()
    expect(composer).to_have_value("more of it")
    page.reload()
    expect(composer).to_have_value("more of it")
    page.get_by_role("button", name="New conversation").click()
    expect(composer).to_have_value("another matter")
