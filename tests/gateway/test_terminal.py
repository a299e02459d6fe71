"""`inferdash chat`, as a person and as a script have it, through the gateway."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from inferdash.terminal.answer import SPEAKS, THINKS, ChatAnswer
from tests.gateway.conftest import Address
from tests.scripted_engine import EngineScript, ScriptedEngine
from tests.terminal import TerminalProgram
from tests.waiting import PATIENCE

COMMAND = [sys.executable, "-m", "inferdash.terminal", "chat"]

type Chat = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def env(address: Address) -> dict[str, str]:
    return {"INFERDASH_URL": address.url, "INFERDASH_KEY": address.token}


@pytest.fixture
def chat(env: dict[str, str]) -> Chat:
    """Its output is no terminal: as in a script."""

    def run(*words: str, given: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *words], env=env | more, input=given, capture_output=True, text=True,
            timeout=PATIENCE,
        )  # fmt: skip

    return run


def scripted(*deltas: dict[str, Any], **more: Any) -> str:
    return json.dumps({"deltas": deltas, **more})


def test_a_key_that_asks_models_only_chats_and_does_nothing_else(
    chat: Chat, address: Address, tmp_path: Path
) -> None:
    assert chat("tiny", "hello", INFERDASH_KEY=address.asks).stdout == "You said: hello \n"

    logs_in = subprocess.run(
        [*COMMAND[:-1], "login", address.url], env={"HOME": str(tmp_path)}, input=address.asks,
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert logs_in.returncode == 4
    assert "may use models only" in logs_in.stderr
    assert not list(tmp_path.iterdir())


@contextmanager
def planned(engine: ScriptedEngine, script: EngineScript) -> Iterator[None]:
    before, engine.plan = engine.plan, lambda _body: script
    yield
    engine.plan = before


def test_a_script_gets_the_answer_alone(chat: Chat, address: Address) -> None:
    said = chat("tiny", "--max-tokens", "5", "hello", "there", "--temperature", "0.5")
    assert (said.returncode, said.stdout, said.stderr) == (0, "You said: hello there \n", "")
    assert chat("tiny", given="from a pipe").stdout == "You said: from a pipe \n"
    assert chat("tiny", "-", "--system", "Be short.", given="x").stdout == "You said: x \n"
    bodies = address.engines[0].requests[-3:]
    assert (bodies[0]["max_tokens"], bodies[0]["temperature"]) == (5, 0.5)
    assert bodies[2]["messages"][0] == {"role": "system", "content": "Be short."}
    thought = chat("tiny", scripted({"reasoning": "hm"}, {"content": "Yes"}))
    assert thought.stdout == "Yes\n"


def test_json_is_the_whole_answer(chat: Chat, address: Address) -> None:
    whole = {"choices": [{"message": {"content": "Yes"}}], "usage": {"completion_tokens": 1}}
    with planned(
        address.engines[0], EngineScript(deltas=[], content_type="application/json", error=whole)
    ):
        said = chat("tiny", "well?", "--json")
    assert json.loads(said.stdout) == whole
    assert "stream" not in address.engines[0].requests[-1]
    with planned(
        address.engines[0], EngineScript(deltas=[], content_type="text/html", error="<p>")
    ):
        said = chat("tiny", "well?", "--json")
    assert (said.returncode, "no JSON" in said.stderr) == (5, True)


def test_errors_are_the_gateways_and_have_their_codes(chat: Chat, address: Address) -> None:
    for said, code, words in [
        (chat("nope", "x"), 3, "No server answers to “nope”"),
        (chat("asleep", "x"), 1, "asleep is starting"),
        (chat("", "x"), 2, "are ready: tiny-qwen, twin"),
        (chat("tiny", given=" "), 2, "The question is empty"),
        (chat("tiny", "x", INFERDASH_KEY=address.looks), 4, "may only look"),
        (chat("tiny", "x", INFERDASH_KEY=address.narrow), 4, "This key may not use tiny"),
        (chat("tiny", scripted(status=400, error={"message": "too long"})), 2, "too long"),
        (chat("tiny", scripted(status=500, error={"detail": "no luck"})), 1, "no luck"),
        (chat("tiny", "x", "--loud"), 2, "unrecognized arguments: --loud"),
    ]:
        assert (said.returncode, said.stdout) == (code, ""), said.args
        assert words in said.stderr, said.stderr
        assert "Traceback" not in said.stderr


def test_an_answer_that_breaks_off_says_so_below_what_came(chat: Chat) -> None:
    for script, words in [
        (scripted({"content": "Yes"}, then="drop"), "tiny hung up in the middle"),
        (scripted({"content": "Yes"}, error={"message": "CUDA error"}), "CUDA error"),
        (scripted({"content": "Yes"}, then="end"), "was cut off"),
    ]:
        said = chat("tiny", script)
        assert (said.returncode, said.stdout) == (1, "Yes\n")
        assert words in said.stderr


def test_a_person_talks_stops_an_answer_and_goes_on(env: dict[str, str], address: Address) -> None:
    engine = address.engines[0]
    talk = TerminalProgram([*COMMAND, "tiny", "--system", "Be short."], env)
    talk.waits_for("tiny> ")

    def type_in(line: str) -> None:
        talk.types(f"{line}\r")

    type_in("hello")
    talk.waits_for(r"You said: hello")
    talk.waits_for(r"first token \d+\.\d\d s, [\d.]+ tok/s, 3 tokens for 7")

    type_in(scripted({"reasoning": "hm"}, {"content": "\x1b]0;mine\x07Slowly"}, then="hang"))
    talk.waits_for("\x1b\\[2mhm\x1b\\[0m\\s+]0;mineSlowly")
    talk.press_ctrl_c()
    talk.waits_for("stopped, first token")
    assert "\x1b]0;mine" not in talk.said

    type_in("and now?")
    talk.waits_for("You said: and now\\?")
    talk.waits_for("tiny> ", times=4)
    roles = [(each["role"], each["content"][:8]) for each in engine.requests[-1]["messages"]]
    assert roles[0] == ("system", "Be short")
    assert [role for role, _said in roles[1:]] == ["user", "assistant", "user", "assistant", "user"]
    assert roles[4][1] == "\x1b]0;mine"

    type_in(scripted(status=400, error={"message": "too long"}))
    talk.waits_for("too long")
    type_in("/new")
    talk.waits_for("Forgotten")
    type_in("anew")
    talk.waits_for("You said: anew")
    assert [each["role"] for each in engine.requests[-1]["messages"]] == ["system", "user"]
    talk.waits_for("tiny> ", times=7)
    talk.types("half a que")
    talk.waits_for("half a que")
    talk.rests()  # a Ctrl-C between the echo and the wait for another key waits for that key
    talk.press_ctrl_c()
    talk.waits_for("tiny> ", times=8)
    type_in("/quit")
    assert talk.ends() == 0


def test_ctrl_c_ends_a_single_question_at_the_engine_too(
    env: dict[str, str], address: Address
) -> None:
    while not address.engines[0].outcomes.empty():
        address.engines[0].outcomes.get()
    asked = TerminalProgram([*COMMAND, "tiny", scripted({"content": "Well"}, then="hang")], env)
    asked.waits_for("Well")
    asked.press_ctrl_c()
    assert asked.ends() == 130
    assert address.engines[0].outcomes.get(timeout=PATIENCE) == "cancelled"


def heard(*contents: str) -> list[tuple[str, str]]:
    """What an answer makes of these pieces of text."""
    lines = [
        b"data: " + json.dumps({"choices": [{"delta": {"content": text}}]}).encode() + b"\n"
        for text in contents
    ]
    return list(ChatAnswer().pieces([*lines, b"data: [DONE]\n"]))  # type: ignore[arg-type]


def test_reasoning_is_found_in_the_text_itself() -> None:
    assert heard("Plain", " <think>") == [(SPEAKS, "Plain"), (SPEAKS, " <think>")]
    assert heard("\n<thi", "nk>hm", " m</th", "ink>\n", "\nYes", "!") == [
        (THINKS, "hm"),
        (THINKS, " m"),
        (SPEAKS, "Yes"),
        (SPEAKS, "!"),
    ]
    assert heard("<think>a < b</thin", "g") == [(THINKS, "a < b"), (THINKS, "</thing")]
    assert heard("<thi") == [(SPEAKS, "<thi")]
    assert heard("<think>never ends</th") == [(THINKS, "never ends"), (THINKS, "</th")]
