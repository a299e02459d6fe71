"""The lines for programs on the page “Gateway”, and the test that the page makes of them."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.browser.axe import faults
from tests.browser.chromium import new_page
from tests.chat_stack import Stack, knows_engine
from tests.scripted_engine import MODEL, EngineScript, ScriptedEngine
from tests.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.browser

PICTURES = os.environ.get("PICTURES", "")
PHONE = {"width": 390, "height": 844}
KEYS = """
import json
ada = User.objects.get(username="ada")
made = lambda name, **values: Key.make(ada, name, Role.OPERATOR, expires_at=None, **values)[1]
print(json.dumps({
    "good": made("good"), "narrow": made("narrow", models_allowed=["another"]),
    "few": made("few", requests_per_minute=1),
}))
"""
ON_DEMAND = """
from servers.launch.engines.launch import Launch
ada = User.objects.get(username="ada")
profile = Profile.objects.create(slug="later", name="Later", owner=ada)
launch = Launch(engine="vllm", image="i", checkpoint="org/Later", gpus="none", start_on_request=True)
version = profile.save_version(launch, by=ada)
server = Server.objects.create(slug="later", profile=profile, box=Box.objects.get(slug="rtx8"))
server.run = Run.objects.create(
    server=server, version=version, state=RunState.STARTING, started_by=ada, on_request=True,
)
server.save()
events.publish_change('server', server.pk)
"""
READY = """
Run.objects.filter(server__slug="later").update(
    state=RunState.READY, ready_at=timezone.now(), address="127.0.0.1", port={port},
    served_name="tiny-qwen",
)
events.publish_change('server', Server.objects.get(slug="later").pk)
"""
STATE = """
Run.objects.filter(pk={run}).update(state=RunState.{state}, wanted=DesiredState.{wanted})
events.publish_change('server', Run.objects.get(pk={run}).server_id)
"""
MESSAGES = "/v1/messages?beta=true"
SPOKEN = "".join(
    f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
    for event in (
        {"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 3}}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}},
        {"type": "message_stop"},
    )
)


@pytest.fixture
def keys(stack: Stack, engine: ScriptedEngine) -> dict[str, str]:
    made = dict(json.loads(stack.shell(KEYS)))
    knows_engine(stack, engine, made["good"])
    forget(engine)
    return made


@pytest.fixture
def complaints() -> Iterator[list[str]]:
    found: list[str] = []
    yield found
    # A status of 4xx is an error to the browser's console, too, and here the point.
    assert [each for each in found if "Failed to load resource" not in each] == []


@pytest.fixture
def page(
    context: BrowserContext, stack: Stack, keys: dict[str, str], complaints: list[str]
) -> Page:
    """The gateway's page."""
    page = new_page(context, complaints)
    page.goto(f"{stack.url}/gateway/")
    return page


def forget(engine: ScriptedEngine) -> None:
    """What it was asked before."""
    for each in (engine.outcomes, engine.arrived):
        while not each.empty():
            each.get()


def hears_of_it(engine: ScriptedEngine) -> None:
    """The engine, that who asked has hung up."""
    while engine.outcomes.get(timeout=PATIENCE) != "cancelled":
        pass  # one before, which was answered


@contextmanager
def away(stack: Stack, key: str, state: str, wanted: str) -> Iterator[None]:
    """The server is in this state, as the gateway knows within a second."""
    headers = {"Authorization": f"Bearer {key}"}

    def comes_to(state: str, wanted: str, count: int) -> None:
        stack.shell(STATE.format(run=stack.run, state=state, wanted=wanted))

        def is_known() -> bool:
            found = httpx.get(f"{stack.url}/v1/models", headers=headers).json()["data"]
            return len(found) == count

        wait_until(is_known, f"the gateway lists {count} models")

    comes_to(state, wanted, 0)
    try:
        yield
    finally:
        comes_to("READY", "RUNNING", 2)


class Lines:
    """What the page shows of one client."""

    def __init__(self, page: Page, name: str) -> None:
        self.page = page
        page.get_by_role("tab", name=name, exact=True).click()
        self.panel = page.get_by_role("tabpanel", name=name, exact=True)
        self.button: Locator = self.panel.locator("[data-test]")
        self.steps: Locator = self.panel.get_by_role("listitem")
        self.outcome: Locator = self.panel.locator(".use-outcome")

    def test(self, key: str | None = None) -> None:
        if key is not None:
            self.page.locator("#use-key").fill(key)
        self.button.click()


