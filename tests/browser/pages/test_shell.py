"""What every page stands in: keys, palette, sidebar, toasts, tables, and what it says of its connection."""

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from tests.browser.axe import faults
from tests.browser.chromium import PATIENCE, new_page
from tests.browser.layout import until
from tests.browser.pages.sizes import PAPER, PHONE
from tests.browser.steps import choose, eventually
from tests.web_stack import WebStack

pytestmark = pytest.mark.browser

NARROWER = """(width) => [...document.querySelectorAll("nav.pages a")]
    .find((link) => link.textContent.includes("Models")).offsetWidth < width"""
WHOLE = """() => [...document.querySelectorAll(".table-wrap, main")]
    .every((each) => each.scrollWidth <= each.clientWidth)"""
LOW_HEADS = """() => [...document.querySelectorAll("thead th")]
    .every((each) => each.clientHeight < 60)"""
STOCK = """
from django.utils import timezone
from servers.models import ModelInventory
box = Box.objects.get(slug="rtx8")
factories.observation(ModelInventory, box, looked_at=timezone.now())
factories.stored(box, "Qwen/Qwen3-Coder-30B-A3B-Instruct")
"""


def test_the_keyboard_reaches_the_search_and_the_content(busy: WebStack, page: Page) -> None:
    page.goto(busy.url)

    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("/")
    field = page.get_by_role("combobox", name="Search servers, profiles")
    expect(field).to_be_focused()
    hits = page.get_by_role("listbox", name="Results").get_by_role("option")
    expect(hits.first).to_have_accessible_name("Dashboard")
    page.keyboard.type("glm")
    expect(hits.first).to_have_accessible_name(re.compile("^glm-5 "))
    assert field.get_attribute("aria-expanded") == "true"
    assert faults(page) == []
    page.keyboard.press("Escape")
    expect(field).to_be_hidden()
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("Control+k")
    expect(field).to_have_value("glm")
    # Up from the first is the last one: the list of profiles.
    expect(hits.first).to_have_accessible_name(re.compile("^glm-5 "))
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_url("**/profiles/?q=glm")
    expect(page.get_by_role("link", name="glm-5").first).to_be_visible()

    page.keyboard.press("/")
    page.keyboard.type("rtx8")
    box = hits.filter(has_text=re.compile("^rtx8"))
    expect(box).to_be_visible()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowDown")
    expect(hits.first).to_have_attribute("aria-selected", "true")
    while box.get_attribute("aria-selected") != "true":
        page.keyboard.press("ArrowDown")
    assert field.get_attribute("aria-activedescendant") == box.get_attribute("id")
    page.keyboard.press("Enter")
    page.wait_for_url("**/boxes/rtx8/")

    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(dialog.get_by_role("button", name="Close")).to_be_focused()
    assert faults(page) == []
    page.keyboard.press("Escape")
    expect(dialog).not_to_be_visible()


def test_the_palette_acts_on_servers(busy: WebStack, page: Page) -> None:
    page.goto(f"{busy.url}/profiles/")
    hits = page.get_by_role("listbox", name="Results").get_by_role("option")
    page.keyboard.press("Control+k")
    page.keyboard.type("stop qwen3-8b")
    expect(hits.first).to_have_accessible_name(re.compile("^Stop qwen3-8b"))
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Stop qwen3-8b?")
    expect(dialog).to_contain_text("grace started it")
    # What a page stops by Escape goes on below a dialog.
    page.evaluate("document.addEventListener('keydown', ({key}) => (document.title = key))")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert page.title() != "Escape"
    page.keyboard.press("Escape")
    assert page.title() == "Escape"

    page.keyboard.press("Control+k")
    expect(hits.first).to_have_accessible_name(re.compile("^Stop qwen3-8b"))
    page.keyboard.press("Enter")
    dialog.get_by_role("button", name="Stop now").click()
    expect(page.locator("#toasts")).to_contain_text("qwen3-8b is being stopped.")

    page.get_by_role("button", name="Search").click()
    page.keyboard.type("start gemma")
    expect(hits.first).to_have_accessible_name(re.compile("^Start gemma-tiny"))
    hits.first.click()
    page.wait_for_url("**/servers/gemma-tiny/")
    expect(page.get_by_role("heading", level=1)).to_have_text("gemma-tiny")


def test_enter_waits_for_the_hits_of_the_words_and_starts_nothing_unseen(
    busy: WebStack, page: Page
) -> None:
    page.goto(f"{busy.url}/profiles/")
    field = page.get_by_role("combobox", name="Search servers, profiles")
    first = page.get_by_role("listbox", name="Results").get_by_role("option").first
    held: list[Route] = []
    page.route("**/search.json?*", lambda route: held.append(route))

    def answer() -> None:
        eventually(page, lambda: bool(held))
        held.pop().continue_()

    page.keyboard.press("Control+k")
    expect(first).to_have_accessible_name("Dashboard")
    field.fill("start gemma")
    page.keyboard.press("Enter")
    answer()
    expect(first).to_have_accessible_name(re.compile("^Start gemma-tiny"))
    expect(first).to_have_attribute("aria-selected", "true")
    expect(field).to_be_visible()
    page.keyboard.press("Escape")

    page.keyboard.press("Control+k")
    expect(first).to_be_hidden()
    page.keyboard.press("Enter")
    answer()
    expect(first).to_have_accessible_name(re.compile("^Start gemma-tiny"))
    field.fill("glm-5")
    page.keyboard.press("Enter")
    answer()
    page.wait_for_url("**/servers/glm-5/")
    assert busy.run("print(Run.objects.filter(server__slug='gemma-tiny').count())").strip() == "1"


