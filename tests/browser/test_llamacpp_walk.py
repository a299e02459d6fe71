"""The main job with llama.cpp itself: a profile, a start, its phases, a chat, a failure, a stop."""

import re

import anthropic
import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam
from playwright.sync_api import Browser, Page, expect

from tests import llamacpp
from tests.browser.chat.talk import ask, finished
from tests.browser.chromium import PATIENCE, new_page
from tests.browser.steps import allow_mounts, card, fill_profile, join, stop
from tests.browser.vllm_talk import call_a_tool, follow_a_schema
from tests.installation import Installation
from tests.llamacpp.make_model import ANSWER, THOUGHT

pytestmark = [pytest.mark.docker, pytest.mark.browser, pytest.mark.llamacpp]

START_WITHIN = 2 * PATIENCE
MODEL = "/models/tiny-qwen3.gguf"


@pytest.fixture
def place(place: Installation, docker_host: str) -> Installation:
    """Whose box has the image, and lets profiles mount the model."""
    llamacpp.provide(docker_host)
    allow_mounts(place, llamacpp.MODEL.parent)
    return place


@pytest.mark.takes(240)
def test_llama_cpp_is_started_watched_talked_to_and_stopped(
    place: Installation, browser: Browser, capsys: pytest.CaptureFixture[str]
) -> None:
    complaints: list[str] = []
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = new_page(context, complaints)
    join(page, place)
    fill_in(page, place)
    expect(page.locator("main")).to_contain_text("flags, read", timeout=START_WITHIN)

    known = place.ask(
        "list(ImageFacts.objects.filter(reference='" + llamacpp.TAG + "')"
        ".values_list('version', 'count'))"
    )
    assert isinstance(known, list)
    [(version, flags)] = known
    assert re.fullmatch(r"b\d+-\S+", version)
    assert flags > 200

    page.goto(f"{place.url}/")
    tiny = card(page, "tiny-qwen3")
    tiny.get_by_role("button", name="Start").click()
    expect(tiny).to_contain_text("works with flash attention only", timeout=START_WITHIN)
    tiny.get_by_role("link", name="Why").click()
    why = page.get_by_role("region", name="Why it failed")
    expect(why).to_contain_text("requires flash_attn")
    why.get_by_role("button", name="Apply fix and start: --flash-attn on").click()
    head = page.locator("main header [data-state]")
    expect(head).to_have_attribute("data-state", "ready", timeout=START_WITHIN)
    page.goto(f"{place.url}/servers/tiny-qwen3/log/")
    expect(page.locator("run-log")).to_contain_text("listening on http")
    page.get_by_role("link", name="Overview", exact=True).click()
    facts = page.get_by_role("region", name="This run")
    expect(facts).to_contain_text("35 tokens, the first after", timeout=START_WITHIN)

    talk(page, place)
    programs_ask(place)

    page.goto(f"{place.url}/")
    expect(tiny.locator(".figures")).to_contain_text("KV cache")
    expect(tiny.locator(".figures")).to_contain_text("Tok/s")
    stop(page, tiny, within=START_WITHIN)

    assert complaints == []
    seen = place.ask(
        "[(starts.read_progress(r).seen, r.exit_code, r.start.engine_version)"
        " for r in Run.objects.order_by('-pk')[:1]]"
    )
    assert isinstance(seen, list)
    [(phases, exit_code, said)] = seen
    assert said == version
    assert {"loading", "ready"} <= {*phases}  # of the others not every release tells
    assert exit_code == 0
    with capsys.disabled():
        print(f"\nllama.cpp {version}: {', '.join(phases)}")


def talk(page: Page, place: Installation) -> None:
    page.goto(f"{place.url}/chat/?server=tiny-qwen3")
    ask(page, "Hello")
    finished(page)
    answer = page.locator(".answer").last
    thinking = answer.locator("details.thinking")
    expect(thinking.locator("summary")).to_contain_text("Reasoned for")
    assert (thinking.locator(".thinking-text").text_content() or "").strip() == THOUGHT
    expect(answer.locator(".markdown")).to_have_text(ANSWER)
    foot = answer.locator(".message-foot")
    expect(foot).to_contain_text("first token")
    expect(foot).to_contain_text("tok/s")
    expect(foot).to_contain_text("+ 35 completion tokens")
    page.get_by_label("Regenerate this answer").click()
    expect(foot).to_contain_text(re.compile(r"prompt \([1-9]\d* cached\)"))
    ask(page, "word " * 3000)
    alert = page.locator(".answer").last.get_by_role("alert")
    expect(alert).to_contain_text("exceeds the available context size")
    expect(alert).to_contain_text("Start a new conversation, remove earlier messages")
    page.get_by_role("button", name="New conversation").click()
    follow_a_schema(page)
    call_a_tool(page)


def programs_ask(place: Installation) -> None:
    """By their makers' packages, through the one address."""
    token = place.ask("Key.make(User.objects.get(), 'programs', Role.OPERATOR, expires_at=None)[1]")
    assert isinstance(token, str)
    question: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Hello"}]
    with openai.OpenAI(base_url=f"{place.url}/v1", api_key=token, max_retries=0) as client:
        assert [model.id for model in client.models.list()] == ["tiny-qwen3"]
        whole = client.chat.completions.create(model="tiny-qwen3", messages=question)
        assert whole.choices[0].message.content == ANSWER
        assert whole.usage is not None
        assert whole.usage.completion_tokens == 35
        stream = client.chat.completions.create(
            model="tiny-qwen3", messages=question, max_tokens=5, stream=True
        )
        assert [c.choices[0].finish_reason for c in stream if c.choices][-1] == "length"
        answered = client.responses.create(model="tiny-qwen3", input="Hello")
        assert answered.output_text == ANSWER
        with pytest.raises(openai.APIStatusError, match="--embeddings") as refused:
            client.embeddings.create(model="tiny-qwen3", input="Hello")
        assert refused.value.status_code == 501
    claude = anthropic.Anthropic(base_url=place.url, api_key=token, max_retries=0)
    with (
        claude,
        claude.messages.stream(
            model="tiny-qwen3", max_tokens=99, messages=[{"role": "user", "content": "Hello"}]
        ) as told,
    ):
        said = told.get_final_message()
    assert [block.type for block in said.content] == ["thinking", "text"]
    assert said.usage.output_tokens == 35


def fill_in(page: Page, place: Installation) -> None:
    page.goto(f"{place.url}/profiles/new/")
    page.locator("#id_engine").select_option("llamacpp")
    fill_profile(
        page,
        {
            "name": "tiny-qwen3",
            "checkpoint": MODEL,
            "served_name": "tiny-qwen3",
            "image": llamacpp.TAG,
            "flags": "--ctx-size 8192 --parallel 2 --cache-type-v q4_0 --flash-attn off",
            "volumes": f"{llamacpp.MODEL.parent}:/models:ro",
            "gpus": "none",
        },
    )
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("heading", name="tiny-qwen3", level=1)).to_be_visible()
