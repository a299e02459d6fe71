import json

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chat.talk import answer, ask, details, finished, kept, parameters, unfold
from tests.browser.layout import until
from tests.chat_stack import Stack
from tests.scripted_engine import ScriptedEngine

pytestmark = pytest.mark.browser

ENGINE = """
from dataclasses import replace
profile = Profile.objects.get(slug="tiny")
launch = replace(profile.launch, engine={engine!r}, flags=("--no-mmproj",) if {engine!r} == "llamacpp" else ())
Run.objects.update(version=profile.save_version(launch, by=None))
events.publish_change('servers')
"""


def test_parameters_go_to_the_engine_in_its_own_words(
    page: Page, engine: ScriptedEngine, stack: Stack
) -> None:
    parameters(page)
    page.get_by_label("System prompt").fill("Be brief.")
    page.get_by_label("Temperature").fill("0.3")
    page.get_by_label("Max tokens").fill("256")
    page.get_by_label("Thinking", exact=True).select_option("off")
    unfold(page, "More parameters")
    page.get_by_label("Repetition penalty").fill("1.1")
    page.get_by_label("Min tokens").fill("2")
    page.get_by_role("textbox", name="Stop", exact=True).fill("END\n\\n\\n")
    page.get_by_label("Extra parameters").fill('{"seed": 7}')
    expect(page.locator("#params-more .badge").first).to_have_text("4 set")
    expect(page.locator("#chat-params-button .badge")).to_have_text("7 set")
    ask(page, "hello")
    finished(page)

    sent = engine.requests[-1]
    assert sent["messages"][0] == {"role": "system", "content": "Be brief."}
    given = {key: sent[key] for key in sent if key not in ("messages", "stream", "stream_options")}
    assert given == {
        "model": "tiny-qwen",
        "temperature": 0.3,
        "max_tokens": 256,
        "chat_template_kwargs": {"enable_thinking": False, "thinking": False},
        "repetition_penalty": 1.1,
        "min_tokens": 2,
        "stop": ["END", "\n\n"],
        "seed": 7,
    }
    try:
        stack.shell(ENGINE.format(engine="llamacpp"))
        expect(page.locator("#param-repetition_penalty-engine")).to_have_text(
            "llama.cpp calls it repeat_penalty."
        )
        expect(page.locator("#param-min_tokens-engine")).to_have_text(
            "llama.cpp does not take it: it is left out."
        )
        ask(page, "hello")
        finished(page)
        assert engine.requests[-1]["repeat_penalty"] == 1.1
        assert not {"repetition_penalty", "min_tokens"} & set(engine.requests[-1])
    finally:
        stack.shell(ENGINE.format(engine="vllm"))

    kept(page)
    page.reload()
    expect(page.get_by_label("System prompt")).to_have_value("Be brief.")
    expect(page.get_by_label("Temperature")).to_have_value("0.3")
    expect(answer(page).locator(".markdown")).to_have_text("You said: hello")
    page.get_by_role("button", name="Engine’s defaults").click()
    expect(page.get_by_label("Temperature")).to_have_value("")
    expect(page.get_by_label("System prompt")).to_have_value("Be brief.")


def test_a_wrong_parameter_is_said_and_nothing_is_sent(page: Page) -> None:
    unfold(page, "More parameters")
    page.get_by_label("Message", exact=True).fill("hello")
    send = page.get_by_role("button", name="Send", exact=True)
    for label, value, said in [
        ("Temperature", "3", "Temperature must be a number from 0 to 2."),
        ("Max tokens", "0", "Max tokens must be a whole number of 1 or more."),
        ("Seed", "1.5", "Seed must be a whole number from 0 to 4294967295."),
        ("Extra parameters", "{seed: 1}", "Extra parameters are not JSON"),
        ("Extra parameters", "[1]", "must be a JSON object"),
    ]:
        field = page.get_by_label(label, exact=True)
        field.fill(value)
        expect(page.locator("#chat-hint")).to_contain_text(said)
        expect(send).to_be_disabled()
        field.fill("")
        expect(send).to_be_enabled()


def test_the_raw_request_and_stream_are_one_click_away(page: Page) -> None:
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text }")
    ask(
        page,
        deltas=[{"reasoning": "Hm, it's."}, {"content": "42"}],
        used={
            "prompt_tokens_details": {"cached_tokens": 5},
            "completion_tokens_details": {
                "reasoning_tokens": 1,
                "accepted_prediction_tokens": 3,
                "rejected_prediction_tokens": 1,
            },
        },
    )
    finished(page)

    foot = answer(page).locator(".message-foot")
    expect(foot).to_contain_text("7 prompt (5 cached) + 2 completion tokens (1 reasoning)")
    expect(foot).to_contain_text("75 % of 4 drafted tokens accepted")
    expect(answer(page).locator(".thinking summary")).to_contain_text(", 1 token")
    details(page)
    foot.get_by_text("Raw", exact=True).click()
    expect(answer(page).locator(".raw pre").first).to_contain_text('"model": "tiny-qwen"')
    expect(answer(page).locator(".raw pre").last).to_contain_text("data: [DONE]")
    page.get_by_role("button", name="Copy as curl").click()
    until(page, "() => window.copied")
    copied = page.evaluate("window.copied")
    assert copied.startswith("curl -N 'http://127.0.0.1")
    assert json.loads(copied.split("-d '")[1][:-1].replace("'\\''", "'"))["stream"] is True
