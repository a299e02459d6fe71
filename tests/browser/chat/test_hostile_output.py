import pytest
from playwright.sync_api import Page, expect

from tests.browser.chat.talk import answer, ask, finished, pieces
from tests.chat_stack import Stack

pytestmark = pytest.mark.browser


HOSTILE = """
Hello <b>there</b>

<form action="/logout/" method="post"><input name="x"><button>Click</button></form>
<style>body { display: none }</style>
<div id="chat-send" class="primary" data-hx-post="/servers/tiny/stop/" hx-post="/servers/tiny/stop/" hx-trigger="load">x</div>
<p data-hx-get="/evil/" hx-get="/evil/" data-hx-trigger="load" style="position:fixed">para</p>
<img src="http://example.invalid/pixel.png" onerror="window.hacked = 1">
<img src="/logout/">

![alt](http://example.invalid/other.png) ![local](/logout/) [md](javascript:window.hacked=3)

<a href="javascript:window.hacked=2" target="_top">script link</a>
<a href="https://example.org/" onclick="window.hacked=4">good link</a>
<iframe src="/"></iframe><svg onload="window.hacked=5"><script>window.hacked=6</script></svg>
<math><mtext><table><mglyph><style><img src=x onerror=window.hacked=7></style></mglyph></table></mtext></math>

```"><img src=x onerror=window.hacked=8>
<script>window.hacked=9</script>
```
"""


def test_hostile_output_is_inert(page: Page, stack: Stack, complaints: list[str]) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))

    deltas = [{"reasoning": HOSTILE}, *pieces(HOSTILE, 11)]
    ask(page, deltas=deltas + [{"tool_calls": [{"index": 0, "function": {"name": HOSTILE}}]}])
    finished(page)

    region = answer(page)
    for selector in (
        "form, input, style, iframe, svg, script, math, img",
        "[style], [onerror], [onclick], [onload], .primary",
        ".markdown [id], .markdown [hx-get], .markdown [data-hx-get], .markdown [data-hx-post]",
    ):
        expect(region.locator(selector)).to_have_count(0)
    links = region.locator(".markdown a[href]")
    assert {link.get_attribute("href") for link in links.all()} == {
        "https://example.org/",
        "http://example.invalid/other.png",
    }
    for link in links.all():
        assert link.get_attribute("rel") == "noopener noreferrer nofollow"
        assert link.get_attribute("target") == "_blank"
    assert page.evaluate("window.hacked") is None
    ours = (f"{stack.url}/chat/completions/", f"{stack.url}/static/")
    assert [url for url in asked if not url.startswith(ours)] == []
    # The sanitiser reads the text in a document of its own: the browser reports that it
    # blocked the styles and handlers there, too.
    assert [said for said in complaints if "has been blocked" not in said] == []
    complaints.clear()


def test_htmx_ignores_what_is_in_the_conversation(page: Page, stack: Stack) -> None:
    """Even where a sanitiser's hole let an attribute through."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    ask(page, "hello")
    finished(page)

    page.evaluate(
        """() => {
            const place = document.querySelector(".answer .markdown");
            place.innerHTML = '<p data-hx-post="/evil/" data-hx-trigger="click" id="bait">x</p>';
            window.htmx?.process(place);
            document.getElementById("bait").click();
        }"""
    )
    page.wait_for_timeout(200)

    assert not [url for url in asked if "evil" in url]