def picture(page: Page, name: str) -> None:
    if PICTURES:
        page.screenshot(path=Path(PICTURES) / f"{name}.png", full_page=True)


def test_each_client_is_tested_by_what_it_asks(
    page: Page, keys: dict[str, str], engine: ScriptedEngine
) -> None:
    expect(page.locator("#use-reach")).to_contain_text("127.0.0.1 works only on this machine")
    before = len(engine.requests)
    curl = Lines(page, "curl")
    curl.test(keys["good"])
    expect(curl.outcome).to_contain_text("It works: the first token came after")
    expect(curl.steps).to_have_count(2)
    expect(curl.steps.nth(0)).to_contain_text("GET /v1/models200 · ")
    expect(curl.steps.nth(1)).to_contain_text("POST /v1/chat/completions200 · first token after")
    expect(curl.steps.nth(1)).to_contain_text("“You said: Say hello in one sentence.”")
    (asked,) = engine.requests[before:]
    assert (asked["model"], asked["max_tokens"], asked["stream"]) == (MODEL, 16, True)
    assert keys["good"] not in json.dumps(engine.headers)
    assert faults(page) == []
    picture(page, "use-works")

    webui = Lines(page, "Open WebUI")
    refusal = '"auto" tool choice requires --enable-auto-tool-choice'
    engine.plan = lambda body: (
        EngineScript(
            deltas=[], status=400, content_type="application/json", error={"message": refusal}
        )
        if body.get("tools")
        else EngineScript(
            deltas=[{"reasoning": "Hm. "}, {"reasoning": "<b>Hello</b>?"}], finish="length"
        )
    )
    webui.test()
    expect(webui.outcome).to_have_text("It answers, and refuses tools, which this program sends.")
    expect(webui.steps.nth(1)).to_contain_text("It thinks: “Hm. <b>Hello</b>?”")
    expect(webui.steps.nth(2)).to_contain_text(refusal)
    expect(webui.steps.nth(2)).to_contain_text("the playground lists that")
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    assert faults(page) == []
    picture(page, "use-tools-phone-dark")

    claude = Lines(page, "Claude Code")
    broken = {"type": "error", "error": {"type": "api_error", "message": "Out of memory."}}
    said, _, _rest = SPOKEN.partition("event: message_delta")
    engine.answers[MESSAGES] = 200, f"{said}event: error\ndata: {json.dumps(broken)}\n\n"
    claude.test()
    expect(claude.steps).to_contain_text("“Hi”Out of memory.The engine broke its answer off.")
    engine.answers[MESSAGES] = 200, SPOKEN
    claude.test()
    expect(claude.outcome).to_contain_text("It works")
    expect(claude.steps).to_have_count(2)
    expect(claude.steps.nth(1)).to_contain_text("with a tool200 · first token")
    assert engine.headers[-1]["anthropic-version"] == "2023-06-01"

    # An engine without this path speaks chat completions, and is translated.
    del engine.answers[MESSAGES]
    claude.test()
    expect(claude.outcome).to_have_text("It answers, and refuses tools, which this program sends.")
    expect(claude.steps.nth(0)).to_contain_text("It thinks: “Hm. <b>Hello</b>?”")
    expect(claude.steps.nth(1)).to_contain_text(refusal)


