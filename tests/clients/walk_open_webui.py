"""Open WebUI itself at the gateway, in a browser: `make test-clients`, which CI does not run.

What it asked is kept in tests/gateway/open_webui.json, which CI replays. RECORD=1 writes that anew.
"""

import base64
import json
import os
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from servers.gateway.callers import KEY, clients
from tests.browser.steps import join, key
from tests.browser.test_on_request import WITHIN, made
from tests.chat_stack import Stack, chat_stack
from tests.clients.open_webui import open_webui
from tests.clients.recorder import Recorder, recorder
from tests.clients.recording import FILE, ClientRecording, shape
from tests.engine import answers
from tests.installation import Installation, installation
from tests.nvml import profiles
from tests.scripted_engine import MODEL, EngineScript, ScriptedEngine

pytestmark = pytest.mark.browser

PATIENCE = 60_000  # ms
MAKE_KEY = """
person = User.objects.get(username="ada")
print(Key.make(person, "Open WebUI", Role.OPERATOR, expires_at=None, only_asks=True)[1])
"""
DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
CHORES = {"title": "A greeting", "follow_ups": ["And then?"], "tags": ["Manners"]}

expect.set_options(timeout=PATIENCE)


def plan(body: dict[str, object]) -> EngineScript:
    """In words; what it asks beside the chat, without a stream, as it asks for it."""
    script = answers.script(body, flavor="vllm", model=MODEL)
    if not body.get("stream") and isinstance(script.error, dict) and "choices" in script.error:
        script.error["choices"][0]["message"]["content"] = json.dumps(CHORES)
    return script


@pytest.fixture(scope="module")
def engine() -> Iterator[ScriptedEngine]:
    with ScriptedEngine(plan=plan) as engine:
        yield engine


@pytest.fixture(scope="module")
def stack(engine: ScriptedEngine) -> Iterator[Stack]:
    with chat_stack(engine.port) as stack:
        yield stack


@pytest.fixture(scope="module")
def asked(stack: Stack) -> Iterator[Recorder]:
    address = urlsplit(stack.url)
    assert address.hostname is not None
    assert address.port is not None
    with recorder((address.hostname, address.port)) as made:
        yield made


@pytest.fixture(scope="module")
def page(stack: Stack, asked: Recorder, only_chromium: Browser) -> Iterator[Page]:
    """Its first admin's, where it was started with the lines of our page “Gateway”."""
    lines = next(each.lines for each in clients(asked.url, MODEL) if each.slug == "open-webui")
    lines = lines.replace(KEY, stack.shell(MAKE_KEY).strip())
    told = dict(line.split("=", 1) for line in lines.splitlines())
    with open_webui(told) as url:
        page = only_chromium.new_context(
            base_url=url, viewport={"width": 1280, "height": 900}
        ).new_page()
        page.set_default_timeout(PATIENCE)
        page.goto("/auth")
        page.get_by_role("button", name="Get started").click()
        page.locator("#name").fill("Ana")
        page.locator("#email").fill("ana@example.com")
        page.locator("#password").fill("correct horse battery")
        page.get_by_role("button", name="Create Admin Account").click()
        page.get_by_role("button", name="Okay, Let's Go!").click()
        yield page


def say(page: Page, text: str) -> None:
    """In a conversation of its own."""
    page.goto("/")
    typed(page, text)


def typed(page: Page, text: str) -> None:
    page.locator("#chat-input").click()
    page.keyboard.type(text)
    page.keyboard.press("Enter")


def models(page: Page) -> set[str]:
    page.goto("/")
    page.get_by_role("button", name="Selected model").click()
    options = page.get_by_role("option")
    expect(options.first).to_be_visible()
    found = {each.get_attribute("data-value") or "" for each in options.all()}
    page.keyboard.press("Escape")
    return found


def test_it_lists_what_is_ready(page: Page) -> None:
    assert models(page) == {MODEL, "tiny"}


def test_an_answer_comes_with_a_title_and_what_may_be_asked_next(page: Page) -> None:
    say(page, "hello from the other page")

    expect(page.get_by_text("You said: hello from the other page")).to_be_visible()
    expect(page.get_by_text("And then?").first).to_be_visible()
    expect(page.get_by_role("heading", name="A greeting")).to_be_visible()


def test_a_stopped_answer_stops_at_the_engine(page: Page, engine: ScriptedEngine) -> None:
    while not engine.outcomes.empty():
        engine.outcomes.get()
    say(page, "[[tokens 4000]] [[pace 10]] slowly")
    expect(page.get_by_text("the quick brown fox")).to_be_visible()
    page.get_by_role("button", name="Stop").click()

    assert engine.outcomes.get(timeout=PATIENCE / 1000) == "cancelled"