def test_an_end_of_the_palette_that_is_told_late_stops_no_new_search(
    busy: WebStack, page: Page
) -> None:
    page.goto(f"{busy.url}/profiles/")
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search servers, profiles").fill("glm")
    hits = page.get_by_role("listbox", name="Results").get_by_role("option")
    expect(hits.first).to_have_accessible_name(re.compile("^glm-5 "))

    page.evaluate(
        """() => {
            document.getElementById("palette").hidePopover();
            document.querySelector("[data-palette]").click();
        }"""
    )

    expect(hits.first).to_have_accessible_name(re.compile("^glm-5 "))


def test_the_sidebar_stays_as_it_was_left_and_is_a_drawer_on_a_phone(
    busy: WebStack, page: Page
) -> None:
    page.goto(f"{busy.url}/design/")
    models = page.get_by_role("navigation", name="Pages").get_by_role("link", name="Models")
    wide = models.evaluate("link => link.offsetWidth")
    page.get_by_role("button", name="Sidebar labels").click()
    expect(models).to_have_attribute("title", "Models")
    page.reload()
    expect(page.get_by_role("button", name="Sidebar labels")).to_have_attribute(
        "aria-pressed", "false"
    )
    until(page, NARROWER, wide / 2)
    assert faults(page) == []

    page.set_viewport_size(PHONE)
    expect(models).to_be_hidden()
    until(page, "() => document.querySelector('.phone-bar').offsetHeight <= 56")
    assert faults(page) == []
    page.get_by_role("button", name="Menu", exact=True).click()
    expect(models).to_be_visible()
    assert faults(page) == []
    page.keyboard.press("Escape")
    expect(models).to_be_hidden()
    expect(page.get_by_role("button", name="Menu", exact=True)).to_be_focused()


def test_what_is_pressed_beside_the_drawer_only_closes_it_and_the_bar_covers_nothing(
    busy: WebStack, browser: Browser, ada: Any, complaints: list[str]
) -> None:
    context = browser.new_context(viewport=PHONE, has_touch=True)
    context.add_cookies([ada])
    page = new_page(context, complaints)
    page.goto(f"{busy.url}/design/")
    search = page.locator(".phone-bar [data-palette]")
    palette = page.get_by_role("dialog", name="Search and commands")
    drawer = page.locator("#sidebar")
    at = search.bounding_box()
    assert at
    for press in (page.touchscreen.tap, page.mouse.click):
        page.get_by_role("button", name="Menu", exact=True).click()
        expect(drawer).to_be_visible()
        press(at["x"] + 8, at["y"] + 8)
        expect(drawer).to_be_hidden()
        expect(palette).to_be_hidden()
        search.tap()
        expect(palette).to_be_visible()
        page.keyboard.press("Escape")
        expect(palette).to_be_hidden()

    trouble = page.get_by_role("button", name="Trouble")
    trouble.evaluate("button => button.scrollIntoView({block: 'end'})")
    bar, button = page.locator(".bottom-bar").bounding_box(), trouble.bounding_box()
    assert bar
    assert button
    assert button["y"] + button["height"] <= bar["y"] + 1  # a page scrolls by whole pixels
    context.close()


def test_a_toast_is_announced_and_goes_and_trouble_stays(busy: WebStack, page: Page) -> None:
    page.clock.install()
    page.goto(f"{busy.url}/design/")
    page.get_by_role("button", name="Toast", exact=True).click()
    page.get_by_role("button", name="Trouble").click()
    toast = page.get_by_role("status").filter(has_text="Version 3 saved.")
    trouble = page.get_by_role("alert").filter(has_text="Stop it first")
    expect(toast).to_be_visible()
    expect(trouble).to_be_visible()
    page.mouse.move(0, 0)
    page.get_by_role("tab", name="Log").click()
    expect(page.get_by_text("The second panel.")).to_be_visible()

    page.clock.run_for(9000)

    expect(toast).to_be_hidden()
    expect(trouble).to_be_visible()
    trouble.get_by_role("button", name="Close").click()
    expect(trouble).to_be_hidden()


