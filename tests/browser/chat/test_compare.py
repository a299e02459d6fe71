import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.axe import faults
from tests.browser.chat.talk import choose, chosen, finished, menu, parameters, unfold
from tests.chat_stack import Stack
from tests.scripted_engine import EngineScript, ScriptedEngine
from tests.waiting import PATIENCE

pytestmark = pytest.mark.browser

SECOND = """
from django.conf import settings
first = Server.objects.get(slug="tiny")
server, _ = Server.objects.get_or_create(slug="other", profile=first.profile, box=first.box)
run = Run.objects.create(
    server=server, version=first.profile.current, state=RunState.READY, started_by=first.run.started_by,
    address="127.0.0.1", port={port}, served_name="other-qwen",
)
server.run, server.removed_at = run, None
server.save()
events.publish_change('servers')
"""


@pytest.fixture
def second(stack: Stack) -> Iterator[ScriptedEngine]:
    """The engine of another server, “other”."""
    with ScriptedEngine() as engine:
        stack.shell(SECOND.format(port=engine.port))
        yield engine


@pytest.fixture
def comparison(page: Page, stack: Stack, second: ScriptedEngine) -> Page:
    second.plan = lambda _body: EngineScript(
        deltas=[{"content": "The other"}] * 3,
        first_delay=0.5,
        delay=0.3,
    )
    page.goto(f"{stack.url}/chat/compare/?server=tiny")
    expect_server(page, "B", "other")
    return page


def expect_server(page: Page, column: str, slug: str) -> None:
    button = chosen(page, f"Server of column {column}")
    expect(button).to_have_accessible_name(re.compile(f": {slug},"))


def said(page: Page, at: int, column: str) -> Locator:
    """What a column says to a question."""
    turn = page.locator(".turn").nth(at)
    return turn.get_by_role("group", name=f"Column {column}", exact=True)


def test_one_question_is_answered_by_all_columns_side_by_side(
    comparison: Page, engine: ScriptedEngine, second: ScriptedEngine, stack: Stack
) -> None:
    page = comparison
    parameters(page)
    page.get_by_label("Temperature").fill("0.3")
    page.get_by_role("button", name="Parameters of column B", exact=True).click()
    expect(page.get_by_label("Temperature")).to_have_value("")
    page.get_by_label("Max tokens").fill("64")
    page.get_by_text("System prompt for all", exact=True).click()
    page.get_by_label("System prompt for all columns").fill("Be brief.")
    page.get_by_label("Message", exact=True).fill("hello")
    page.keyboard.press("Enter")
    finished(page)

    expect(said(page, 0, "A").locator(".markdown")).to_have_text("You said: hello")
    expect(said(page, 0, "B").locator(".markdown")).to_have_text("The otherThe otherThe other")
    told = {"role": "system", "content": "Be brief."}
    for asked, given in [(engine, {"temperature": 0.3}), (second, {"max_tokens": 64})]:
        sent = asked.requests[-1]
        assert sent["messages"] == [told, {"role": "user", "content": "hello"}]
        assert {key: sent[key] for key in ("temperature", "max_tokens") if key in sent} == given
    bars = page.locator(".bars-of")
    first = bars.filter(has_text="First token")
    expect(first.locator("li")).to_have_text(
        [re.compile(r"A · tiny.* s"), re.compile("B · other.* s")]
    )
    # One answer each is no comparison of speed.
    expect(first.get_by_text("fastest", exact=True)).to_have_count(0)
    expect(first).to_contain_text("the fastest is named after 3 answers of each")
    rates = bars.filter(has_text="Tokens a second").locator("li")
    expect(rates.filter(has_text="B · other")).to_have_text(re.compile(r"\d+\.\d"))
    foot = said(page, 0, "B").locator(".message-foot")
    expect(foot).to_contain_text("3 completion tokens")
    expect(foot).to_contain_text(re.compile(r"\d+\.\d tok/s"))
    expect(said(page, 0, "B").locator(".message-foot")).to_contain_text("complete")

    # Each goes on with what it has said itself, also after a reload.
    page.wait_for_url(re.compile(r"/chat/compare/[a-z0-9]+/$"))
    page.reload()
    expect(said(page, 0, "B").locator(".markdown")).to_have_text("The otherThe otherThe other")
    expect(page.get_by_label("System prompt for all columns")).to_have_value("Be brief.")
    page.get_by_label("Message", exact=True).fill("and more")
    page.keyboard.press("Enter")
    expect(said(page, 1, "A").locator(".markdown")).to_have_text("You said: and more")
    finished(page)
    assert second.requests[-1]["messages"][2:] == [
        {"role": "assistant", "content": "The otherThe otherThe other"},
        {"role": "user", "content": "and more"},
    ]
    assert faults(page) == []

    with page.expect_download() as download:
        menu(page, "All columns: Markdown")
    text = download.value.path().read_text()
    assert "- B: other, max_tokens 64, system Be brief." in text
    assert text.count("## You") == 2
    assert text.index("### Column A") < text.index("You said: hello") < text.index("### Column B")

    menu(page, "Share")
    page.get_by_role("button", name="Make a link").click()
    link = page.get_by_label("Link to this conversation").input_value()
    page.goto(link)
    expect(said(page, 1, "A").locator(".markdown")).to_have_text("You said: and more")
    expect(page.get_by_role("button", name="Regenerate")).to_have_count(0)
    page.goto(f"{stack.url}/chat/")
    # One line of the list stands for both columns.
    listed = page.locator("#chat-conversations .list-row")
    expect(listed).to_have_count(1)
    with page.expect_navigation():
        listed.get_by_role("link").click()
    expect(page.locator(".turn")).to_have_count(2)


