"""The playground's rules that need no page: what is reasoning, what a schema allows, where JSON ends."""

from typing import Any

import pytest
from playwright.sync_api import Page

pytestmark = pytest.mark.browser

IMPORT = """async ([file, name, calls]) => {
    const page = document.querySelector('script[src*="/chat."]').src;
    const module = await import(new URL(file, page));
    return calls.map((words) => module[name](...words) ?? null);
}"""


def called(page: Page, file: str, name: str, calls: list[list[Any]]) -> list[Any]:
    """What this function of a module says to each of the calls."""
    said: list[Any] = page.evaluate(IMPORT, [file, name, calls])
    return said


def split(text: str, apart: str = "") -> list[Any]:
    return [{"content": text, "reasoning": apart, "calls": []}]


FORMS = [
    (split("42", "Hm."), ("Hm.", "42", False)),
    (split("<think>\nHm.\n</think>\n\n42"), ("\nHm.\n", "42", True)),
    (split("<think>Hm"), ("Hm", "", True)),
    (split("Hm.\n</think>\n42"), ("Hm.", "42", True)),
    (split("[THINK]Hm.[/THINK]42"), ("Hm.", "42", True)),
    (split("<seed:think>Hm.</seed:think>42"), ("Hm.", "42", True)),
    (
        split(
            "<|channel|>analysis<|message|>Hm.<|end|>"
            "<|start|>assistant<|channel|>final<|message|>42"
        ),
        ("Hm.", "42", True),
    ),
    (split("The tag `</think>` ends it."), ("", "The tag `</think>` ends it.", False)),
    (split("</think>\n42", "Hm."), ("Hm.", "</think>\n42", False)),
]
COUNTS = [
    ({"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 4}}, (4, False)),
    ({"completion_tokens": 9, "reasoning_tokens": 4}, (4, False)),
    ({"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 0}}, (6, True)),
    ({"completion_tokens": 9}, (6, True)),
]
OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
CLOSED = OBJECT | {"additionalProperties": False}
LIST = {"type": "array", "items": {"$ref": "#/$defs/one"}, "$defs": {"one": {"enum": [1, 2]}}}
ENDLESS = {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}
# A schema, a value, and where it is wrong.
CHECKED: list[tuple[Any, Any, list[str]]] = [
    (OBJECT, {"a": 1}, []),
    (OBJECT, {"a": 1.5}, ["/a must be an integer"]),
    (OBJECT, {}, [" “a” is missing"]),
    (OBJECT, [], [" must be an object"]),
    (CLOSED, {"a": 1, "b/c": 2}, ["/b~1c is not in the schema"]),
    (LIST, [1, 2, 3], ["/2 must be one of 1, 2"]),
    ({"type": ["string", "null"]}, 1, [" must be a string or null"]),
    ({"minimum": 2, "multipleOf": 3}, 1, [" must be at least 2", " must be a multiple of 3"]),
    ({"minLength": 2}, "😀", [" its length must be at least 2"]),
    ({"maxItems": 1, "uniqueItems": True}, [1, 1],
     [" its number of entries must be at most 1", " has the same entry twice"]),
    ({"prefixItems": [{"const": 1}], "items": False}, [2, 3],
     ["/0 must be 1", "/1 nothing may stand here"]),
    ({"oneOf": [{"type": "number"}, {"type": "integer"}]}, 1, [" must fit exactly one of oneOf"]),
    ({"anyOf": [{"type": "number"}]}, "x", [" fits none of anyOf"]),
    ({"allOf": [{"type": "string"}], "not": {"const": "x"}}, "x", [" is what “not” forbids"]),
    ({"$ref": "http://elsewhere/"}, 1, []),
    ({"properties": {"constructor": {"type": "string"}}}, {}, []),
    (ENDLESS, 1, []),
]  # fmt: skip
BROKEN = [
    ({"type": "objekt"}, '/type must be "object", "array"'),
    ({"type": "constructor"}, "/type must be"),
    ({"properties": {"a": {"items": []}}}, "/properties/a/items must be a schema."),
    ([], "The schema must be an object."),
    (CLOSED, ""),
]


def test_reasoning_is_told_from_the_answer_in_every_form(page: Page) -> None:
    said = called(page, "chat-reasoning.js", "split", [words for words, _said in FORMS])
    assert [(each["thinking"], each["text"], each["inText"]) for each in said] == [
        wanted for _words, wanted in FORMS
    ]
    answer = {"content": "four", "reasoning": "thoughts", "calls": []}
    said = called(
        page,
        "chat-reasoning.js",
        "reasoningTokens",
        [[answer | {"usage": u}] for u, _said in COUNTS],
    )
    assert [(each["tokens"], each["isEstimate"]) for each in said] == [each for _u, each in COUNTS]

    found = called(page, "chat-json.js", "parse", [['{"a": 1}'], ["{\n  a: 1}"], ["[1, 2"], [""]])
    assert found[0] == {"value": {"a": 1}}
    assert [each["says"] for each in found[1:]] == [
        '"a" may not stand there (line 2, column 3).',
        "It ends in the middle (line 1, column 6).",
        "There is nothing, and JSON must be something.",
    ]
    curl = called(page, "chat-raw.js", "curl", [["http://x/v1", {"a": "it's $HOME"}]])[0]
    assert """-d '{"a":"it'\\''s $HOME"}'""" in curl


def test_values_are_held_against_their_schemas(page: Page) -> None:
    calls = [[schema, value] for schema, value, _said in CHECKED]
    found = called(page, "chat-validation.js", "problems", calls)
    assert [[f"{each['path']} {each['says']}" for each in one] for one in found[:-1]] == [
        said for _schema, _value, said in CHECKED[:-1]
    ]
    said = called(page, "chat-validation.js", "schemaProblem", [[schema] for schema, _ in BROKEN])
    for sentence, (_schema, wanted) in zip(said, BROKEN, strict=True):
        assert sentence.startswith(wanted)
        assert bool(sentence) == bool(wanted)
    assert called(
        page, "chat-validation.js", "unchecked", [[{"items": {"pattern": "(a+)+$"}}]]
    ) == [["pattern"]]
