"""What the playground shows of vLLM itself, whose tiny model's weights are random.

What it says is no language, and where engine or template hold it to a form, it is of that form.
"""

import json
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import docker
import httpx
from playwright.sync_api import Locator, Page, expect

from tests.browser.chat.talk import ask, details, finished, parameters, unfold
from tests.browser.steps import eventually
from tests.installation import Installation
from tests.scripted_engine import ScriptedEngine

NAME = "tiny-idefics3"  # its text is as a small Qwen3's, and it takes pictures
LONG = 2000  # tokens
ANSWERED = 120_000  # ms; a second on an idle machine
FLAGS = (
    "--max-model-len 4096 --enable-auto-tool-choice --tool-call-parser hermes "
    "--reasoning-parser qwen3 --enable-prompt-tokens-details "
    """--limit-mm-per-prompt '{"image": 2}' --allowed-media-domains pictures.example"""
)
# Nothing in it goes on for as long as a random model likes.
SCHEMA = {
    "type": "object",
    "properties": {
        "verdict": {"type": "string", "enum": ["yes", "no", "unclear"]},
        "year": {"type": "integer", "minimum": 10, "maximum": 99},
    },
    "required": ["verdict", "year"],
    "additionalProperties": False,
}
TOOL = {
    "name": "weather_at",
    "strict": True,  # else vLLM lets the arguments be any JSON
    "parameters": {
        "type": "object",
        "properties": {"place": {"type": "string", "enum": ["Brno", "Oslo"]}},
        "required": ["place"],
        "additionalProperties": False,
    },
}


def talk(page: Page, place: Installation) -> str:
    """The whole walk in one conversation; returns what stood under its first answer."""
    page.goto(f"{place.url}/chat/?server={NAME}")
    parameters(page)
    page.get_by_label("System prompt").fill("Be brief. " * 80)  # more than a block of the cache
    go_on(page)
    page.get_by_label("Seed").fill("7")
    figures = reason(page)
    remember(page)
    cancel(page, place)
    stream_as_the_script(place)
    refuse(page)
    page.get_by_role("button", name="New conversation").click()
    page.get_by_label("System prompt").fill("")
    page.get_by_label("Thinking", exact=True).select_option("off")
    weigh(page)
    page.get_by_label("Extra parameters").fill("")
    page.get_by_label("Max tokens").fill("2000")
    follow_a_schema(page)
    call_a_tool(page)
    page.get_by_label("Tools, as JSON Schema").fill("")
    return figures


def answered(page: Page) -> Locator:
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible(timeout=ANSWERED)
    expect(last(page).get_by_role("alert")).to_have_count(0)
    return last(page)


def last(page: Page) -> Locator:
    return page.locator(".answer").last


def foot(page: Page) -> Locator:
    return last(page).locator(".message-foot")


def reason(page: Page) -> str:
    """The model would never end it by itself: the engine does, at the budget."""
    page.get_by_label("Max tokens").fill("400")
    page.get_by_label("Thinking budget").fill("20")
    ask(page, "What is the capital of France?")
    shown = answered(page)
    thinking = shown.locator("details.thinking")
    expect(thinking.locator("summary")).to_contain_text("Reasoned for")
    expect(thinking.locator("summary")).to_contain_text("tokens")
    expect(thinking).not_to_have_attribute("open", "")
    assert thinking.locator(".thinking-text").text_content()
    expect(shown.locator(".markdown")).not_to_be_empty()
    expect(foot(page)).to_contain_text(re.compile(r"\+ 400 completion tokens \((about )?\d+ rea"))
    expect(foot(page)).to_contain_text("cut off at max tokens")
    return ", ".join(shown.locator(".figures-all .figure").all_inner_texts())


def remember(page: Page) -> None:
    """Asked the same again, it has most of the prompt in its cache."""
    page.get_by_label("Regenerate this answer").click()
    answered(page)
    expect(foot(page)).to_contain_text(re.compile(r"prompt \([1-9]\d* cached\)"))


def cancel(page: Page, place: Installation) -> None:
    before = counted(place, "vllm:generation_tokens_total")
    [container] = place.docker.list_ours()
    with slowed(place, container.id):
        ask_for_long(page)
        expect(last(page).locator(".thinking-text")).not_to_be_empty(timeout=ANSWERED)

        page.keyboard.press("Escape")

        finished(page)
    expect(foot(page)).to_contain_text("stopped by you")
    eventually(page, lambda: counted(place, "vllm:num_requests_running") == 0)
    assert counted(place, "vllm:generation_tokens_total") - before < LONG


@contextmanager
def slowed(place: Installation, container: str) -> Iterator[docker.APIClient]:
    """With all of the machine it has answered in 3 s, before a busy browser has shown the start."""
    with closing(docker.APIClient(place.docker.host, version="auto", timeout=60)) as client:
        client.update_container(container, cpu_period=100_000, cpu_quota=20_000)
        yield client
        if client.inspect_container(container)["State"]["Running"]:
            client.update_container(container, cpu_quota=-1)


