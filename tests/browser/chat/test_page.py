"""The playground's page around its conversations: list, models, drawers, branches, the way to the end."""

import json

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import faults
from tests.browser.chat.talk import answer, ask, choose, chosen, finished, kept, menu, pieces
from tests.browser.layout import find_excess, until
from tests.chat_stack import Stack
from tests.scripted_engine import ScriptedEngine

pytestmark = pytest.mark.browser

MORE = """
first = Server.objects.get(slug="tiny")
for slug, state in {servers!r}.items():
    server = Server.objects.create(slug=slug, profile=first.profile, box=first.box)
    server.run = Run.objects.create(
        server=server, version=first.profile.current, state=state, started_by=first.run.started_by,
        address="127.0.0.1", port=9, served_name="a-model-of-a-very-long-name-" + slug,
    )
    server.save()
events.publish_change('servers')
"""
GONE = """
Server.objects.exclude(slug="tiny").update(removed_at=timezone.now())
events.publish_change('servers')
"""


def test_a_model_is_found_and_chosen_by_keys(page: Page, stack: Stack) -> None:
    stack.shell(MORE.format(servers={"later": "starting", "broken": "failed", "big": "ready"}))
    try:
        button = chosen(page, "Server")
        expect(button).to_have_accessible_name("Server: tiny, ready tiny-qwen")
        button.click()
        options = page.get_by_role("option")
        expect(options).to_have_count(4)
        # Those that can answer come first, and each says in which state it is.
        words = [" ".join(each.split()) for each in options.all_inner_texts()]
        assert ["ready" in each for each in words] == [True, True, False, False]
        assert "starting" in words[2]
        assert "failed" in words[3]
        assert faults(page) == []
        field = page.get_by_role("combobox", name="Search models and servers")
        expect(field).to_be_focused()
        field.fill("very-long big")
        expect(options).to_have_count(1)
        field.fill("nothing such")
        expect(page.get_by_text("No model has this in its name.")).to_be_visible()
        field.fill("")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("ArrowUp")
        expect(field).to_have_attribute("aria-activedescendant", "picker-0-3")
        page.keyboard.press("Enter")
        expect(button).to_be_focused()
        expect(button).to_have_accessible_name(
            "Server: broken, failed a-model-of-a-very-long-name-broken"
        )
        expect(page.locator(".standing:visible")).to_contain_text("broken has failed")
        expect(page.locator("#chat-hint")).to_be_empty()
        expect(page.get_by_role("button", name="Send", exact=True)).to_be_disabled()
        page.set_viewport_size({"width": 360, "height": 740})
        assert not find_excess(page)
        button.click()
        page.keyboard.press("Escape")
        expect(field).to_be_hidden()
        expect(button).to_be_focused()
        choose(page, "Server", "tiny")
        expect(button).to_have_accessible_name("Server: tiny, ready tiny-qwen")
    finally:
        stack.shell(GONE)


def test_a_conversation_is_renamed_in_the_list_and_branched_off(
    page: Page, engine: ScriptedEngine
) -> None:
    page.get_by_role("button", name="Write code").click()
    composer = page.get_by_label("Message", exact=True)
    expect(composer).to_have_value(
        "Write a Python function that merges overlapping intervals, with tests."
    )
    ask(page, "first")
    finished(page)
    ask(page, "second")
    finished(page)
    kept(page)
    first = page.url
    rows = page.locator("#chat-conversations .open")
    expect(page.locator("#chat-conversations .list-day")).to_have_text(["Today"])

    page.get_by_label("Rename “first”").click()
    page.get_by_label("New name").fill("not this")
    page.keyboard.press("Escape")
    expect(rows).to_have_text(["first"])
    expect(rows).to_be_focused()
    page.get_by_label("Rename “first”").click()
    page.get_by_label("New name").fill("Intervals")
    page.keyboard.press("Enter")
    expect(rows).to_have_text(["Intervals"])
    expect(page.get_by_label("Name of the conversation")).to_have_value("Intervals")

    page.get_by_label("Branch from here").first.click()
    expect(page.locator(".question .text")).to_have_text(["first"])
    expect(rows).to_have_text(["Intervals (branch)", "Intervals"])
    page.wait_for_url(lambda url: url != first)
    ask(page, "another way")
    finished(page)
    told = [each["content"].strip() for each in engine.requests[-1]["messages"]]
    assert told == ["first", "You said: first", "another way"]
    page.reload()
    expect(page.locator(".question .text")).to_have_text(["first", "another way"])
    rows.last.click()
    expect(page.locator(".question .text")).to_have_text(["first", "second"])
    expect(page).to_have_url(first)
    assert faults(page) == []


