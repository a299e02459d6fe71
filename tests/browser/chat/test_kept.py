import os
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.browser.chat.talk import answer, ask, finished, menu, parameters, pieces
from tests.browser.chat.test_hostile_output import HOSTILE
from tests.browser.layout import until
from tests.chat_stack import Stack
from tests.waiting import PATIENCE

pytestmark = pytest.mark.browser

STORE = "**/chat/conversations/**"


def listed(page: Page) -> Locator:
    return page.locator("#chat-conversations .open")


def said(page: Page) -> Locator:
    return page.locator(".question .text")


def kept(page: Page) -> str:
    """Its address, once the server has it."""
    page.wait_for_url(lambda url: not url.endswith("/chat/"))
    return page.url


def test_a_conversation_has_an_address_of_its_own(page: Page) -> None:
    ask(page, "first")
    finished(page)
    first = kept(page)
    page.get_by_role("button", name="New conversation").click()
    ask(page, "second")
    finished(page)
    kept(page)

    page.goto(first)
    expect(said(page)).to_have_text(["first"])
    page.locator("#chat-conversations .open", has_text="second").click()
    expect(said(page)).to_have_text(["second"])
    page.go_back()
    expect(said(page)).to_have_text(["first"])
    expect(page).to_have_url(first)
    page.get_by_label("Search your conversations").fill("second")
    expect(listed(page)).to_have_text(["second"])


def test_up_edits_the_last_question(page: Page) -> None:
    ask(page, "first")
    finished(page)

    page.get_by_label("Message", exact=True).press("ArrowUp")
    page.get_by_label("Edit the message").fill("better")
    page.keyboard.press("Enter")
    finished(page)

    expect(said(page)).to_have_text(["better"])
    expect(answer(page).locator(".markdown")).to_have_text("You said: better")


def test_of_two_tabs_neither_loses_what_was_said_in_it(page: Page, context: BrowserContext) -> None:
    ask(page, "to begin with")
    finished(page)
    other = context.new_page()
    other.goto(kept(page))
    expect(said(other)).to_have_text(["to begin with"])

    page.route(STORE, lambda route: route.abort())
    ask(page, "in the first tab")
    finished(page)
    expect(page.locator("#chat-notice")).to_contain_text("kept in this page")
    ask(other, "in the second tab")
    finished(other)
    expect(listed(other)).to_have_count(1)
    page.unroute(STORE)

    expect(page.locator("#chat-notice")).to_contain_text("Nothing is lost")
    expect(said(page)).to_have_text(["to begin with", "in the first tab"])
    expect(said(other)).to_have_text(["to begin with", "in the second tab"])
    expect(listed(other)).to_have_count(2)
    page.get_by_role("button", name="Open the other").click()
    expect(said(page)).to_have_text(["to begin with", "in the second tab"])


def test_a_tab_shows_what_another_one_has_said(page: Page, context: BrowserContext) -> None:
    ask(page, "one")
    finished(page)
    other = context.new_page()
    other.goto(kept(page))
    expect(said(other)).to_have_text(["one"])

    ask(page, "two")
    finished(page)

    expect(said(other)).to_have_text(["one", "two"])


def test_what_cannot_be_sent_is_sent_by_a_later_page(page: Page) -> None:
    page.route(STORE, lambda route: route.abort())
    ask(page, deltas=pieces("An answer of some length. " * 40, 50), delay=0.01)
    finished(page)
    expect(page.locator("#chat-notice")).to_contain_text("inferdash does not answer")

    page.unroute(STORE)
    page.goto("about:blank")
    page.go_back()

    listed(page).first.click()
    expect(answer(page).locator(".markdown")).to_contain_text("An answer of some length.")


def test_who_logs_in_again_in_another_tab_goes_on(page: Page, stack: Stack) -> None:
    ask(page, "first")
    finished(page)
    kept(page)
    page.context.clear_cookies(name=stack.cookie)
    ask(page, "logged out")
    expect(page.locator("#chat-notice")).to_contain_text("Log in in another tab")
    expect(answer(page).get_by_role("alert")).to_contain_text("You are logged out")

    # As a log-in does: another session, and another token against forgery.
    page.context.add_cookies(
        [
            {"name": stack.cookie, "value": stack.session, "url": stack.url},
            {"name": stack.csrf_cookie, "value": "a" * 32, "url": stack.url},
        ]
    )

    expect(page.locator("#chat-notice")).to_be_hidden()
    page.get_by_role("button", name="Retry").click()
    expect(answer(page).locator(".markdown")).to_have_text("You said: logged out")


