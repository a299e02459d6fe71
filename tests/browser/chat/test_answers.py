import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chat.talk import answer, ask, finished, kept, pieces
from tests.scripted_engine import ScriptedEngine

pytestmark = pytest.mark.browser

AT_THE_END = """() => new Promise((resolve, reject) => {
  const { documentElement: page } = document;
  const ends = performance.now() + 90_000;
  const look = () => {
    const below = page.scrollHeight - page.clientHeight - page.scrollTop;
    if (below < 2) resolve();
    else if (performance.now() > ends) reject(new Error(`${below} px are below`));
    else requestAnimationFrame(look);
  };
  look();
})"""


@pytest.mark.takes(60)
def test_an_answer_streams_as_markdown_with_its_figures(page: Page, engine: ScriptedEngine) -> None:
    text = "# Title\n\nSome **bold** words.\n\n```python\nprint('hi')\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"

    # So it does not come to the browser as one, however busy the machine is.
    ask(page, deltas=pieces(text), hold=len(pieces(text)) // 2)

    expect(answer(page).locator("h1")).to_have_text("Title")
    engine.go_on()
    finished(page)
    expect(answer(page).locator("strong")).to_have_text("bold")
    expect(answer(page).locator("pre .hljs-built_in")).to_have_text("print")
    expect(answer(page).locator("td")).to_have_text(["1", "2"])
    foot = answer(page).locator(".message-foot")
    expect(foot).to_contain_text("first token")
    expect(foot).to_contain_text("tok/s")
    expect(foot).to_contain_text(f"7 prompt + {len(pieces(text))} completion tokens")
    expect(foot).to_contain_text("complete")
    expect(page.locator("#chat-status")).to_have_text(
        f"The answer is complete: {len(pieces(text))} tokens."
    )


def test_the_streamed_rendering_equals_the_whole_one(page: Page) -> None:
    text = (
        "Intro with a [ref].\n\n- one\n\n- two\n  - deep\n\nSetext\n===\n\n> quote\n> more\n\n"
        "1. a\n2. b\n\n```js\nlet a = 1;\n\nlet b = 2;\n```\nAfter *it*.\n\n[ref]: https://example.org/\n"
    )

    ask(page, deltas=pieces(text, 3))
    finished(page)
    expect(answer(page).locator(".hljs-keyword").first).to_be_attached()
    streamed = answer(page).locator(".markdown").inner_html()
    kept(page)
    page.reload()

    expect(answer(page).locator(".markdown a")).to_have_attribute("href", "https://example.org/")
    expect(answer(page).locator(".hljs-keyword").first).to_be_attached()
    assert answer(page).locator(".markdown").inner_html() == streamed


def test_reasoning_folds_into_its_own_block(page: Page) -> None:
    ask(page, deltas=[{"reasoning": "Let me think."}, {"content": "42"}], delay=0.05)
    finished(page)

    thinking = answer(page).locator("details.thinking")
    expect(thinking).not_to_have_attribute("open", "")
    expect(thinking.locator("summary")).to_contain_text(re.compile(r"Reasoned for \d"))
    expect(thinking.locator(".thinking-text")).to_have_text("Let me think.")
    expect(answer(page).locator(".markdown")).to_have_text("42")


def test_think_tags_fold_and_are_not_sent_back(page: Page, engine: ScriptedEngine) -> None:
    ask(page, deltas=pieces("<think>\nHmm, 6 times 7.\n</think>\n\nIt is 42."))
    finished(page)
    expect(answer(page).locator(".thinking-text")).to_contain_text("Hmm, 6 times 7.")
    expect(answer(page).locator(".markdown")).to_have_text("It is 42.")

    ask(page, "and now?")
    finished(page)

    assert engine.requests[-1]["messages"][1] == {"role": "assistant", "content": "It is 42."}


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ({"then": "drop"}, "lost in the middle"),
        ({"error": {"message": "CUDA out of memory"}}, "CUDA out of memory"),
    ],
)
def test_an_answer_that_breaks_off_is_kept_with_the_reason(
    page: Page, script: dict[str, Any], said: str
) -> None:
    ask(page, deltas=[{"content": "Half an"}, {"content": " answer"}], delay=0.02, **script)

    expect(answer(page).get_by_role("alert")).to_contain_text(said)
    expect(answer(page).locator(".markdown")).to_have_text("Half an answer")
    page.get_by_role("button", name="Retry").click()
    expect(page.locator(".answer")).to_have_count(1)
    expect(answer(page).get_by_role("alert")).to_contain_text(said)


def test_the_end_is_in_sight_after_a_long_question(page: Page) -> None:
    error = {"error": {"message": "maximum context length is 4096 tokens"}}
    ask(page, deltas=[], status=400, error=error, used={"": "word " * 3000})
    finished(page)

    # Nothing is below, though the refusal had its height only after it had been scrolled to.
    expect(answer(page).get_by_role("alert")).to_contain_text("maximum context length")
    page.evaluate(AT_THE_END)


def test_a_refusal_stands_in_the_conversation(page: Page) -> None:
    ask(page, deltas=[], status=400, error={"error": {"message": "max_tokens is too large"}})

    alert = answer(page).get_by_role("alert")
    expect(alert).to_contain_text("The engine refused the request (400): max_tokens is too large.")


def test_what_is_written_from_right_to_left_stands_so(page: Page) -> None:
    text = "مرحبا: with English\n\n- واحد\n\nplain\n\n```python\nمرحبا = 1\n```\n"
    ask(page, "مرحبا؟")
    finished(page)
    ask(page, deltas=pieces(text, 3))
    finished(page)

    directions = answer(page).locator(".markdown :is(p, li, pre)")
    expect(directions).to_have_count(4)
    for index, direction in enumerate(("rtl", "rtl", "ltr", "ltr")):
        expect(directions.nth(index)).to_have_css("direction", direction)
    said = page.locator(".question .text").first
    expect(said).to_have_css("unicode-bidi", "plaintext")
    expect(page.get_by_label("Message", exact=True)).to_have_attribute("dir", "auto")
