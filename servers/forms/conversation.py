"""Chats, conversations and prompts as a browser sends them, within limits."""

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django import forms
from django.http import QueryDict

from servers.launch import numbers
from servers.launch.engines import sampling
from servers.models import PromptSet
from servers.models.gateway.conversation import MOST

type Message = dict[str, Any]

MESSAGES_LIMIT = 2000
CALLS_LIMIT = 64
PICTURES_LIMIT = 16  # of a conversation
PICTURE_LIMIT = 2 * 2**20  # characters of its address
# A whole request, whose pictures go with each question: just below inferdash.middleware, whose
# sentence says less.
CHAT_LIMIT = 8 * 2**20 - 2**16

# Nothing else: any other address would be opened by the engine, from inside.
_PICTURE = re.compile(r"data:image/(?:png|jpeg|webp|gif);base64,[A-Za-z0-9+/]+={0,2}")
_TEXTS = ("system", "user", "assistant", "tool")


class AskError(Exception):
    """The question cannot be sent; the text says why and what to change."""


def messages(said: Any) -> list[Message]:
    """What the engine is told, made anew of what is known. Raises AskError."""
    if not isinstance(said, list) or not said:
        raise AskError("There is no message to send. Write one, then send it.")
    if len(said) > MESSAGES_LIMIT:
        raise AskError(
            f"The conversation has {len(said)} messages, and {MESSAGES_LIMIT} is the limit. "
            "Start a new one."
        )
    made = [_message(each) for each in said]
    pictures = sum(_pictures(each) for each in made)
    if pictures > PICTURES_LIMIT:
        raise AskError(
            f"The conversation has {pictures} pictures, and {PICTURES_LIMIT} is the limit. "
            "Start a new one, or edit earlier messages."
        )
    return made


def _message(message: Any) -> Message:
    role = message.get("role") if isinstance(message, dict) else None
    if role not in _TEXTS:
        raise AskError(
            "A message must be the system's, the user's, the assistant's or a tool's. "
            "Start a new conversation."
        )
    made: Message = {"role": role, "content": _content(message.get("content"), role)}
    if role == "tool":
        made["tool_call_id"] = _text(message.get("tool_call_id"), "The result of a tool")
    if role == "assistant" and message.get("tool_calls") is not None:
        made["tool_calls"] = _calls(message["tool_calls"])
        if isinstance(thoughts := message.get("reasoning_content"), str):
            made["reasoning_content"] = thoughts
    return made


def _content(content: Any, role: str) -> str | list[Message]:
    if isinstance(content, str):
        return content
    if role != "user" or not isinstance(content, list) or not content:
        raise AskError("A message must have a text. Start a new conversation.")
    return [_part(part) for part in content]


def _part(part: Any) -> Message:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "text":
        return {"type": "text", "text": _text(part.get("text"), "A message")}
    if kind != "image_url":
        raise AskError("A message must have a text or pictures. Start a new conversation.")
    image = part.get("image_url")
    url = image.get("url") if isinstance(image, dict) else None
    if not isinstance(url, str) or len(url) > PICTURE_LIMIT or not _PICTURE.fullmatch(url):
        raise AskError(
            "A picture must be a PNG, JPEG, WebP or GIF within the message, of at most "
            f"{PICTURE_LIMIT // 2**20} MiB. Remove it, and add it again."
        )
    return {"type": "image_url", "image_url": {"url": url}}


def _calls(calls: Any) -> list[Message]:
    if not isinstance(calls, list) or not 0 < len(calls) <= CALLS_LIMIT:
        raise AskError("The calls of tools are no list. Regenerate the answer.")
    return [_call(call) for call in calls]


def _call(call: Any) -> Message:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        raise AskError("A call of a tool names no function. Regenerate the answer.")
    return {
        "id": _text(call.get("id"), "A call of a tool"),
        "type": "function",
        "function": {
            "name": _text(function.get("name"), "A call of a tool"),
            "arguments": _text(function.get("arguments"), "A call of a tool"),
        },
    }


