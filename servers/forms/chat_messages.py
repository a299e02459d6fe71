"""The messages of a chat as a browser sends them: texts, pictures, calls of tools, their results."""

import re
from typing import Any

type Message = dict[str, Any]

MESSAGES_LIMIT = 2000
CALLS_LIMIT = 64
PICTURES_LIMIT = 16  # of a conversation
PICTURE_LIMIT = 2 * 2**20  # characters of its address
# A whole request, whose pictures go with each question: just below inferdash.middleware, whose
# sentence says less.
BODY_LIMIT = 8 * 2**20 - 2**16

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
