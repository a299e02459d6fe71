import string
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from servers.launch import numbers
from servers.launch.engines import ENGINES
from servers.launch.engines.launch import Launch
from servers.launch.numbers import format_size, read_size
from servers.launch.recipes import notation
from servers.launch.recipes.document import (
    KEYS,
    Document,
    RecipeSource,
    read,
    write,
)
from servers.launch.recipes.notation import DocumentError
from tests.cases import table

LEAST = "name: a\nengine: vllm\nimage: vllm/vllm-openai:v0.20.2\ncheckpoint: Qwen/Qwen3-8B\n"

texts = st.text(max_size=40)
names = st.text(string.ascii_letters + string.digits + "_-", min_size=1, max_size=20)
flag_words = st.one_of(
    st.sampled_from(
        ["--tp", "-O2", "--max-model-len=8192", "-1", '{"a": 1}', "#", "a\\", "''", "x\ny"]
    ),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20),
)
volumes = st.sampled_from(["~/models:/models:ro", "kernels:/cache", "$HOME/x:/x", "/a b:/c"])
counts = st.integers(0, 65535)


def values(name: str, default: Any) -> SearchStrategy[Any]:
    """Values for a field of Launch, by what its default is."""
    if name == "engine":
        return st.sampled_from(sorted(ENGINES))
    if name == "image":
        return texts.filter(str.strip)
    if name == "flags":
        return st.lists(flag_words, max_size=6).map(tuple)
    if name == "volumes":
        return st.lists(volumes, max_size=3).map(tuple)
    if name == "ulimits":
        return st.dictionaries(names, st.integers(-1, 1 << 40), max_size=3)
    if name in ("shm_size", "free_memory"):
        return st.integers(0, 1 << 45)
    if name in ("log_must", "log_must_not"):
        return st.sampled_from([(), ("graph end",), ("# 50 %", 'it\'s: "so"')])
    if name == "digests":
        return st.sampled_from([{}, {"/t/a b.jinja": "ab" * 32, "/g.xml": "01" * 32}])
    if name == "parameters":
        return st.dictionaries(st.sampled_from(["model", "context"]), names, max_size=2)
    if name == "aliases":
        return st.lists(st.sampled_from(["gpt-4o", "team/coder", "é:1"]), unique=True).map(tuple)
    if name == "hold_requests":
        return st.integers(0, 3600)
    if name in ("restart_unhealthy", "ask_every", "stop_idle"):
        return st.just(0) | st.integers(60, 100_000)
    if name == "when_idle":
        return st.sampled_from(["", "sleep-1", "sleep-2"])
    if name == "restart":
        return st.sampled_from(["", "on-failure", "always"])
    if name == "ready_path":
        return st.sampled_from(["", "/health", "/warm?tokens=1"])
    if isinstance(default, bool):
        return st.booleans()
    if isinstance(default, int):
        return counts
    if isinstance(default, tuple):
        return st.lists(texts, max_size=4).map(tuple)
    if isinstance(default, dict):
        return st.dictionaries(names, texts, max_size=4)
    return texts


launches = st.builds(
    Launch,
    **{
        f.name: values(f.name, f.default_factory() if callable(f.default_factory) else f.default)
        for f in fields(Launch)
        if f.name != "secret_env"
    },
)
documents = st.builds(
    Document,
    name=texts.filter(str.strip),
    launch=launches,
    notes=texts,
    source=st.builds(RecipeSource, title=texts, url=texts.map("https://".__add__) | st.just("")),
    tags=st.lists(texts, max_size=3).map(tuple),
    boxes=st.integers(1, 4),
    secrets=st.lists(names.map("SECRET_".__add__), max_size=2, unique=True).map(tuple),
)


@given(documents)
def test_what_is_written_is_read_back(document: Document) -> None:
    assert read(write(document), where="a test") == document


@given(st.lists(flag_words, max_size=8).map(tuple))
def test_flags_survive_being_written(flags: tuple[str, ...]) -> None:
    assert notation.flags(notation.flags_text(flags)) == flags


@given(st.integers(0, 10**15 - 1))
def test_sizes_survive_being_written(count: int) -> None:
    assert read_size(format_size(count)) == count


@given(st.integers(0, 3_000_000))
def test_lengths_of_time_survive_being_written(seconds: int) -> None:
    assert numbers.read(numbers.format_duration(seconds)) == seconds


def test_every_field_of_a_launch_has_a_key() -> None:
    assert {f.name for f in fields(Launch)} - {"secret_env"} <= set(KEYS)
    for f in fields(Launch):
        default = f.default_factory() if callable(f.default_factory) else f.default
        # Another type would need a notation of its own.
        assert f.name in ("engine", "image", "checkpoint") or isinstance(
            default, (str, int, tuple, dict)
        )


def test_only_what_differs_from_the_defaults_is_written() -> None:
    assert write(read(LEAST, where="a test")) == LEAST


def test_a_profile_is_readable() -> None:
    document = Document(
        name="Qwen",
        notes="One.\nTwo.\n",
        launch=Launch(
            engine="vllm",
            image="vllm/vllm-openai:v0.20.2",
            checkpoint="Qwen/Qwen3-8B",
            flags=("--max-model-len", "8192", "--enforce-eager", "--stop", "a b"),
            shm_size=64 << 30,
            ulimits={"memlock": -1},
            gpus="0,1",
        ),
    )

    assert write(document) == (
        "name: Qwen\n"
        "notes: |\n  One.\n  Two.\n"
        "engine: vllm\n"
        "image: vllm/vllm-openai:v0.20.2\n"
        "checkpoint: Qwen/Qwen3-8B\n"
        "flags: |-\n  --max-model-len 8192\n  --enforce-eager\n  --stop 'a b'\n"
        "gpus: 0,1\n"
        "shm_size: 64g\n"
        "ulimits:\n  memlock: -1\n"
    )