def _text(value: Any, whose: str) -> str:
    if not isinstance(value, str):
        raise AskError(f"{whose} must have a text. Regenerate the answer, or start anew.")
    return value


def _pictures(message: Message) -> int:
    content = message["content"]
    if isinstance(content, str):
        return 0
    return sum(part["type"] == "image_url" for part in content)


# Bytes. One message with its pictures; one request, which inferdash.middleware bounds as well.
MESSAGE_LIMIT = 6 * 2**20
BODY_LIMIT = 8 * 2**20
AROUND_LIMIT = 256 * 2**10  # of parameters, tools and schema together
COLUMNS = 4  # of a comparison
# What browsers make: conversations by the time, revisions at random.
KEY = re.compile(r"[a-z0-9]{6,32}")
# As JSON writes it, and not the six characters themselves, before which stands one more backslash.
_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")


class KeepError(Exception):
    """It cannot be kept so; the text says why and what to change."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """One save: what has changed since the revisions that it names."""

    was: frozenset[str]  # any of them; empty: it is new
    revision: str
    name: str
    server: str
    comparison: str  # "": none
    column: int
    params: Any
    tools: Any
    schema: Any
    count: int  # messages that there are then
    messages: dict[int, dict[str, Any]]  # by place
    leaf: int | None  # place of the message that it is shown up to; None: the last
    updated: datetime | None  # of one that is older than this save


def read(text: bytes) -> Kept:
    """Raises KeepError."""
    if len(text) > BODY_LIMIT:
        raise KeepError(
            f"This is more than is kept in one go: {BODY_LIMIT >> 20} MiB. Remove pictures from it."
        )
    body = read_json(text)
    if not isinstance(body, dict):
        raise KeepError("This is no conversation. Reload the page.")
    around = {name: body.get(name) for name in ("params", "tools", "schema")}
    if len(json.dumps(around)) > AROUND_LIMIT:
        raise KeepError(
            f"Parameters, tools and schema are larger than {AROUND_LIMIT >> 10} KiB together. "
            "Shorten them."
        )
    was, count, messages = body.get("was"), body.get("count"), body.get("messages")
    comparison, column = body.get("comparison") or "", body.get("column") or 0
    if (
        not isinstance(was, list)
        or not all(_is_key(each) for each in was)
        or not _is_key(body.get("revision"))
        or not isinstance(count, int)
        or not isinstance(messages, dict)
        or not (comparison == "" or _is_key(comparison))
        or column not in range(COLUMNS)
    ):
        raise KeepError("This is no conversation. Reload the page.")
    if not 0 <= count <= MESSAGES_LIMIT:
        raise KeepError(
            f"The conversation has {count} messages, and {MESSAGES_LIMIT} is the limit. Start a "
            "new one."
        )
    return Kept(
        was=frozenset(was),
        revision=body["revision"],
        name=_line(body.get("name"), 80),
        server=_line(body.get("server"), 80),
        comparison=comparison,
        column=int(column),
        params=around["params"] or {},
        tools=around["tools"],
        schema=around["schema"],
        count=count,
        messages={
            _place(at, count): _find_parent(at, message(at, each)) for at, each in messages.items()
        },
        leaf=_leaf(body.get("leaf"), count),
        updated=_moment(body.get("updated")),
    )


def read_json(text: bytes) -> Any:
    try:
        # PostgreSQL keeps no NUL in JSON.
        said = _NUL.sub(rb"\1\\ufffd", text)
        return whole(json.loads(said, parse_constant=_refuse_constant))
    except (ValueError, RecursionError) as error:
        raise KeepError(f"The conversation is not JSON: {error}. Reload the page.") from error


def whole(said: Any) -> Any:
    """The same without halves of characters, as a browser makes of a text that it cuts: no database
    keeps those, and no engine reads them."""
    text = json.dumps(said, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.loads(text.encode(errors="replace"))
    return said


def _place(at: str, count: int) -> int:
    place = numbers.whole(at)
    if place is None or place >= count:
        raise KeepError("A message has no place in the conversation. Reload the page.")
    return place


def message(at: str, said: Any) -> dict[str, Any]:
    if not isinstance(said, dict):
        raise KeepError("A message is no object. Reload the page.")
    size = len(json.dumps(said, ensure_ascii=False).encode())
    if size > MESSAGE_LIMIT:
        raise KeepError(
            f"Message {int(at) + 1} is {size / 2**20:.1f} MiB large, and {MESSAGE_LIMIT >> 20} MiB is "
            "the limit. Remove pictures from it, or take smaller ones."
        )
    return said


def _find_parent(at: str, said: dict[str, Any]) -> dict[str, Any]:
    parent = said.get("parent", -1)
    if isinstance(parent, bool) or not isinstance(parent, int) or not -1 <= parent < int(at):
        raise KeepError("A message follows none that is before it. Reload the page.")
    return said


def _leaf(leaf: object, count: int) -> int | None:
    """Of a save in parts the first ones have less than it is shown of."""
    if isinstance(leaf, bool) or not isinstance(leaf, int):
        return None
    return leaf if 0 <= leaf < count else None


def _is_key(value: object) -> bool:
    return isinstance(value, str) and KEY.fullmatch(value) is not None


def _line(value: object, most: int) -> str:
    return value.replace("\0", "").strip()[:most] if isinstance(value, str) else ""


def _moment(value: object) -> datetime | None:
    """Of milliseconds, as browsers count; None where they are none, or not over yet."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    now = datetime.now(UTC)
    if not 0 < value / 1000 < now.timestamp():
        return None
    return datetime.fromtimestamp(value / 1000, UTC)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


