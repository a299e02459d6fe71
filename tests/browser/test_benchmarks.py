"""From Check-up to a compared pair of results, with an engine whose speed is known."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.axe import faults
from tests.browser.chromium import new_page
from tests.browser.layout import find_excess
from tests.scripted_engine import EngineScript, ScriptedEngine
from tests.web_stack import WebStack

pytestmark = pytest.mark.browser

MEASURE = """
from dataclasses import replace
from servers.judge.benchmarks import points
from servers.judge.benchmarks.presets import load_presets
from tests.jobs import obey
points.LATE = 60.0  # how busy this machine is, is not what is looked at
whole = load_presets()["quick"]
short = tuple(replace(each, requests=each.concurrency * 2, output_tokens=6) for each in whole.points)
load_presets()["quick"] = replace(whole, points=short)
obey(Box.objects.get())
"""


@pytest.fixture
def engine() -> Iterator[ScriptedEngine]:
    with ScriptedEngine() as made:
        made.answers["/metrics"] = (200, "")
        yield made


def answer(body: dict[str, Any], delay: float) -> EngineScript:
    words = [{"content": "word "}] * body["max_tokens"]
    used = {"prompt_tokens": len(body["messages"][0]["content"]) // 4}
    return EngineScript(deltas=words, delay=delay, first_delay=0.01, used=used)


@pytest.fixture
def page(stack: WebStack, browser: Browser) -> Iterator[Page]:
    stack.empty()
    complaints: list[str] = []
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.add_cookies([stack.cookie("ada", "OPERATOR")])  # type: ignore[list-item]
    yield new_page(context, complaints)
    context.close()
    assert complaints == []


@pytest.mark.takes(60)
def test_two_check_ups_are_compared(stack: WebStack, page: Page, engine: ScriptedEngine) -> None:
    stack.run(
        "made = factories.server(factories.box())\n"
        f"factories.run(made, address='127.0.0.1', port={engine.port})"
    )
    engine.plan = lambda body: answer(body, 0.05)

    page.goto(f"{stack.url}/servers/qwen3-8b/")
    page.get_by_role("link", name="Check-up").click()
    expect(page.get_by_text("Not measured yet.")).to_be_visible()
    page.get_by_role("button", name="20 seconds").click()
    expect(page.get_by_role("heading", name="20 seconds: qwen3-8b")).to_be_visible()
    expect(page.locator("main .badge").first).to_have_text("waiting")
    assert not faults(page)
    stack.run(MEASURE)
    # It is told without a click, from here on.
    expect(page.locator("main .badge").first).to_have_text("clean")
    points = page.locator("#points tbody tr")
    expect(points.locator("th")).to_have_text(["One person", "People at once: 8"])
    expect(page.locator("benchmark-plots canvas")).to_have_count(3)
    page.emulate_media(color_scheme="dark")  # they are drawn anew
    wide = "(found) => found.filter((each) => each.getBoundingClientRect().right > each.closest('.panel').getBoundingClientRect().right).length"
    assert page.locator("benchmark-plots canvas").evaluate_all(wide) == 0

    # So much slower that no neighbour on this machine hides it.
    engine.plan = lambda body: answer(body, 0.4)
    page.goto(f"{stack.url}/servers/qwen3-8b/check-up/")
    page.get_by_role("button", name="20 seconds").click()
    expect(page.locator("main .badge").first).to_have_text("waiting")
    stack.run(MEASURE)
    page.get_by_role("link", name="Compare with the one before").click()
    expect(page.get_by_role("heading", name="Compared")).to_be_visible()
    first = page.locator("#differences tbody tr").filter(has_text="Per person").first
    expect(first.get_by_text("worse")).to_be_visible()
    assert not faults(page)

    page.get_by_role("link", name="Benchmarks").click()
    expect(page.locator("#results-table tbody tr")).to_have_count(2)
    for box in page.locator("input[name=of]").all():
        box.check()
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("#differences")).to_be_visible()
    expect(page.locator("ul.compared li")).to_contain_text("slower")
    page.set_viewport_size({"width": 390, "height": 844})
    # The plots follow the window's width in a frame of their own.
    assert not find_excess(page)