def test_a_picture_is_seen(page: Page) -> None:
    page.goto("/")
    page.locator("input[type=file]:not(#camera-input)").first.set_input_files(
        {"name": "dot.png", "mimeType": "image/png", "buffer": DOT}
    )
    expect(page.locator("#message-input-container img")).to_be_visible()
    typed(page, "what is on it")

    expect(page.get_by_text("what is on it (1 pictures)")).to_be_visible()


def test_its_tools_are_called_and_their_result_comes_back(page: Page) -> None:
    say(page, "[[tool]] what time is it")

    expect(page.get_by_text("View Result from get_current_timestamp")).to_be_visible()
    expect(page.get_by_text('You said: {"current_timestamp"')).to_be_visible()


@pytest.mark.parametrize(
    ("says", "reads"),
    [
        ("[[refuse 400]]", "This model's maximum context length is 512 tokens."),
        ("[[tokens 8]] [[error]]", "EngineCore encountered an issue."),
        ("[[tokens 8]] [[drop]]", "tiny hung up in the middle of its answer"),
    ],
)
def test_what_goes_wrong_is_read_there(page: Page, says: str, reads: str) -> None:
    say(page, says)

    expect(page.locator("#response-content-container")).to_contain_text(reads)


def test_a_server_that_was_stopped_since_says_so(page: Page, stack: Stack) -> None:
    page.goto("/")
    expect(page.get_by_role("button", name="Selected model")).to_be_visible()
    stack.shell("Run.objects.update(state=RunState.STOPPED, wanted=DesiredState.STOPPED)")
    try:
        typed(page, "are you there")
        expect(page.locator("#response-content-container")).to_contain_text("tiny is not running")
    finally:
        stack.shell("Run.objects.update(state=RunState.READY, wanted=DesiredState.RUNNING)")


def test_it_asks_as_the_recording_says(asked: Recorder) -> None:
    """After all the others. What CI replays is what this version of it asks."""
    heard = ClientRecording.of(asked.asked)
    if os.environ.get("RECORD"):
        FILE.write_text(heard.text)
    kept = ClientRecording.kept()

    assert kept.client == heard.client
    assert {name: shape(each) for name, each in kept.requests.items()} == {
        name: shape(each) for name, each in heard.requests.items()
    }


def test_it_sends_no_tools_where_its_admin_says_so(page: Page, engine: ScriptedEngine) -> None:
    """As our page says, for an engine that refuses them."""
    page.goto("/admin/settings/models")
    page.get_by_role("button", name="Model Defaults").click()
    page.get_by_role("button", name="Model Parameters").click()
    calling = page.get_by_text("Function Calling", exact=True).locator("xpath=../..")
    while calling.get_by_role("button").last.inner_text().strip() != "Legacy":
        calling.get_by_role("button").last.click()
    page.get_by_role("button", name="Save").last.click()
    expect(page.get_by_text("Models configuration saved successfully")).to_be_visible()
    say(page, "without any tools")

    expect(page.get_by_text("You said: without any tools")).to_be_visible()
    hello = {"role": "user", "content": "without any tools"}
    (asked,) = [each for each in engine.requests if each["messages"] == [hello]]
    assert "tools" not in asked


@pytest.fixture
def place(docker_host: str) -> Iterator[Installation]:
    with installation(docker_host, profiles.rtx_pro_6000()) as made:
        yield made


@pytest.mark.docker
def test_a_stopped_model_is_started_by_who_asks_for_it_there(
    page: Page, place: Installation
) -> None:
    """By a connection that its admin adds in the settings: another installation's gateway."""
    assert page.context.browser is not None
    ours = page.context.browser.new_page()
    join(ours, place)
    made(ours, place, "alpha")
    connect(page, f"{place.url}/v1", key(ours, place))
    assert models(page) == {MODEL, "tiny", "alpha", "alpha-alias"}
    page.get_by_role("button", name="Selected model").click()
    page.get_by_role("option", name="Select alpha model").click()
    typed(page, "are you there")

    ours.goto(f"{place.url}/")
    alpha = ours.locator("article[data-name=alpha]")
    expect(alpha).to_have_attribute("data-state", "ready", timeout=WITHIN)
    expect(page.get_by_text("You said: are you there")).to_be_visible(timeout=WITHIN)


def connect(page: Page, address: str, token: str) -> None:
    page.goto("/admin/settings/connections")
    page.get_by_role("button", name="Add Connection").first.click()
    page.locator("#url-input").fill(address)
    page.get_by_placeholder("API Key").last.fill(token)
    page.get_by_role("button", name="Verify Connection").click()
    expect(page.get_by_text("Server connection verified")).to_be_visible()
    page.get_by_role("button", name="Save").last.click()
    expect(page.locator("#url-input")).not_to_be_visible()