def test_values_are_texts_as_written() -> None:
    read_env = read(
        LEAST + "env: {A: yes, B: 1e3, C: 010, D: True, E: }", where="a test"
    ).launch.env

    assert read_env == {"A": "yes", "B": "1e3", "C": "010", "D": "True", "E": ""}


def test_flags_may_have_remarks_backslashes_and_several_lines() -> None:
    text = (
        "flags: |\n  # two cards\n  --tp 2 \\\n  --config '{\"a\":\n  1}' \\\n  --name it\\'s # 1\n"
    )

    flags = read(LEAST + text, where="a test").launch.flags

    assert flags == ("--tp", "2", "--config", '{"a":\n1}', "--name", "it's")


def test_flags_may_be_a_list_of_words() -> None:
    assert read(LEAST + "flags: [--tp, '2', 'a b']", where="x").launch.flags == ("--tp", "2", "a b")


@table(
    ("text", "says"),
    [
        ("", "Nothing is written here"),
        ("- a\n", "line 1: Write `key: value` lines"),
        ("name: [a\n", "line 2: This is not YAML"),
        ("name: a\x00", "This is not YAML"),
        ("[" * 3000, "It goes more than 30 levels deep"),
        ("name: a\n---\nname: b\n", "This is not YAML"),
        ("name: a\n", "line 1: engine is missing. Add a line `engine: …`"),
        (LEAST + "name: b\n", "line 5: name: This key comes twice"),
        (LEAST + "flag: --tp 2\n", "line 5: flag: There is no such key. Did you mean flags?"),
        (LEAST + "flags: |\n  --a 'b\n  c\n", "line 5: flags: Line 1: a quotation mark"),
        (LEAST + "flags: {a: b}\n", "line 5: flags: Write a text here"),
        (LEAST + "env:\n  A=B: c\n", "line 6: A=B: “A=B” is not a name"),
        (LEAST + "env: --a\n", "line 5: env: Write `key: value` lines"),
        (LEAST + "env: {A: b}\nsecrets: [A]\n", "line 6: secrets: A has a value under env"),
        (LEAST + "secrets: A\n", "line 5: secrets: Write a list"),
        (LEAST + "boxes: 0\n", "line 5: boxes: It needs at least 1 box"),
        (LEAST + "port: 70000\n", "line 5: port: 70000 is not between 0 and 65535"),
        (LEAST + "ready_limit: 20\n", "line 5: ready_limit: “20” is not a length of time"),
        (LEAST + "ready_path: http://a/b\n", "line 5: ready_path: “http://a/b” is not a path"),
        (LEAST + "restart_unhealthy: 20s\n", "restart_unhealthy: “20s” is shorter than a minute"),
        (LEAST + "ask_every: '5'\n", "line 5: ask_every: “5” is not a length of time"),
        (LEAST + "when_idle: doze\n", "when_idle: “doze” is none of sleep-1, sleep-2, stop"),
        (LEAST + "stop_idle: 20s\n", "stop_idle: “20s” is shorter than a minute"),
        (LEAST + "hold_requests: 2h\n", "hold_requests: “2h” is longer than an hour"),
        (LEAST + "aliases: ['a b']\n", "aliases: “a b” is no name for a model"),
        (LEAST + "restart: often\n", "line 5: restart: “often” is none of never, on-failure"),
        (LEAST + f"log_must: [{'x' * 201}]\n", "line 5: log_must: “xxx"),
        (LEAST + 'log_must_not: ["a\\nb"]\n', "is not a text of one line with at most 200"),
        (LEAST + "parameters: {a-b: c}\n", "line 5: parameters: “a-b” is not a parameter’s name"),
        (LEAST + "digests: {/a: abc}\n", "line 5: /a: “abc” is not a SHA-256"),
        (LEAST + "grace: soon\n", "line 5: grace: “soon” is not a whole number"),
        (LEAST + "shm_size: lots\n", "line 5: shm_size: “lots” is not a size. Write 64g"),
        (LEAST + "privileged: 1\n", "line 5: privileged: “1” is neither true nor false"),
        (LEAST + "ulimits: {stack: big}\n", "line 5: stack: “big” is not a whole number"),
        (LEAST + "volumes: [models:models]\n", "line 5: volumes: .*must be an absolute path"),
        (LEAST + "source: {url: 'javascript:x'}\n", "line 5: url: Write an address"),
        (LEAST + "source: {titel: x}\n", "line 5: titel: There is no such key. Did you mean title"),
        (LEAST + "secret_env: {A: '1'}\n", "secret_env: There is no such key"),
        (LEAST.replace("vllm\n", "vlm\n"), "line 2: engine: “vlm” is not an engine. Did you mean vllm"),
        (LEAST.replace("name: a", "name: ' '"), "line 1: name: Write something here"),
        ("&a [*a]", "line 1"),
        ("x" * 300_000, "The text is longer than 100000 characters"),
    ],
)  # fmt: skip
def test_errors_say_line_key_and_what_to_do(text: str, says: str) -> None:
    with pytest.raises(DocumentError, match=f"^guide.yaml.*{says}|^{says}"):
        read(text, where="guide.yaml")


def test_values_of_secrets_do_not_travel() -> None:
    launch = Launch(engine="vllm", image="i", checkpoint="c", secret_env={"TOKEN": 7})

    with pytest.raises(ValueError, match="names secrets"):
        Document(name="a", launch=launch)