def test_a_column_that_fails_says_why_and_stop_stops_the_others(
    comparison: Page, engine: ScriptedEngine, second: ScriptedEngine
) -> None:
    page = comparison
    engine.plan = lambda _body: EngineScript(deltas=[{"content": "So far"}], then="hang")
    second.plan = lambda _body: EngineScript(
        deltas=[{"content": "Half of"}], error={"message": "CUDA error: out of memory"}, then="end"
    )
    page.get_by_label("Message", exact=True).fill("hello")
    page.keyboard.press("Enter")

    failed = said(page, 0, "B")
    expect(failed.get_by_role("alert")).to_contain_text("CUDA error: out of memory")
    expect(failed.locator(".markdown")).to_have_text("Half of")
    expect(said(page, 0, "A").locator(".markdown")).to_have_text("So far")
    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_visible()
    page.keyboard.press("Escape")

    assert engine.outcomes.get(timeout=PATIENCE) == "cancelled"
    finished(page)
    expect(said(page, 0, "A").locator(".message-foot")).to_contain_text("stopped by you")
    # The one that failed alone is asked again.
    second.plan = lambda _body: EngineScript(deltas=[{"content": "All of it"}])
    asked = len(engine.requests)
    failed.get_by_role("button", name="Retry").click()
    expect(failed.locator(".markdown")).to_have_text("All of it")
    finished(page)
    assert len(engine.requests) == asked
    failed.get_by_role("button", name="Version before").click()
    expect(failed.locator(".markdown")).to_have_text("Half of")
    failed.get_by_role("button", name="Next version").click()
    expect(failed.locator(".markdown")).to_have_text("All of it")


def test_a_conversation_goes_on_in_columns_one_after_another(
    page: Page, stack: Stack, engine: ScriptedEngine, second: ScriptedEngine
) -> None:
    choose(page, "Server", "other")
    with page.expect_navigation():
        menu(page, "Compare with …")
    expect_server(page, "A", "other")
    page.goto(f"{stack.url}/chat/")
    for text in ("first", "second"):
        choose(page, "Server", "tiny")
        page.get_by_label("Message", exact=True).fill(text)
        page.keyboard.press("Enter")
        expect(page.locator(".answer").last.locator(".markdown")).to_have_text(f"You said: {text}")
        finished(page)
    # Column A asks the server that was chosen, whoever has answered before.
    choose(page, "Server", "other")
    with page.expect_navigation():
        menu(page, "Compare with …")
    expect_server(page, "A", "other")
    expect_server(page, "B", "tiny")
    choose(page, "Server of column A", "tiny")
    expect(page.get_by_label("Message", exact=True)).to_have_value("second")
    expect(page.locator(".copied")).to_contain_text("You said: first")
    expect(page.locator(".copied").get_by_role("button", name="Regenerate")).to_have_count(0)
    # The same server and parameters compare nothing.
    choose(page, "Server of column B", "tiny")
    expect(page.locator("#compare-shared")).to_contain_text("with the same parameters")
    unfold(page, "More parameters")
    page.get_by_label("Seed").fill("7")
    page.get_by_label("Ask", exact=True).select_option("one after another")
    page.get_by_role("button", name="Send", exact=True).click()
    finished(page)

    first, last = engine.requests[-2:]
    assert "seed" not in first
    assert last["seed"] == 7
    for sent in (first, last):
        assert [each["content"].strip() for each in sent["messages"]] == [
            "first", "You said: first", "second",
        ]  # fmt: skip
