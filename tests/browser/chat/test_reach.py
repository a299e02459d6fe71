from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chat.talk import answer, ask, finished, pieces
from tests.chat_stack import ROOT

pytestmark = pytest.mark.browser


AXE = ROOT / "node_modules/axe-core/axe.min.js"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_out_of_reach_for_a_screen_reader(page: Page, scheme: Any) -> None:
    page.emulate_media(color_scheme=scheme)
    text = "# T\n\n```python\nx = 1  # one\n```\n\n| a |\n|---|\n| 1 |\n\n> quote\n"
    ask(page, deltas=[{"reasoning": "Hmm."}, *pieces(text)], then="drop")
    expect(answer(page).get_by_role("alert")).to_be_visible()

    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run('main').then(({violations}) => violations)")

    assert [(fault["id"], fault["nodes"][0]["html"]) for fault in found] == []


def test_a_phone_has_everything_within_its_width(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    page.reload()
    text = "```\n" + "x" * 400 + "\n```\n\n| a | b |\n|---|---|\n| " + "y" * 200 + " | 2 |\n"
    ask(page, deltas=pieces(text))
    finished(page)

    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    expect(page.get_by_label("Temperature")).not_to_be_visible()
    page.get_by_role("button", name="Parameters").click()
    expect(page.get_by_label("Temperature")).to_be_visible()
