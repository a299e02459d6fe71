"""What Open WebUI asked the gateway, as it is kept for tests/gateway: one request of each kind."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.clients.open_webui import VERSION
from tests.clients.recorder import RecordedRequest

FILE = Path(__file__).parents[1] / "gateway" / "open_webui.json"
# The key is the test's own, and where it asks is, too.
OWN = frozenset(("authorization", "host", "content-length", "connection"))
ITS_WORDS = "…"  # for its prompts and descriptions, which are not ours to copy
SAID = 100  # characters; nothing is longer that the walk types


@dataclass(frozen=True, kw_only=True)
class ClientRecording:
    client: str
    requests: dict[str, dict[str, Any]]

    @classmethod
    def of(cls, asked: Iterable[RecordedRequest]) -> Self:
        found: dict[str, dict[str, Any]] = {}
        for each in asked:
            if (kind := _kind(each)) and kind not in found:
                headers = {name: text for name, text in each.headers.items() if name not in OWN}
                found[kind] = {
                    "method": each.method,
                    "path": each.path,
                    "headers": headers,
                    "body": _ours(each.body),
                }
        return cls(client=f"Open WebUI {VERSION}", requests=dict(sorted(found.items())))

    @classmethod
    def kept(cls) -> Self:
        return cls(**json.loads(FILE.read_text()))

    @property
    def text(self) -> str:
        return json.dumps(vars(self), indent=1, ensure_ascii=False) + "\n"


def shape(request: dict[str, Any]) -> dict[str, Any]:
    """What of a request is the same each time."""
    body = request["body"] or {}
    last = body.get("messages", [{}])[-1]
    return {
        "asks": (request["method"], request["path"]),
        "headers": sorted(request["headers"]),
        "body": sorted(body),
        "last message": {name: type(value).__name__ for name, value in last.items()},
    }


def _kind(asked: RecordedRequest) -> str | None:
    """None: it tells nothing new."""
    if asked.body is None:
        return asked.path.rpartition("/")[2]
    body, messages = asked.body, asked.body.get("messages", [])
    if not body.get("stream"):
        return "title" if "max_tokens" in body else "after an answer"
    if messages[-1]["role"] == "tool":
        return "result of a tool"
    if isinstance(messages[-1]["content"], list):
        return "picture"
    return "chat" if len(messages) == 1 else None


def _ours(value: Any, name: str = "") -> Any:
    match value:
        case dict():
            return {key: _ours(each, key) for key, each in value.items() if key != "description"}
        case list():
            # Of some dozens of tools of its own.
            return [_ours(each) for each in (value[:2] if name == "tools" else value)]
        case str() if name in ("content", "text") and (len(value) > SAID or "\n" in value):
            return ITS_WORDS
    return value
