import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.chromium import chromium
from tests.chat_stack import ROOT, Stack, chat_stack
from tests.scripted_engine import ScriptedEngine

pytestmark = pytest.mark.browser

AXE = ROOT / "node_modules/axe-core/axe.min.js"


@pytest.fixture(scope="module")
def engine() -> Iterator[ScriptedEngine]:
    with ScriptedEngine() as engine:
        yield engine


@pytest.fixture(scope="module")
def stack(engine: ScriptedEngine) -> Iterator[Stack]:
    with chat_stack(engine.port) as stack:
        yield stack


@pytest.fixture
def context(stack: Stack) -> Iterator[BrowserContext]:
    with chromium() as browser:
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        context.add_cookies([{"name": stack.cookie, "value": stack.session, "url": stack.url}])
        yield context


@pytest.fixture
def complaints() -> list[str]:
    return []


@pytest.fixture
def page(
    context: BrowserContext, stack: Stack, engine: ScriptedEngine, complaints: list[str]
) -> Iterator[Page]:
    """The open playground. What the browser finds wrong fails the test."""
    while not engine.outcomes.empty():
        engine.outcomes.get()
    page = context.new_page()
    page.set_default_timeout(15_000)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "console",
        lambda said: complaints.append(said.text) if "Security Policy" in said.text else None,
    )
    page.goto(f"{stack.url}/chat/")
    yield page
    assert complaints == []


def ask(page: Page, text: str = "", **script: Any) -> None:
    page.get_by_label("Message", exact=True).fill(text or json.dumps(script))
    page.keyboard.press("Enter")


def answer(page: Page) -> Any:
    return page.locator(".answer").last


def finished(page: Page) -> None:
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()


def pieces(text: str, size: int = 7) -> list[dict[str, str]]:
    return [{"content": text[at : at + size]} for at in range(0, len(text), size)]


