"""The list of servers, rows of GPUs and lines of alerts in a browser."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.axe import faults
from tests.browser.chromium import new_page
from tests.web_stack import WebStack

pytestmark = pytest.mark.browser


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