LONGEST = 20_000  # characters of a prompt
PARAMS_LIMIT = 64 * 2**10  # bytes
SPARE = 2  # empty fields below those that are filled
FEWEST = 5  # fields of a new one


class PromptSetForm(forms.ModelForm):  # type: ignore[type-arg]
    """Its prompts come as one field each; the empty ones are left out."""

    class Meta:
        model = PromptSet
        fields = ("name",)

    def __init__(self, data: QueryDict | None = None, **more: Any) -> None:
        super().__init__(data, **more)
        given = data.getlist("prompt") if data is not None else self.instance.prompts
        self.prompts = [text.replace("\0", "").strip() for text in given if text.strip()]

    @property
    def rows(self) -> list[str]:
        """What the fields hold, with some that are empty."""
        count = max(FEWEST, len(self.prompts) + SPARE)
        return [*self.prompts, *[""] * (min(count, MOST) - len(self.prompts))]

    @property
    def seen(self) -> str:
        """Which save of the set its fields go by; whoever is told of a newer one goes by that."""
        return self.instance.saved_at.isoformat() if self.instance.pk else ""

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if self.seen and self.data.get("seen") != self.seen:
            by = self.instance.by or "Somebody"
            self.add_error(
                None,
                f"{by} has saved this set since you opened it: open it in another tab to see how. "
                "What you typed is still below; saving again replaces theirs.",
            )
        if not self.prompts:
            self.add_error(None, "Write at least one prompt.")
        if len(self.prompts) > MOST:
            self.add_error(None, f"These are {len(self.prompts)} prompts, and {MOST} is the limit.")
        for at, text in enumerate(self.prompts, 1):
            # Rounds of a set that was edited in between are laid together by what prompts say.
            if (first := self.prompts.index(text) + 1) < at:
                self.add_error(None, f"Prompt {at} is the same as prompt {first}. Change one.")
            if len(text) > LONGEST:
                said = f"Prompt {at} has {len(text)} characters, and {LONGEST} is the limit."
                self.add_error(None, said)
        return cleaned


@dataclass(frozen=True, kw_only=True)
class PromptRunForm:
    run_id: int
    params: dict[str, str]