def test_conversations_that_the_browser_kept_move_up_once(page: Page) -> None:
    old = """user => localStorage.setItem(`inferdash.chat.${user}.mold00abc`, JSON.stringify({
        id: "mold00abc", name: "", params: {system: "Be brief."}, server: "tiny", updated: 1700000000000,
        messages: [{role: "user", content: "from before"}, {role: "assistant", server: "tiny", url: "/",
            model: "tiny-qwen", content: "Indeed.", reasoning: "", calls: [], usage: null, chunks: 1,
            finish: "stop", firstMs: 1, spanMs: 1, reasonedMs: null, stopped: false, error: null}],
    }))"""
    page.evaluate(old, page.locator("#chat").get_attribute("data-user"))

    page.reload()

    page.locator("#chat-conversations .open", has_text="from before").click()
    expect(answer(page).locator(".markdown")).to_have_text("Indeed.")
    expect(page.get_by_label("System prompt")).to_have_value("Be brief.")
    until(page, "() => !Object.keys(localStorage).some(key => key.startsWith('inferdash.chat'))")
    page.reload()
    expect(listed(page)).to_have_count(1)


def test_a_shared_conversation_is_read_and_obeys_nothing(page: Page, complaints: list[str]) -> None:
    ask(page, deltas=[{"reasoning": HOSTILE}, *pieces(HOSTILE, 400)])
    finished(page)
    kept(page)
    menu(page, "Share")
    page.get_by_role("button", name="Make a link").click()
    link = page.get_by_label("Link to this conversation").input_value()

    page.goto(link)

    shown = answer(page)
    expect(shown.locator(".markdown")).to_contain_text("Hello there")
    expect(page.get_by_text("You have shared this")).to_be_visible()
    expect(page.get_by_role("button", name="Regenerate this answer")).to_have_count(0)
    for selector in (
        "form, input, style, iframe, svg:not(.message-foot svg), script, img",
        "[style], [onerror], [onclick]",
    ):
        expect(shown.locator(selector)).to_have_count(0)
    assert page.evaluate("window.hacked") is None
    # The sanitiser reads the text in a document of its own, where styles are blocked, too.
    assert [said for said in complaints if "has been blocked" not in said] == []
    complaints.clear()


def test_what_was_asked_can_be_asked_by_a_program(page: Page, stack: Stack, tmp_path: Path) -> None:
    parameters(page)
    page.get_by_label("System prompt").fill('Say "ünïcode", it\'s fine.')
    ask(page, "hello $HOME `id` 'quoted'")
    finished(page)
    files = {}
    for title in ("Markdown", "JSON", "curl", "Python (openai)"):
        with page.expect_download() as got:
            menu(page, title)
        files[title] = tmp_path / got.value.suggested_filename
        got.value.save_as(files[title])

    assert files["Markdown"].name.startswith("hello-home-id-quoted-20")
    assert "## You\n\nhello $HOME" in files["Markdown"].read_text()
    assert '"title": "hello $HOME' in files["JSON"].read_text()
    key = stack.shell(
        "print(Key.make(User.objects.get(username='ada'), 'x', Role.OPERATOR, expires_at=None)[1])"
    )
    env = {**os.environ, "INFERDASH_API_KEY": key.strip()}
    programs = (
        ("Python (openai)", sys.executable, "You said: hello $HOME `id` 'quoted'"),
        ("curl", "/bin/sh", "`id`"),  # as a stream: the scripted engine knows nothing else
    )
    for title, program, says in programs:
        assert "ifd_" not in files[title].read_text().replace("ifd_…", "")
        done = subprocess.run(
            [program, files[title]], env=env, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stderr
        assert says in done.stdout


def test_presets_are_kept_picked_overwritten_and_deleted(page: Page) -> None:
    parameters(page)
    page.get_by_label("Temperature").fill("0.3")
    page.get_by_label("Name of the preset").fill("careful")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("is kept for everybody")).to_be_visible()
    page.get_by_label("Temperature").fill("")

    page.reload()
    page.get_by_label("Preset", exact=True).select_option(label="careful (ada)")
    expect(page.get_by_label("Temperature")).to_have_value("0.3")
    page.get_by_label("Temperature").fill("0.4")
    page.get_by_role("button", name="Overwrite").click()
    expect(page.get_by_text("is kept for everybody")).to_be_visible()
    page.get_by_label("Delete", exact=True).click()
    expect(page.get_by_text("“careful” is deleted.")).to_be_visible()
    expect(page.get_by_label("Preset", exact=True)).to_be_disabled()


def test_a_stopped_server_is_offered_to_be_started(page: Page, stack: Stack) -> None:
    ask(page, "hello")
    finished(page)
    stack.shell(
        "from servers import events\nRun.objects.update(state='stopped')\nevents.publish_change('servers')"
    )
    try:
        page.goto(kept(page))
        expect(page.locator("#chat-standing")).to_contain_text("tiny is stopped")
        page.get_by_role("button", name="Start tiny").click()
        expect(page.locator("#chat-standing .standing:visible")).to_contain_text("queued")
        expect(page.get_by_role("button", name="Send", exact=True)).to_be_disabled()
    finally:
        stack.shell(
            "server = Server.objects.get(slug='tiny')\nserver.run = Run.objects.order_by('pk').first()\n"
            "server.save()\nRun.objects.exclude(pk=server.run_id).delete()\n"
            "from servers import events\nRun.objects.update(state='ready')\nevents.publish_change('servers')"
        )