def go_on(page: Page) -> None:
    """Random models end at random: from here on not before the limit."""
    unfold(page, "More parameters")
    page.get_by_label("Extra parameters").fill('{"ignore_eos": true}')


def ask_for_long(page: Page) -> None:
    page.get_by_label("Max tokens").fill(str(LONG))
    ask(page, "Tell me everything.")


def engine(place: Installation) -> str:
    ready = "[f'http://{r.address}:{r.port}' for r in Run.objects.filter(state='ready')]"
    urls = place.ask(ready)
    assert isinstance(urls, list)
    return str(urls[0])


def counted(place: Installation, name: str) -> float:
    """What the engine itself says, of all series with this name."""
    lines = httpx.get(f"{engine(place)}/metrics", timeout=30).text.splitlines()
    values = [line.split()[-1] for line in lines if line.startswith(f"{name}{{")]
    assert values
    return sum(map(float, values))


def refuse(page: Page) -> None:
    ask(page, "word " * 3000)
    alert = last(page).get_by_role("alert")
    expect(alert).to_contain_text("The engine refused the request (400)", timeout=ANSWERED)
    expect(alert).to_contain_text("maximum context length is 4096 tokens")
    expect(alert).to_contain_text("Start a new conversation, remove earlier messages")


def weigh(page: Page) -> None:
    page.get_by_label("Max tokens").fill("8")
    page.get_by_label("Logprobs").fill("2")
    ask(page, "Hello")
    shown = answered(page)
    details(page)
    shown.get_by_text("Probabilities", exact=True).click()
    tokens = shown.locator(".tokens .token")
    expect(tokens).to_have_count(8)
    expect(shown.locator(".legend")).to_contain_text("8 tokens, perplexity")
    tokens.first.press("ArrowRight")
    expect(tokens.nth(1)).to_have_attribute("aria-current", "true")
    expect(shown.locator(".alternatives tr")).not_to_have_count(0)
    page.get_by_label("Logprobs").fill("")


def follow_a_schema(page: Page) -> None:
    unfold(page, "Structured output")
    page.get_by_label("Answers", exact=True).select_option("schema")
    page.get_by_label("JSON schema", exact=True).fill(json.dumps(SCHEMA))
    ask(page, "Was it worth it?")
    verdict = answered(page).locator(".form-verdict")
    expect(verdict).to_contain_text("This is what the schema says.")
    expect(verdict.locator(".json-string")).to_have_text(re.compile("yes|no|unclear"))
    expect(verdict.locator(".json-number")).to_have_text(re.compile(r"^\d\d$"))
    page.get_by_label("Answers", exact=True).select_option("")


def call_a_tool(page: Page) -> None:
    unfold(page, "Tools")
    page.get_by_label("Tools, as JSON Schema").fill(json.dumps([TOOL]))
    page.get_by_label("Call", exact=True).select_option("=weather_at")
    ask(page, "Shall I take an umbrella?")
    called = answered(page).locator(".call")
    expect(foot(page)).to_contain_text("calls a tool")
    # Weights that know nothing may call it more than once.
    assert called.count() >= 1
    for call in called.all():
        expect(call.locator(".json-string")).to_have_text(re.compile("Brno|Oslo"))
        expect(call.locator(".call-problem")).to_have_count(0)
    before = page.locator(".answer").count()

    page.get_by_label("Call", exact=True).select_option("none")
    page.get_by_label("Max tokens").fill("40")
    for result in page.get_by_label("Result of weather_at").all():
        result.fill('{"degrees": 21}')
    page.get_by_role("button", name="Send result").click()

    expect(page.locator(".answer")).to_have_count(before + 1)
    expect(answered(page).locator(".markdown")).not_to_be_empty()


def stream_as_the_script(place: Installation) -> None:
    """The scripted engine, with which most tests are, sends what vLLM sends, key by key."""
    body = {"stream": True, "stream_options": {"include_usage": True}, "max_tokens": 3}
    said = {"messages": [{"role": "user", "content": "Hello"}], "model": NAME}
    real = events(f"{engine(place)}/v1/chat/completions", body | said)
    script = {
        "deltas": [{"reasoning": "Hm."}] * (len(real) - 3),
        "used": {"prompt_tokens_details": {"cached_tokens": 0, "created_cache_tokens": 0}},
    }
    said["messages"] = [{"role": "user", "content": json.dumps(script)}]
    with ScriptedEngine() as scripted:
        played = events(f"http://127.0.0.1:{scripted.port}/v1/chat/completions", body | said)
    # A token of half a character brings no text; the last text may come with why it ended.
    for choice in [choice for event in real[1:] + played[1:] for choice in event["choices"]]:
        choice["delta"] = {}
    assert [shape(event) for event in real] == [shape(event) for event in played]


def events(url: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    lines = [line for line in httpx.post(url, json=body, timeout=30).text.splitlines() if line]
    assert lines.pop() == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def shape(value: Any) -> Any:
    """Which keys stand where."""
    if isinstance(value, list):
        return [shape(each) for each in value]
    return {key: shape(each) for key, each in value.items()} if isinstance(value, dict) else ...
