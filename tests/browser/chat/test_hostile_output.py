import json

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chat.talk import answer, ask, details, finished, parameters, pieces, unfold
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


OURS = ("/chat/completions/", "/chat/conversations/", "/static/")


def test_hostile_output_is_inert(page: Page, stack: Stack, complaints: list[str]) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))

    deltas = [{"reasoning": HOSTILE}, *pieces(HOSTILE, 11)]
    ask(page, deltas=deltas + [{"tool_calls": [{"index": 0, "function": {"name": HOSTILE}}]}])
    finished(page)

    region = answer(page)
    for selector in (
        "form, input, style, iframe, svg:not(.message-foot svg), script, math, img",
        "[style], [onerror], [onclick], [onload], .primary",
        ".markdown [id], .markdown [hx-get], .markdown [data-hx-get], .markdown [data-hx-post]",
    ):
        expect(region.locator(selector)).to_have_count(0)
    links = region.locator(".markdown a[href]")
    expect(links).to_have_count(2)
    assert {link.get_attribute("href") for link in links.all()} == {
        "https://example.org/",
        "http://example.invalid/other.png",
    }
    for link in links.all():
        assert link.get_attribute("rel") == "noopener noreferrer nofollow"
        assert link.get_attribute("target") == "_blank"
    assert page.evaluate("window.hacked") is None
    ours = tuple(f"{stack.url}{path}" for path in OURS)
    assert [url for url in asked if not url.startswith(ours)] == []
    # The sanitiser reads the text in a document of its own: the browser reports that it
    # blocked the styles and handlers there, too.
    assert [said for said in complaints if "has been blocked" not in said] == []
    complaints.clear()


def test_hostile_calls_schemas_and_tokens_are_inert(
    page: Page, stack: Stack, complaints: list[str]
) -> None:
    with page.expect_response("**/chat/presets/tiny/"):
        parameters(page)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    tools = [{"name": "a", "description": HOSTILE, "parameters": {"enum": [HOSTILE]}}]
    unfold(page, "Tools")
    page.get_by_label("Tools, as JSON Schema").fill(json.dumps(tools))
    hostile = json.dumps({HOSTILE: [HOSTILE, {HOSTILE: HOSTILE}]})
    calls = [
        {"index": 0, "id": HOSTILE, "function": {"name": "a", "arguments": hostile}},
        {"index": 1, "id": "2", "function": {"name": HOSTILE, "arguments": HOSTILE}},
    ]
    ask(page, deltas=[{"tool_calls": calls}], finish=HOSTILE, used={"prompt_tokens": HOSTILE})
    finished(page)
    results = answer(page).locator(".call-result")
    results.first.fill(HOSTILE)
    results.last.fill(hostile)
    page.get_by_role("button", name="Send results").click()
    expect(page.locator(".answer")).to_have_count(2)
    finished(page)

    unfold(page, "Structured output")
    page.get_by_label("Answers", exact=True).select_option("schema")
    schema = {"properties": {HOSTILE: {"enum": [HOSTILE]}}, "required": [HOSTILE], "format": "x"}
    page.get_by_label("JSON schema", exact=True).fill(json.dumps(schema))
    said = {"token": HOSTILE, "logprob": -1, "top_logprobs": [{"token": HOSTILE, "logprob": -1}]}
    text = json.dumps({HOSTILE: HOSTILE + "!"})
    ask(page, deltas=[{"content": text, "logprobs": {"content": [said]}}])
    finished(page)
    details(page)
    for fold in ("Probabilities", "Raw"):
        answer(page).get_by_text(fold, exact=True).click()
    expect(answer(page).locator(".form-verdict.invalid")).to_contain_text("must be one of")
    expect(answer(page).locator(".raw pre")).to_have_count(2)

    for selector in (
        "form, input, style, iframe, svg:not(.message-foot svg), script, math, img",
        "a[href]:not(.markdown *)",
        "[style], [onerror], [onclick], [onload], [href^=javascript], .primary, #chat-send",
    ):
        expect(page.locator("#chat-transcript").locator(selector)).to_have_count(0)
    assert page.evaluate("window.hacked") is None
    ours = tuple(f"{stack.url}{path}" for path in OURS)
    assert [url for url in asked if not url.startswith(ours)] == []
    assert [said for said in complaints if "has been blocked" not in said] == []
    complaints.clear()


def test_htmx_ignores_what_is_in_the_conversation(page: Page, stack: Stack) -> None:
    """Even where a sanitiser's hole let an attribute through."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    ask(page, "hello")
    finished(page)

    # The same outside the conversation is obeyed: once that is seen, what came before it is, too.
    with page.expect_request("**/obeyed/"):
        page.evaluate(
            """() => {
                const bait = (path) =>
                    `<p data-hx-get="${path}" data-hx-trigger="click" data-hx-swap="none">x</p>`;
                const beside = document.createElement("div");
                document.body.append(beside);
                const said = document.querySelector(".answer .markdown");
                for (const [place, path] of [[said, "/evil/"], [beside, "/obeyed/"]]) {
                    place.innerHTML = bait(path);
                    window.htmx.process(place);
                    place.firstChild.click();
                }
            }"""
        )

    assert not [url for url in asked if "evil" in url]
