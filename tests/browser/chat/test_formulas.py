import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import faults
from tests.browser.chat.talk import answer, ask, finished, kept, pieces
from tests.browser.layout import find_excess
from tests.chat_stack import Stack

pytestmark = pytest.mark.browser

TEXT = r"""Euler: \(e^{i\pi} + 1 = 0\), which costs $5 and $6, or $$5 and $$6 each.

$$
\int_0^\infty e^{-x^2}\,dx = \frac{\sqrt{\pi}}{2}
$$

- A matrix:
  \[ A = \begin{pmatrix} a_1 & b_2 \\ c*d & e*f \end{pmatrix} \]

Not one: \(\frac{1\), `$$x$$`, \[ without an end.

```
$$y$$
```
"""
HOSTILE = r"""
$$<img src=x onerror=window.hacked=1><script>window.hacked=2</script>$$

$$\text{</math><img src=x onerror=window.hacked=3><a href="javascript:window.hacked=4">x</a>}$$

$$\href{javascript:window.hacked=5}{x} \url{javascript:window.hacked=6}$$

$$\htmlStyle{position: fixed; inset: 0}{x} \htmlId{chat-send}{x} \htmlClass{primary}{x} \htmlData{hx-get=/evil/}{x}$$

$$\includegraphics[height=1em]{http://example.invalid/pixel.png}$$

$$\def\bomb{\bomb\bomb}\bomb$$

$$\rule{9999em}{9999em} \colorbox{red}{x} \fcolorbox{red}{blue}{x} \color{red} y$$

<code class="language-tex-inline">\href{javascript:window.hacked=7}{z}</code>
"""
OURS = ("/chat/completions/", "/chat/conversations/", "/static/")


def test_formulas_are_shown_as_such_and_money_as_money(page: Page) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    ask(page, "no formula")
    finished(page)
    assert not [url for url in asked if "katex" in url]

    ask(page, deltas=pieces(TEXT, 9))
    finished(page)

    said = answer(page).locator(".markdown")
    expect(said.locator("math")).to_have_count(3)
    expect(said.locator("math[display=block]")).to_have_count(2)
    expect(said.locator("li mtr")).to_have_count(2)
    expect(said).to_contain_text("which costs $5 and $6, or $$5 and $$6 each.")
    expect(said.locator(".math-source")).to_have_text(r"\frac{1")
    expect(said.locator("code")).to_have_text(["$$x$$", "$$y$$\n"])
    expect(said.locator("em, annotation")).to_have_count(0)
    # Neither its styles nor its fonts.
    assert {url.rpartition("/")[2] for url in asked if "katex" in url} == {
        "katex.js",
        "katex.min.js",
    }
    assert faults(page) == []
    streamed = said.inner_html()
    kept(page)
    page.reload()
    expect(said.locator("math")).to_have_count(3)
    assert said.inner_html() == streamed


def test_hostile_formulas_are_inert(page: Page, stack: Stack, complaints: list[str]) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))

    ask(page, deltas=pieces(HOSTILE, 11))
    finished(page)

    said = answer(page).locator(".markdown")
    expect(said.locator("math").first).to_be_visible()
    for selector in (
        "img, script, iframe, svg, style, a[href], form",
        "[style], [id], [onerror], [href], [src], .primary",
        "[data-hx-get], [hx-get]",
    ):
        expect(said.locator(selector)).to_have_count(0)
    assert page.evaluate("window.hacked") is None
    ours = tuple(f"{stack.url}{path}" for path in OURS)
    assert [url for url in asked if not url.startswith(ours)] == []
    assert not find_excess(page)
    # The sanitiser reads them in a document of its own, where styles are blocked, too.
    assert [words for words in complaints if "has been blocked" not in words] == []
    complaints.clear()


def test_a_part_that_cannot_be_loaded_is_told(page: Page) -> None:
    page.route("**/chat/math.js", lambda route: route.abort())

    ask(page, deltas=pieces(r"So \(x^2\) it is."))
    finished(page)

    trouble = page.locator("#trouble")
    expect(trouble).to_contain_text("The part of this page that shows formulas could not be loaded")
    expect(answer(page).locator(".markdown")).to_have_text("So x^2 it is.")
