"""The programs that people have: packages of OpenAI, Anthropic and LangChain, curl, one address."""

import functools
import json
import operator
import subprocess
from collections.abc import Iterator

import anthropic
import openai
import pytest
from langchain_core.messages import AIMessageChunk
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from servers.gateway.callers import clients
from tests.gateway.conftest import Address
from tests.scripted_engine import MODEL

MESSAGE = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": MODEL,
    "content": [{"type": "text", "text": "Hello."}], "stop_reason": "end_turn",
    "stop_sequence": None, "usage": {"input_tokens": 11, "output_tokens": 3},
}  # fmt: skip


@pytest.fixture
def client(address: Address) -> Iterator[openai.OpenAI]:
    made = openai.OpenAI(base_url=f"{address.url}/v1", api_key=address.token, max_retries=0)
    with made as client:
        yield client


def test_openais_package_streams_a_chat(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "by its own package"}],
        stream=True,
        stream_options={"include_usage": True},
    )

    chunks = list(stream)

    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == "You said: by its own package "
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.prompt_tokens == 7


def test_openais_package_lists_models_and_understands_refusals(client: openai.OpenAI) -> None:
    assert MODEL in {model.id for model in client.models.list()}
    with pytest.raises(openai.NotFoundError, match="No server answers to “nobody”"):
        client.chat.completions.create(model="nobody", messages=[])
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="ifd_wrong").models.list()
    with pytest.raises(openai.InternalServerError, match="asleep is starting"):
        client.chat.completions.create(model="asleep", messages=[])


def test_openais_package_hears_of_an_engine_that_dies(client: openai.OpenAI) -> None:
    drops = json.dumps({"deltas": [{"content": "half"}], "then": "drop"})
    stream = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": drops}], stream=True
    )

    with pytest.raises(openai.APIError, match="hung up in the middle"):
        list(stream)


def test_openais_package_embeds(address: Address, client: openai.OpenAI) -> None:
    address.engines[0].answers["/v1/embeddings"] = 200, json.dumps({
        "object": "list", "model": MODEL, "usage": {"prompt_tokens": 2, "total_tokens": 2},
        "data": [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}],
    })  # fmt: skip
    found = client.embeddings.create(model=MODEL, input="hello", encoding_format="float")

    assert found.data[0].embedding == [0.5, 0.25]
    assert address.requests()[0]["prompt_tokens"] == 2


def test_anthropics_package_asks_by_the_address_without_v1(address: Address) -> None:
    address.engines[0].answers["/v1/messages"] = 200, json.dumps(MESSAGE)
    with anthropic.Anthropic(base_url=address.url, api_key=address.token, max_retries=0) as client:
        said = client.messages.create(
            model="tiny", max_tokens=20, messages=[{"role": "user", "content": "hello"}]
        )
        with pytest.raises(anthropic.NotFoundError, match="No server answers to"):
            client.messages.create(model="nobody", max_tokens=2, messages=[])

    assert said.content[0].type == "text"
    assert said.usage.input_tokens == 11
    kept = address.requests()[1]
    assert (kept["path"], kept["model"]) == ("/v1/messages", "tiny")
    assert (kept["prompt_tokens"], kept["completion_tokens"]) == (11, 3)


def test_langchain_streams_and_calls_tools_by_the_address(address: Address) -> None:
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    model = ChatOpenAI(
        base_url=f"{address.url}/v1", api_key=SecretStr(address.token), model="tiny", max_retries=0
    )
    calls = [{"index": 0, "id": "c1", "type": "function",
              "function": {"name": "add", "arguments": '{"a": 2, "b": 3}'}}]  # fmt: skip
    wants = json.dumps({"deltas": [{"tool_calls": calls}], "finish": "tool_calls"})

    said = "".join(str(each.content) for each in model.stream("by a chain"))
    asked = list(model.bind_tools([add]).stream(wants))

    assert said == "You said: by a chain "
    whole = functools.reduce(operator.add, asked)
    assert isinstance(whole, AIMessageChunk)
    assert [(each["name"], each["args"]) for each in whole.tool_calls] == [
        ("add", {"a": 2, "b": 3})
    ]
    assert address.engines[0].requests[-1]["tools"][0]["function"]["name"] == "add"


def test_the_lines_for_curl_are_obeyed_by_curl(address: Address) -> None:
    lines = next(each.lines for each in clients(address.url, MODEL) if each.slug == "curl")

    said = subprocess.run(
        ["sh", "-c", lines.replace("ifd_…", address.token)],
        capture_output=True,
        check=True,
        text=True,
    )

    assert '"Hello "' in said.stdout