def test_what_is_wrong_is_said_with_what_to_do(
    page: Page, stack: Stack, keys: dict[str, str], engine: ScriptedEngine
) -> None:
    problem = page.locator("#use-key-problem")
    lines = Lines(page, "Python (openai)")
    lines.test()
    expect(problem).to_have_text("A test needs a key of yours.")
    expect(page.locator("#use-key")).to_be_focused()
    lines.test("hunter2")
    expect(problem).to_have_text("A key of inferdash begins with ifd_.")

    lines.test("ifd_wrong")
    expect(lines.steps).to_contain_text("GET /v1/models401This key is not known")
    expect(lines.steps.get_by_role("link", name="Make a key")).to_be_visible()
    expect(problem).to_contain_text("This key is not known")
    assert faults(page) == []
    picture(page, "use-wrong-key")

    lines.test(keys["narrow"])
    expect(lines.steps.nth(1)).to_contain_text("403This key may not use tiny, only another.")
    expect(lines.steps.nth(1)).to_contain_text("Choose a model that this key may use")
    expect(page.locator("#use-model-note")).to_contain_text("Not among the models")

    lines.test(keys["few"])
    expect(lines.outcome).to_contain_text("It works")
    lines.test()
    expect(lines.steps.nth(1)).to_contain_text("429This key may make 1 request a minute")
    expect(lines.steps.nth(1)).to_contain_text("or make a key with a higher limit")

    engine.plan = lambda _body: EngineScript(deltas=[{"content": "Once upon "}], then="drop")
    lines.test(keys["good"])
    expect(lines.steps.nth(1)).to_contain_text("“Once upon”tiny hung up in the middle")
    expect(lines.steps.nth(1).get_by_role("link", name="Its server’s page")).to_have_attribute(
        "href", "/servers/tiny/"
    )
    with away(stack, keys["good"], "STARTING", "RUNNING"):
        lines.test()
        expect(lines.steps.nth(1)).to_contain_text("503tiny is starting. Try again a little later.")
        expect(lines.steps.nth(1)).to_contain_text("It is on its way: test again in 10 s.")
    with away(stack, keys["good"], "STOPPED", "STOPPED"):
        lines.test()
        expect(lines.steps.nth(1)).to_contain_text("503tiny is not running. Start it on its page")
        expect(lines.steps.nth(0)).to_contain_text("tiny-qwen not among them")

    page.route("**/v1/chat/completions", lambda route: route.abort())
    lines.test()
    expect(lines.steps.nth(1)).to_contain_text("no answerNo answer: the connection was refused")
    picture(page, "use-no-answer")


@pytest.fixture
def later(stack: Stack) -> None:
    """A server that a request has started, on its way."""
    stack.shell(ON_DEMAND)


@pytest.mark.usefixtures("later")
def test_one_waits_for_a_start_and_cancels_what_one_is_tired_of(
    page: Page, stack: Stack, keys: dict[str, str], engine: ScriptedEngine
) -> None:
    page.clock.install()
    page.reload()
    lines = Lines(page, "LangChain")
    page.locator("#use-model").select_option("later")
    row = page.get_by_role("region", name="Models that can be requested").get_by_role(
        "row", name="later"
    )
    expect(row).to_contain_text("later is starting.")
    expect(lines.panel.locator("pre")).to_contain_text('model="later"')
    lines.test(keys["good"])
    expect(lines.steps.nth(1)).to_contain_text("later is starting.")
    expect(lines.steps.nth(1)).to_contain_text("10 min at most")
    picture(page, "use-starting")
    stack.shell(READY.format(port=engine.port))
    expect(lines.outcome).to_contain_text("It works")
    expect(row.locator(".state")).to_have_text("ready")

    engine.plan = lambda _body: EngineScript(deltas=[{"content": "Once"}], then="hang")
    forget(engine)
    lines.test()
    engine.arrived.get(timeout=PATIENCE)
    page.clock.fast_forward(61_000)
    expect(lines.steps.nth(1)).to_contain_text("No whole answer within 60 s.")
    expect(lines.steps.nth(1)).to_contain_text("The server’s page says what it has to do")
    hears_of_it(engine)
    ends: list[Callable[[], None]] = [partial(page.keyboard.press, "Escape"), lines.button.click]
    for end in ends:
        lines.test()
        expect(lines.button).to_have_text("Cancel (Esc)")
        expect(lines.steps.nth(1)).to_contain_text("60 s at most")
        engine.arrived.get(timeout=PATIENCE)
        end()
        expect(lines.outcome).to_contain_text("Cancelled: nothing more is asked.")
        hears_of_it(engine)
        expect(lines.button).to_have_text("Send test request")


def test_a_new_key_is_tested_beside_itself(page: Page, stack: Stack) -> None:
    page.get_by_role("link", name="New key…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("Open WebUI")
    expect(dialog.get_by_label("Scope")).to_have_value("0")
    assert faults(page) == []
    dialog.get_by_role("button", name="Create key").click()
    expect(dialog).to_be_hidden()
    token = page.locator("#token").text_content() or "nothing"
    expect(page.locator("#use-key")).to_have_value(token)
    webui = Lines(page, "Open WebUI")
    expect(webui.panel.locator("pre")).to_contain_text(f"OPENAI_API_KEY={token}")
    webui.test()
    expect(webui.outcome).to_contain_text("It works")
    expect(webui.steps).to_have_count(3)
    assert faults(page) == []
    picture(page, "use-new-key")
