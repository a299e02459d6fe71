import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import faults_in_both_colours
from tests.browser.chat.talk import answer, ask, finished, pieces
from tests.browser.layout import find_excess

pytestmark = pytest.mark.browser


def test_nothing_is_out_of_reach_for_a_screen_reader(page: Page) -> None:
    text = "# T\n\n```python\nx = 1  # one\n```\n\n| a |\n|---|\n| 1 |\n\n> quote\n"
    ask(page, deltas=[{"reasoning": "Hmm."}, *pieces(text)], then="drop")
    expect(answer(page).get_by_role("alert")).to_be_visible()

    assert faults_in_both_colours(page) == []


def test_a_phone_has_everything_within_its_width(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    page.reload()
    text = "```\n" + "x" * 400 + "\n```\n\n| a | b |\n|---|---|\n| " + "y" * 200 + " | 2 |\n"
    ask(page, deltas=pieces(text))
    finished(page)

    assert not find_excess(page)
    expect(page.get_by_label("Temperature")).not_to_be_visible()
    page.get_by_role("button", name="Parameters").click()
    expect(page.get_by_label("Temperature")).to_be_visible()