def test_who_reads_above_stays_there_and_is_led_to_the_end(
    page: Page, engine: ScriptedEngine
) -> None:
    page.set_viewport_size({"width": 1280, "height": 400})
    newest = page.get_by_role("button", name="Newest")
    text = pieces("line\n\n" * 60, 60)
    ask(page, deltas=text, hold=len(text) // 2)
    expect(answer(page).locator("p").nth(12)).to_be_visible()
    page.mouse.move(700, 200)
    page.mouse.wheel(0, -5000)
    expect(newest).to_be_visible()
    until(page, "() => document.documentElement.scrollTop === 0")
    engine.go_on()
    finished(page)
    assert page.evaluate("document.documentElement.scrollTop") == 0

    newest.click()

    expect(newest).to_be_hidden()
    expect(answer(page).locator(".message-foot")).to_be_in_viewport()


def test_on_a_phone_the_sides_are_drawers(page: Page) -> None:
    ask(page, "first")
    finished(page)
    kept(page)
    page.set_viewport_size({"width": 390, "height": 844})
    list_button = page.get_by_role("button", name="Conversations", exact=True)
    for button, inside in (
        (list_button, page.get_by_label("Search your conversations")),
        (
            page.get_by_role("button", name="Parameters", exact=True),
            page.get_by_label("Temperature"),
        ),
    ):
        expect(inside).to_be_hidden()
        button.click()
        expect(inside).to_be_visible()
        expect(button).to_have_attribute("aria-expanded", "true")
        assert faults(page) == []
        page.keyboard.press("Escape")
        expect(inside).to_be_hidden()
        expect(button).to_have_attribute("aria-expanded", "false")
    list_button.click()
    page.locator("#chat-list").get_by_role("button", name="New conversation").click()
    expect(page.locator("#chat-list")).to_be_hidden()
    expect(page.get_by_role("heading", name="Ask tiny-qwen")).to_be_visible()
    assert faults(page) == []
    list_button.click()
    page.get_by_label("Delete “first”").click()
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".question .text")).to_have_text(["first"])
    page.get_by_role("button", name="New conversation").click()
    list_button.click()
    page.locator("#chat-conversations .open").click()
    expect(page.locator("#chat-list")).to_be_hidden()
    expect(page.locator(".question .text")).to_have_text(["first"])


@pytest.mark.parametrize("path", ["/chat/", "/chat/compare/"])
def test_no_row_is_broken_at_any_width(page: Page, stack: Stack, path: str) -> None:
    page.goto(f"{stack.url}{path}")
    ask(page, json.dumps({"deltas": [{"content": "Hm."}]}))
    finished(page)
    rows = """() => [...[".chat-top", ".composer-row", ".compare-head-row"]
        .flatMap((each) => [...document.querySelectorAll(each)])
        .map((row) => {
            const middles = [...row.children].filter((each) => each.checkVisibility() && each.offsetHeight > 4)
                .map((each) => each.getBoundingClientRect()).map(({top, bottom}) => (top + bottom) / 2);
            return Math.max(...middles) - Math.min(...middles);
        })].every((each) => each <= 6)"""
    for width in (360, 480, 640, 768, 900, 1024, 1280, 1920, 2560):
        page.set_viewport_size({"width": width, "height": 800})
        assert not find_excess(page), width
        until(page, rows)


def test_the_parameters_stay_open_for_who_has_opened_them(page: Page) -> None:
    temperature = page.get_by_label("Temperature")
    button = page.get_by_role("button", name="Parameters", exact=True)
    expect(temperature).to_be_hidden()
    button.click()
    expect(temperature).to_be_visible()
    page.reload()
    expect(temperature).to_be_visible()
    page.get_by_role("button", name="Close the parameters").click()
    expect(temperature).to_be_hidden()
    expect(button).to_be_focused()
    page.reload()
    expect(page.get_by_role("heading", name="Ask tiny-qwen")).to_be_visible()
    expect(temperature).to_be_hidden()
    menu(page, "Compare with …")
    expect(page.get_by_role("heading", name="Compare")).to_be_visible()