def test_a_table_is_sorted_filtered_and_walked_and_keeps_that_in_live_parts(
    busy: WebStack, page: Page
) -> None:
    page.goto(f"{busy.url}/design/")
    table = page.locator("list-table")
    names = table.locator("tbody tr:not([hidden]) td:first-child")
    size = table.get_by_role("columnheader", name="Size")
    size.get_by_role("button").click()
    expect(size).to_have_attribute("aria-sort", "descending")
    expect(names).to_have_text(["zai-org/GLM-5", "Qwen/Qwen3-8B", "openai/gpt-oss-20b"])
    size.get_by_role("button").click()
    expect(names).to_have_text(["Qwen/Qwen3-8B", "zai-org/GLM-5", "openai/gpt-oss-20b"])
    assert faults(page) == []

    # As a live part that brings a row does.
    table.locator("tbody").evaluate(
        "body => body.insertAdjacentHTML('beforeend', '<tr><td><a data-row href=\"#x\">a/b</a></td><td data-value=\"1\">1</td><td>new</td></tr>')"
    )
    expect(names.first).to_have_text("a/b")
    field = table.get_by_role("searchbox", name="Filter models")
    field.fill("B 15")
    expect(names).to_have_text(["Qwen/Qwen3-8B"])
    expect(table.get_by_role("status")).to_have_text("1 of 4")
    field.fill("nothing like it")
    expect(table.get_by_role("status")).to_have_text("Nothing matches.")
    field.fill("")
    states = table.get_by_role("combobox", name="State")
    states.select_option("new")
    expect(names).to_have_text(["a/b"])
    expect(table.get_by_role("status")).to_have_text("1 of 4")
    states.select_option("All states")
    expect(names).to_have_count(4)
    field.press("ArrowDown")
    expect(names.first.get_by_role("link")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(table.get_by_role("link", name="Qwen/Qwen3-8B")).to_be_focused()
    table.get_by_role("cell", name="new").click()
    expect(page).to_have_url(re.compile("#x$"))


def test_paper_gets_light_pages_without_tools_and_with_whole_tables(
    busy: WebStack, page: Page
) -> None:
    busy.run(STOCK)
    for path in ("/boxes/rtx8/hardware/", "/servers/minimax-m27/runs/", "/models/"):
        page.emulate_media(media="screen", color_scheme="dark")
        page.goto(busy.url + path)
        dark = page.evaluate("getComputedStyle(document.body).color")
        page.emulate_media(media="print", color_scheme="dark")
        page.set_viewport_size(PAPER)

        until(page, "(dark) => getComputedStyle(document.body).color !== dark", dark)
        expect(page.locator(".table-wrap").first).to_be_visible()
        for hidden in (".sidebar", ".bottom-bar", ".tabs"):
            expect(page.locator(hidden).first).to_be_hidden()
        until(page, WHOLE)
        # No word of a head is broken: its columns would be a letter wide.
        until(page, LOW_HEADS)


def test_the_chosen_colours_are_kept(busy: WebStack, page: Page) -> None:
    page.goto(busy.url)
    page.get_by_role("button", name="ada").click()
    page.get_by_label("Dark").check()

    page.reload()

    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page.locator("body")).to_have_css("color-scheme", "dark")


def test_a_lost_connection_is_said_and_the_page_catches_up_by_itself(
    busy: WebStack, context: BrowserContext
) -> None:
    page = context.new_page()  # the browser's own complaints about refused connections are right
    page.goto(busy.url)
    card = page.locator("article", has=page.get_by_role("heading", name="gpt-oss-120b"))
    expect(card).to_have_attribute("data-state", "starting")
    expect(page.locator("#connection")).to_be_hidden()

    busy.stop_web()
    expect(page.locator("#connection")).to_contain_text("Connection lost, reconnecting")
    busy.run("Run.objects.filter(server__slug='gpt-oss-120b').update(state=RunState.READY)")
    busy.start_web()

    expect(card).to_have_attribute("data-state", "ready")
    expect(page.locator("#connection")).to_be_hidden()


def test_a_refused_button_says_why(busy: WebStack, context: BrowserContext) -> None:
    page = context.new_page()
    page.on("dialog", lambda asked: asked.accept())
    # Somebody else starts it in the same moment, and the card here has not heard of it yet.
    page.route_web_socket("**/ws/live/**", lambda silent: None)
    page.goto(busy.url)
    card = page.locator("article", has=page.get_by_role("heading", name="gemma-tiny"))
    expect(card).to_have_attribute("data-state", "stopped")
    busy.run("factories.run(Server.objects.get(slug='gemma-tiny'), RunState.STARTING)")

    choose(card, "Remove")

    expect(page.locator("#trouble")).to_contain_text("gemma-tiny is running. Stop it first")


def test_a_page_whose_script_did_not_arrive_is_loaded_again(
    context: BrowserContext, busy: WebStack
) -> None:
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    refused: list[str] = []

    def refuse_once(route: Route) -> None:
        if refused:
            route.continue_()
        else:
            refused.append(route.request.url)
            route.abort("internetdisconnected")

    page.route("**/hx-ws.min.js", refuse_once)
    with page.expect_websocket():
        page.goto(busy.url)

    assert len(refused) == 1
