"""The catalogues of messages: every code used, every parameter given, every sentence short."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from servers.judge import messages
from servers.judge.messages import Message, MessageError, load_messages, parse_messages, say
from tests.cases import table

JUDGE = Path(messages.__file__).parent
SERVERS = JUDGE.parent
ROOMS = sorted(path.parent.name for path in JUDGE.glob("*/messages.yaml"))
EVERY = [message for room in ROOMS for message in load_messages(room).values()]

LONGEST = 240
# docs/glossary.md has the words that stand for these.
NEVER = re.compile(
    r"\b(somebody|nobody|whoever|told|tells?|heard|knows? of|came of it|given back|left behind"
    r"|(to|by|for) who|no more of it|foreign|stock|shelf|outlets?|strangers?)\b",
    re.IGNORECASE,
)
# What an engine says is none of our sentences.
QUOTED = re.compile(r"“[^”]*”")
ENDS = re.compile(r"[.?!](?= |$)")


def calls() -> Iterator[tuple[str, ast.Call]]:
    """Where messages are said: file and line, and the call."""
    for path in sorted(SERVERS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "say":
                yield f"{path.relative_to(SERVERS)}:{node.lineno}", node


def texts(message: Message) -> list[str]:
    return [text for text in (message.title, message.says, message.advice) if text]


@pytest.fixture(scope="module")
def source() -> str:
    tables = (path for path in JUDGE.rglob("*.yaml") if not path.name.endswith("messages.yaml"))
    return "\n".join(path.read_text() for path in (*SERVERS.rglob("*.py"), *tables))


@table("message", EVERY, ids=lambda message: message.id, shared=("source",))
def test_each_message_is_used(message: Message, source: str) -> None:
    assert re.search(rf"['\"]{re.escape(message.id)}['\"]", source)


def test_each_call_names_a_message_and_gives_its_parameters() -> None:
    known = {message.id: message for message in EVERY}
    found = 0
    for where, call in calls():
        code = call.args[0]
        if not isinstance(code, ast.Constant):
            continue  # one of several: their parameters are the same, or it raises when it is said
        message = known[str(code.value)]
        given = {each.arg for each in call.keywords}
        assert given <= message.parameters | {None}, where
        assert None in given or given == message.parameters, where
        found += 1
    assert found > 50


@table("message", EVERY, ids=lambda message: message.id)
def test_a_sentence_is_short_and_plain(message: Message) -> None:
    for text in texts(message):
        assert len(text) <= LONGEST, text
        assert len(ENDS.findall(QUOTED.sub("“”", text))) <= 2, text
        assert not NEVER.search(text), text


def sentences(said: object) -> Iterator[str]:
    """Every text of more than four words in what a YAML file says."""
    if isinstance(said, dict):
        said = list(said.values())
    if isinstance(said, list):
        for each in said:
            yield from sentences(each)
    elif isinstance(said, str) and len(said.split()) > 4:
        yield said


@table("path", sorted(JUDGE.glob("**/*.yaml")), ids=lambda path: str(path.relative_to(JUDGE)))
def test_what_rules_and_failures_say_is_plain(path: Path) -> None:
    found = [each for each in sentences(yaml.safe_load(path.read_text())) if NEVER.search(each)]
    assert found == []


def test_parameters_are_filled_in() -> None:
    said = Message(
        id="runs.x", severity="error", says="{name} takes {size:gib} GiB.", advice="Stop {name}."
    ).format(name="glm", size=3 * 2**30)
    assert (said.text, said.advice) == ("glm takes 3.0 GiB.", "Stop glm.")
    assert (said.code, said.severity) == ("runs.x", "error")
    assert said.params == {"name": "glm", "size": 3 * 2**30}


@pytest.mark.parametrize("given", [{}, {"name": "glm", "other": 1}])
def test_what_is_missing_or_too_much_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(MessageError, match=r"runs\.x"):
        Message(id="runs.x", says="{name}").format(**given)


@pytest.mark.parametrize(
    "text",
    [
        "[{id: runs.x, says: a}, {id: runs.x, says: b}]",
        "[{id: memory.x, says: a}]",
        "[{id: runs.x, says: a, remedy: b}]",
    ],
)
def test_an_odd_catalogue_is_refused(text: str) -> None:
    with pytest.raises(MessageError):
        parse_messages("runs", text)


def test_an_unknown_message_is_refused() -> None:
    with pytest.raises(MessageError, match=r"profiles\.none"):
        say("profiles.none")
