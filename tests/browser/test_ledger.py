"""The memory ledger of a box in a browser: what a part says, and that it stays open."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.axe import faults
from tests.browser.chromium import new_page
from tests.web_stack import WebStack

pytestmark = pytest.mark.browser

DESK = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
# Page cache for free memory, as when a model has been read; told as the watcher does.
READ_A_MODEL = """
box = Box.objects.get(slug="spark-1")
sample = box_samples.newest("spark-1")
sample["t"] += 1
sample["meminfo"]["Cached"] += 2 * 2**30
sample["meminfo"]["MemFree"] -= 2 * 2**30
events.publish_sample("spark-1", box.pk, sample)
"""
LOSE = """
box = Box.objects.get(slug="rtx8")
sample = box_samples.newest("rtx8")
sample["t"] += 1
sample["gpus"][6]["free"] -= 33 * 2**30
sample["verdicts"][6] |= {"verdict": "leaked", "unattributed": 33 * 2**30,
    "reason": "33.0 GiB of this card are in use.", "advice": "Try nvidia-smi --gpu-reset."}
events.publish_sample("rtx8", box.pk, sample)
"""


@pytest.fixture(params=[DESK, PHONE], ids=["desk", "phone"])
def page(stack: WebStack, browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    stack.run("factories.busy_team()")
    complaints: list[str] = []
    context = browser.new_context(viewport=request.param)
    context.add_cookies([stack.cookie("ada")])  # type: ignore[list-item]
    yield new_page(context, complaints)
    context.close()
    assert complaints == []


def part(page: Page, key: str) -> Any:
    return page.locator(f"#part-0-{key}")


def test_a_part_of_the_bar_says_what_it_is_and_stays_open_while_figures_change(
    stack: WebStack, page: Page
) -> None:
    page.goto(f"{stack.url}/boxes/spark-1/")
    cache = part(page, "cache")
    expect(cache).not_to_have_attribute("open", "")

    page.locator('[data-part="part-0-cache"]').click()

    expect(cache.get_by_text("Copies of files that the kernel keeps")).to_be_visible()
    expect(cache).to_contain_text("Cached + Buffers + SwapCached of /proc/meminfo, without Shmem.")
    expect(cache.locator("summary")).to_be_focused()
    expect(cache.locator("summary .number").first).to_have_text("25.4 GiB")

    stack.run(READ_A_MODEL)

    expect(cache.locator("summary .number").first).to_have_text("27.4 GiB")
    expect(cache.get_by_text("Copies of files that the kernel keeps")).to_be_visible()
    expect(cache.locator("summary")).to_be_focused()
    assert faults(page) == []


def test_parts_open_by_keyboard_and_one_at_a_time(stack: WebStack, page: Page) -> None:
    page.goto(f"{stack.url}/boxes/spark-1/")
    server, java = part(page, "server-qwen3-8b"), part(page, "process-8100")

    server.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(server.get_by_text("sglang::scheduler")).to_be_visible()
    expect(server.get_by_role("link", name="The server’s page")).to_be_visible()
    for _step in range(2):
        page.keyboard.press("Tab")
    java.locator("summary").focus()
    page.keyboard.press("Space")

    expect(java.get_by_text("java -jar indexer.jar")).to_be_visible()
    expect(server.get_by_text("sglang::scheduler")).not_to_be_visible()
    assert faults(page) == []


def test_eight_cards_are_folded_but_for_the_one_that_has_lost_memory(
    stack: WebStack, page: Page
) -> None:
    stack.run(LOSE)
    page.goto(f"{stack.url}/boxes/rtx8/")

    for index in range(8):
        expect(page.locator(f"#gpu-{index}")).to_be_visible()
    unfolded = page.locator("[id^=gpu-][open]")
    expect(unfolded).to_have_count(1)
    expect(unfolded).to_have_id("gpu-6")
    lost = page.locator("#part-6-unattributed")
    expect(lost.locator("summary .number").first).to_have_text("33.0 GiB")
    page.locator('[data-part="part-6-unattributed"]').click()
    expect(lost.get_by_text("Try nvidia-smi --gpu-reset.")).to_be_visible()
    assert faults(page) == []


def test_an_address_and_a_bar_unfold_a_card(stack: WebStack, page: Page) -> None:
    page.goto(f"{stack.url}/boxes/rtx8/#gpu-3")
    expect(page.locator("#gpu-3 gpu-chart canvas")).to_be_visible()
    expect(page.locator("#gpu-4 gpu-chart canvas")).not_to_be_visible()
    page.evaluate("location.hash = 'gpu-5'")
    expect(page.locator("#gpu-5 gpu-chart canvas")).to_be_visible()

    page.locator('[data-part="part-4-process-5200"]').click()

    found = page.locator("#part-4-process-5200")
    expect(found.get_by_text("A program on the box that inferdash did not start")).to_be_visible()
    expect(found.get_by_text(re.compile("train_lora"))).to_be_visible()
