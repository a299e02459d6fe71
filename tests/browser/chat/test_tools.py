import json
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import faults
from tests.browser.chat.talk import answer, ask, finished, kept, pieces, unfold
from tests.scripted_engine import ScriptedEngine

pytestmark = pytest.mark.browser


def call(index: int | None, *arguments: str, name: str = "weather_at") -> list[dict[str, Any]]:
    """A call in pieces, as vLLM sends it: the name alone, then the arguments."""
    first = {"index": index, "id": f"call-{index}", "type": "function"}
    return [
        {"content": None, "tool_calls": [{**first, "function": {"name": name}}]},
        *(
            {"content": None, "tool_calls": [{"index": index, "function": {"arguments": piece}}]}
            for piece in arguments
        ),
    ]


def test_a_model_calls_tools_and_gets_their_results(page: Page, engine: ScriptedEngine) -> None:
    unfold(page, "Tools")
    page.get_by_label("Tools, as JSON Schema").fill('[{"name": "no spaces"}]')
    expect(page.locator("#chat-hint")).to_contain_text("Tool 1 needs a name of letters")
    page.get_by_label("Tools, as JSON Schema").fill('[{"name": "x",\n}]')
    expect(page.locator("#chat-hint")).to_contain_text("are not JSON")
    page.get_by_role("button", name="Take an example").click()
    expect(page.locator("#tools-lack")).to_contain_text("--enable-auto-tool-choice")
    page.get_by_label("Call", exact=True).select_option("=weather_at")
    ask(
        page,
        deltas=[
            {"reasoning": "Which town?"},
            *call(0, '{"place": "Br', 'no", "day": 9}'),
            *call(1, "{oops"),
        ],
        finish="stop",  # as vLLM says of calls that the request has named
        delay=0.01,
    )
    finished(page)

    sent = engine.requests[-1]
    assert sent["tool_choice"] == {"type": "function", "function": {"name": "weather_at"}}
    assert sent["tools"][0]["function"]["parameters"]["required"] == ["place"]
    calls = answer(page).locator(".call")
    expect(calls.nth(0).locator(".json-string")).to_have_text('"Brno"')
    expect(calls.nth(0).locator(".call-problem")).to_have_text("/day must be at most 7")
    expect(calls.nth(1).locator(".call-problem")).to_contain_text("not JSON")
    expect(calls.nth(1).locator(".json-place")).to_have_text("o")
    expect(answer(page).locator(".message-foot")).to_contain_text("calls a tool")

    results = page.get_by_label("Result of weather_at")
    results.nth(0).fill('{"degrees": 21}')
    results.nth(1).fill("rain")
    page.get_by_role("button", name="Send results").click()
    expect(page.locator(".answer")).to_have_count(2)
    finished(page)

    assert engine.requests[-1]["messages"][1:] == [
        {
            "role": "assistant",
            "content": "",
            "reasoning_content": "Which town?",
            "tool_calls": [
                {
                    "id": "call-0",
                    "type": "function",
                    "function": {
                        "name": "weather_at",
                        "arguments": '{"place": "Brno", "day": 9}',
                    },
                },
                {
                    "id": "call-1",
                    "type": "function",
                    "function": {"name": "weather_at", "arguments": '{"not_json":"{oops"}'},
                },
            ],
        },
        {"role": "tool", "content": '{"degrees": 21}', "tool_call_id": "call-0"},
        {"role": "tool", "content": "rain", "tool_call_id": "call-1"},
    ]
    expect(answer(page).locator(".markdown")).to_have_text("You said: rain")
    kept(page)
    page.reload()
    expect(page.locator(".message.result")).to_have_count(2)
    expect(page.locator("#tools-badge")).to_have_text("1 defined")
    assert faults(page) == []
    page.emulate_media(color_scheme="dark")
    assert faults(page) == []


def test_a_question_in_between_leaves_unanswered_calls_out(
    page: Page, engine: ScriptedEngine
) -> None:
    ask(page, deltas=call(None, "{}"), finish="tool_calls")
    finished(page)
    expect(answer(page).locator(".call-problem")).to_have_text("No tool has this name.")

    ask(page, "never mind")
    finished(page)

    assert [message["role"] for message in engine.requests[-1]["messages"]] == ["user", "user"]


def test_a_schema_is_asked_for_and_held_against_the_answer(
    page: Page, engine: ScriptedEngine
) -> None:
    unfold(page, "Structured output")
    page.get_by_label("Answers", exact=True).select_option("schema")
    page.get_by_label("JSON schema", exact=True).fill('{"type": "objekt"}')
    expect(page.locator("#chat-hint")).to_contain_text('/type must be "object"')
    page.get_by_label("Examples of schemas").select_option("A list of languages")
    right = {"languages": [{"name": "C", "mainly_for": "systems", "first_released": 1972}]}

    ask(page, deltas=pieces(json.dumps(right)))
    finished(page)
    asked = engine.requests[-1]["response_format"]
    assert asked["type"] == "json_schema"
    assert asked["json_schema"]["schema"]["required"] == ["languages"]
    verdict = answer(page).locator(".form-verdict")
    expect(verdict).to_contain_text("This is what the schema says.")
    expect(verdict.locator(".json-number")).to_have_text("1972")
    expect(answer(page).locator(".markdown")).to_be_hidden()

    right["languages"][0] |= {"first_released": "1972"}
    ask(page, deltas=pieces(json.dumps(right)))
    finished(page)
    expect(verdict.last).to_contain_text("not what the schema says, in 1 place")
    expect(verdict.last.locator("li")).to_have_text(
        "/languages/0/first_released must be an integer"
    )
    expect(verdict.last.locator(".json-wrong")).to_have_text("must be an integer")

    ask(page, deltas=pieces('{"languages": [\n{"name"'), finish="length")
    finished(page)
    expect(verdict.last).to_contain_text("It ends in the middle (line 2, column 8)")
    expect(verdict.last).to_contain_text("raise max tokens")
    assert faults(page) == []
    page.emulate_media(color_scheme="dark")
    assert faults(page) == []
