"""The list of servers, rows of GPUs and lines of alerts in a browser."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.axe import faults
from tests.browser.chromium import new_page
from tests.browser.layout import until
from tests.web_stack import WebStack

pytestmark = pytest.mark.browser


# Servers as they stand on the page, from the top.
STARTS_WITH = """(names) => {
    const seen = [...document.querySelectorAll(".card")]
        .filter((card) => card.checkVisibility())
        .map((card) => [card.getBoundingClientRect().top, card.dataset.name])
        .sort((one, other) => one[0] - other[0]).map(([, name]) => name);
    return names.every((name, index) => seen[index] === name);
}"""
LOW = """() => [...document.querySelectorAll(".card")]
    .every((card) => card.offsetHeight < 60)"""


@pytest.fixture
def busy(stack: WebStack) -> WebStack:
    stack.run("factories.busy_team()")
    return stack


@pytest.fixture
def page(browser: Browser, busy: WebStack) -> Iterator[Page]:
    complaints: list[str] = []
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.add_cookies([busy.cookie("ada")])  # type: ignore[list-item]
    yield new_page(context, complaints)
    context.close()
    assert complaints == []


def test_the_list_of_servers_is_filtered_starred_and_acted_on(busy: WebStack, page: Page) -> None:
    busy.run("RunHealth.objects.filter(run__server__slug='minimax-m27').update(requests_running=0)")
    page.goto(f"{busy.url}/servers/")
    cards = page.locator(".card:visible")
    expect(cards).to_have_count(7)
    page.get_by_role("button", name="Favourite: gemma-tiny").click()
    expect(cards.first).to_have_attribute("data-name", "gemma-tiny")

    ready = page.get_by_role("button", name="Ready 2")
    ready.click()
    expect(cards).to_have_count(2)
    # What the socket brings is filtered, too, and counted.
    busy.run(
        "run = Run.objects.get(server__slug='gpt-oss-120b')\n"
        "Run.objects.filter(pk=run.pk).move(old=[RunState.STARTING], new=RunState.READY)\n"
        "events.publish_change('server', run.server_id)"
    )
    expect(cards).to_have_count(3)
    expect(page.get_by_role("button", name="Ready 3")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="All 7").click()

    page.get_by_role("button", name="Table").click()
    by_speed = page.get_by_role("button", name="Tok/s")
    by_speed.click()
    until(page, STARTS_WITH, ["minimax-m27", "qwen3-8b"])
    # What the socket brings takes its place.
    busy.run(
        "run = Run.objects.get(server__slug='qwen3-8b')\n"
        "RunHealth.objects.filter(run=run).update(tokens_per_second=999)\n"
        "events.publish_change('server', run.server_id)"
    )
    expect(page.locator(".card[data-name='qwen3-8b']")).to_contain_text("999")
    until(page, STARTS_WITH, ["qwen3-8b", "minimax-m27"])
    by_speed.click()
    expect(by_speed).to_have_accessible_name("Tok/s, ascending")
    until(page, STARTS_WITH, ["minimax-m27", "qwen3-8b"])
    by_speed.click()
    until(page, STARTS_WITH, ["gemma-tiny"])  # the favourite, as before
    page.get_by_role("button", name="Select", exact=True).click()
    for name in ("minimax-m27", "qwen3-8b"):
        page.get_by_label(f"Select {name}").check()
    bar = page.locator("form.bulk")
    expect(bar).to_contain_text("2 selected")
    assert faults(page) == []
    bar.get_by_role("button", name="Stop").click()
    expect(page.locator("#toasts")).to_contain_text(
        "minimax-m27 is being stopped. qwen3-8b: others may use it, so stop it by itself."
    )
    expect(page.locator("[data-name=minimax-m27]")).to_have_attribute("data-state", "stopping")
    expect(bar).to_be_hidden()
    page.get_by_role("button", name="Select", exact=True).click()
    page.keyboard.press("Escape")
    expect(bar).to_be_hidden()
    expect(page.get_by_role("button", name="Select", exact=True)).to_be_focused()

    page.reload()
    expect(page.get_by_role("button", name="Table")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="More for minimax-m27").click()
    menu = page.get_by_role("link", name="Edit profile")
    expect(menu).to_be_visible()
    page.keyboard.press("Escape")
    expect(menu).to_be_hidden()


def test_a_row_leads_to_its_card_and_an_alert_is_dismissed(busy: WebStack, page: Page) -> None:
    page.goto(busy.url)
    row = page.get_by_role("row", name="GPU 4")
    expect(row).to_contain_text(re.compile("lin.*train_lora.py"))
    page.get_by_role("button", name="Dismiss: glm-5 failed").click()
    expect(page.locator("#attention")).to_be_hidden()
    expect(page).to_have_title("Dashboard · inferdash")
    # Its cause stands on its card again.
    expect(page.locator("article[data-name=glm-5] .card-failure")).to_be_visible()

    row.get_by_role("link", name="GPU 4").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/boxes/rtx8/#gpu-4")


def test_fifty_servers_are_rows_on_a_phone(busy: WebStack, page: Page) -> None:
    busy.run(
        "on = Box.objects.get(slug='rtx8')\n"
        "for number in range(43):\n    factories.server(on, f'model-{number:02d}')"
    )
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{busy.url}/servers/")
    rows = page.locator(".card:visible")
    expect(rows).to_have_count(50)

    until(page, LOW)
    expect(rows.first.get_by_role("link", name="Why")).to_be_visible()
    page.get_by_role("button", name="Select", exact=True).click()
    page.get_by_label("Select minimax-m27").check()
    expect(page.locator("form.bulk")).to_contain_text("1 selected")
    assert faults(page) == []

    # Anywhere in a row.
    page.get_by_role("button", name="Cancel").click()
    page.locator(".card[data-name='minimax-m27'] .card-where").click(force=True)
    expect(page).to_have_url(re.compile("/servers/minimax-m27/$"))