def test_an_answer_streams_as_markdown_with_its_figures(page: Page) -> None:
    text = "# Title\n\nSome **bold** words.\n\n```python\nprint('hi')\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"

    ask(page, deltas=pieces(text), delay=0.01)

    expect(answer(page).locator("h1")).to_have_text("Title")
    finished(page)
    expect(answer(page).locator("strong")).to_have_text("bold")
    expect(answer(page).locator("pre .hljs-built_in")).to_have_text("print")
    expect(answer(page).locator("td")).to_have_text(["1", "2"])
    foot = answer(page).locator(".message-foot")
    expect(foot).to_contain_text("first token")
    expect(foot).to_contain_text("tok/s")
    expect(foot).to_contain_text(f"7 prompt + {len(pieces(text))} completion tokens")
    expect(foot).to_contain_text("finish: stop")
    assert page.locator("#chat-status").text_content() == (
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
    page.reload()

    expect(answer(page).locator(".markdown a")).to_have_attribute("href", "https://example.org/")
    expect(answer(page).locator(".hljs-keyword").first).to_be_attached()
    assert answer(page).locator(".markdown").inner_html() == streamed


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_folds_into_its_own_block(page: Page, name: str) -> None:
    ask(page, deltas=[{name: "Let me think."}, {"content": "42"}], delay=0.05)
    finished(page)

    thinking = answer(page).locator("details.thinking")
    expect(thinking).not_to_have_attribute("open", "")
    expect(thinking.locator("summary")).to_contain_text("Reasoned for 0.")
    expect(thinking.locator(".thinking-text")).to_have_text("Let me think.")
    expect(answer(page).locator(".markdown")).to_have_text("42")


@pytest.mark.parametrize("opening", ["<think>\n", ""])
def test_think_tags_fold_and_are_not_sent_back(
    page: Page, engine: ScriptedEngine, opening: str
) -> None:
    ask(page, deltas=pieces(f"{opening}Hmm, 6 times 7.\n</think>\n\nIt is 42."))
    finished(page)
    expect(answer(page).locator(".thinking-text")).to_contain_text("Hmm, 6 times 7.")
    expect(answer(page).locator(".markdown")).to_have_text("It is 42.")

    ask(page, "and now?")
    finished(page)

    assert engine.requests[-1]["messages"][1] == {"role": "assistant", "content": "It is 42."}


def test_stop_cancels_at_the_engine_and_keeps_what_arrived(
    page: Page, engine: ScriptedEngine
) -> None:
    ask(page, deltas=[{"content": "So far"}], then="hang")
    expect(answer(page).locator(".markdown")).to_have_text("So far")

    page.get_by_role("button", name="Stop", exact=True).click()

    assert engine.outcomes.get(timeout=5) == "cancelled"
    expect(answer(page).locator(".markdown")).to_have_text("So far")
    expect(answer(page).locator(".message-foot")).to_contain_text("stopped by you")


def test_escape_stops_before_the_first_token(page: Page, engine: ScriptedEngine) -> None:
    ask(page, deltas=[], first_delay=3600)
    engine.arrived.get(timeout=5)
    expect(answer(page).locator(".waiting")).to_contain_text("Waiting for the first token")

    page.keyboard.press("Escape")

    assert engine.outcomes.get(timeout=5) == "cancelled"
    finished(page)


def test_closing_the_page_cancels_at_the_engine(page: Page, engine: ScriptedEngine) -> None:
    ask(page, deltas=[{"content": "So far"}], then="hang")
    expect(answer(page).locator(".markdown")).to_have_text("So far")

    page.reload()

    assert engine.outcomes.get(timeout=5) == "cancelled"
    expect(answer(page).locator(".markdown")).to_have_text("So far")
    expect(answer(page).get_by_role("alert")).to_contain_text("The page was closed")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ({"then": "drop"}, "lost in the middle"),
        ({"error": {"message": "CUDA out of memory"}}, "CUDA out of memory"),
        ({"then": "end", "finish": ""}, "without finishing"),
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


def test_a_refusal_stands_in_the_conversation(page: Page) -> None:
    ask(page, deltas=[], status=400, error={"error": {"message": "max_tokens is too large"}})

    alert = answer(page).get_by_role("alert")
    expect(alert).to_contain_text("The engine refused the request (400): max_tokens is too large.")


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


def test_edit_and_resend_replaces_what_follows(page: Page, engine: ScriptedEngine) -> None:
    ask(page, "first")
    finished(page)
    ask(page, "second")
    finished(page)

    page.get_by_label("Edit this message and send it again").first.click()
    page.get_by_label("Edit the message").fill("changed")
    page.get_by_role("button", name="Send again").click()
    finished(page)

    expect(page.locator(".question .text")).to_have_text(["changed"])
    expect(answer(page).locator(".markdown")).to_have_text("You said: changed")
    assert engine.requests[-1]["messages"] == [{"role": "user", "content": "changed"}]


def test_regenerate_asks_for_the_same_again(page: Page, engine: ScriptedEngine) -> None:
    ask(page, "again")
    finished(page)
    before = len(engine.requests)

    page.get_by_label("Regenerate this answer").click()
    finished(page)

    assert len(engine.requests) == before + 1
    assert engine.requests[-1]["messages"] == [{"role": "user", "content": "again"}]
    expect(page.locator(".answer")).to_have_count(1)


def test_parameters_go_to_the_engine_and_survive_a_reload(
    page: Page, engine: ScriptedEngine
) -> None:
    page.get_by_label("System prompt").fill("Be brief.")
    page.get_by_label("Temperature").fill("0.3")
    page.get_by_label("Top-p").fill("0.9")
    page.get_by_label("Max tokens").fill("256")
    page.get_by_label("Extra parameters").fill('{"seed": 7}')
    ask(page, "hello")
    finished(page)

    sent = engine.requests[-1]
    assert sent["messages"][0] == {"role": "system", "content": "Be brief."}
    assert {key: sent[key] for key in ("temperature", "top_p", "max_tokens", "seed")} == {
        "temperature": 0.3,
        "top_p": 0.9,
        "max_tokens": 256,
        "seed": 7,
    }
    assert sent["model"] == "tiny-qwen"
    page.reload()
    expect(page.get_by_label("System prompt")).to_have_value("Be brief.")
    expect(answer(page).locator(".markdown")).to_have_text("You said: hello")


@pytest.mark.parametrize(
    ("label", "value", "said"),
    [
        ("Temperature", "3", "Temperature must be a number from 0 to 2."),
        ("Max tokens", "0", "Max tokens must be a whole number of 1 or more."),
        ("Extra parameters", "{seed: 1}", "Extra parameters are not JSON"),
        ("Extra parameters", "[1]", "must be a JSON object"),
    ],
)
def test_a_wrong_parameter_is_said_and_nothing_is_sent(
    page: Page, label: str, value: str, said: str
) -> None:
    page.get_by_label(label).fill(value)
    page.get_by_label("Message", exact=True).fill("hello")

    expect(page.locator(".hint")).to_contain_text(said)
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_disabled()


def test_conversations_are_kept_named_and_deleted_with_undo(page: Page) -> None:
    ask(page, "about boxes")
    finished(page)
    page.get_by_role("button", name="New conversation").click()
    ask(page, "about engines")
    finished(page)
    page.get_by_label("Name of the conversation").fill("Engines!")
    page.get_by_label("Name of the conversation").press("Tab")
    page.reload()

    listed = page.locator("#chat-conversations .open")
    expect(listed).to_have_text(["Engines!", "about boxes"])
    listed.nth(1).click()
    expect(answer(page).locator(".markdown")).to_have_text("You said: about boxes")
    page.get_by_label("Delete “about boxes”").click()
    expect(listed).to_have_text(["Engines!"])
    page.get_by_role("button", name="Undo").click()
    expect(listed).to_have_count(2)


def test_an_answer_goes_on_while_another_conversation_is_looked_at(
    page: Page, engine: ScriptedEngine
) -> None:
    ask(page, "short one")
    finished(page)
    page.get_by_role("button", name="New conversation").click()
    ask(page, deltas=pieces("word " * 60, 5), delay=0.02)
    expect(answer(page).locator(".markdown")).to_contain_text("word")

    page.locator("#chat-conversations .open", has_text="short one").click()
    expect(page.locator(".hint")).to_contain_text("is being answered")
    page.locator("#chat-conversations .open").first.click()
    finished(page)

    assert answer(page).locator(".markdown").inner_text().split() == ["word"] * 60
    assert engine.outcomes.get(timeout=5) == "complete"


def test_servers_come_and_go_in_the_open_page(page: Page, stack: Stack) -> None:
    change = "from servers import live\nRun.objects.update(state={!r})\nlive.servers_changed()"
    page.get_by_label("Message", exact=True).fill("hello")
    send = page.get_by_role("button", name="Send", exact=True)
    expect(send).to_be_enabled()
    try:
        stack.shell(change.format("starting"))
        expect(page.locator("#chat-empty")).to_contain_text("tiny is starting")
        expect(send).to_be_disabled()
        stack.shell(change.format("failed"))
        expect(page.locator("#chat-empty")).to_contain_text("Start one on the dashboard")
    finally:
        stack.shell(change.format("ready"))
    expect(send).to_be_enabled()
    expect(page.get_by_label("Message", exact=True)).to_have_value("hello")


def test_a_server_that_was_stopped_meanwhile_is_said_in_the_conversation(
    page: Page, stack: Stack
) -> None:
    page.get_by_label("Message", exact=True).fill("hello")
    stack.shell("Run.objects.update(wanted='stopped')")
    try:
        page.keyboard.press("Enter")
        expect(answer(page).get_by_role("alert")).to_contain_text("tiny was told to stop")
    finally:
        stack.shell("Run.objects.update(wanted='running')")


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
    page.get_by_text("Parameters", exact=True).click()
    expect(page.get_by_label("Temperature")).to_be_visible()