def read_round(text: bytes) -> PromptRunForm:
    """What a round begins with. Raises KeepError."""
    said = read_json(text)
    run = said.get("run") if isinstance(said, dict) else None
    params = said.get("params") if isinstance(said, dict) else None
    if not isinstance(run, int) or isinstance(run, bool):
        raise KeepError("No server is chosen. Pick one that is ready.")
    if not isinstance(params, dict) or not all(isinstance(each, str) for each in params.values()):
        raise KeepError("These are no parameters. Reload the page.")
    if len(json.dumps(params)) > PARAMS_LIMIT:
        raise KeepError(f"The parameters are larger than {PARAMS_LIMIT >> 10} KiB. Shorten them.")
    return PromptRunForm(run_id=run, params=params)


def read_answer(text: bytes, place: int) -> dict[str, Any]:
    """Raises KeepError."""
    return message(str(place), read_json(text))


__all__ = ["MESSAGES_LIMIT", "PARAMETERS", "Ask", "AskError", "read_chat"]

# Other names are refused rather than passed on: engines take some that make them open
# addresses or files (SGLang's bootstrap_host, lora_path; vLLM's kv_transfer_params).
PARAMETERS = {
    *(parameter.name for parameter in sampling.PARAMETERS),
    *("typical_p", "logit_bias", "ignore_eos", "repeat_penalty", "top_logprobs"),
    *("max_completion_tokens", "stop_token_ids"),
    *("skip_special_tokens", "spaces_between_special_tokens"),
    *("tools", "tool_choice", "parallel_tool_calls", "response_format"),
    *("json_schema", "regex", "ebnf", "grammar", "structured_outputs"),
    "thinking_budget_tokens",
    *("include_reasoning", "separate_reasoning", "stream_reasoning"),
}


@dataclass(frozen=True, kw_only=True)
class Ask:
    run_id: int
    messages: list[Message]
    parameters: dict[str, Any]
    # Keys under which the answer goes on without its page; "": it ends with its page.
    conversation: str = ""
    answer: str = ""

    def build_request(self, model: str, engine: str = "") -> dict[str, Any]:
        """The request without its messages, in the words of this engine."""
        return {
            **sampling.request(engine, self.parameters),
            "model": model,
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    def body(self, model: str, engine: str = "") -> dict[str, Any]:
        """The OpenAI request for an engine that serves this model name."""
        return self.build_request(model, engine) | {"messages": self.messages}


def read_chat(text: bytes) -> Ask:
    """Raises AskError."""
    try:
        body = whole(json.loads(text, parse_constant=_refuse_constant))
    except (ValueError, RecursionError) as error:
        raise AskError(f"The request is not JSON: {error}. Reload the page.") from error
    run = body.get("run") if isinstance(body, dict) else None
    if not isinstance(run, int) or isinstance(run, bool) or run <= 0:
        raise AskError("The request names no server. Pick one at the top, then retry.")
    return Ask(
        run_id=run,
        messages=messages(body.get("messages")),
        parameters=_parameters(body.get("params", {})),
        conversation=_key(body.get("conversation", "")),
        answer=_key(body.get("answer", "")),
    )


def _key(value: Any) -> str:
    if value == "" or _is_key(value):
        return str(value)
    raise AskError("The request's key is none of ours. Reload the page, then retry.")


def _parameters(params: Any) -> dict[str, Any]:
    if not isinstance(params, dict):
        raise AskError("The parameters must be a JSON object, such as {“seed”: 1}.")
    given = {name: value for name, value in params.items() if value is not None}
    if unknown := sorted(set(given) - PARAMETERS):
        raise AskError(
            f"“{unknown[0]}” is not a parameter that the playground passes on. Remove it from "
            f"the extra parameters. Known ones: {', '.join(sorted(PARAMETERS))}."
        )
    if problem := sampling.problem(given):
        raise AskError(problem)
    tools = given.get("tools", [])
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise AskError("The tools must be a list of JSON objects. Correct them beside the chat.")
    return given
