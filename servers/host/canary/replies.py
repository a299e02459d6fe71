"""Questions of a canary as they are sent to an engine, and its replies in full."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self


@dataclass(frozen=True, kw_only=True)
class CanaryQuestion:
    """`extra` goes into the body besides: tools, response_format. `top` is how many of the most
    likely tokens are to be told for each; 0: no logprobs are wanted."""

    messages: tuple[Mapping[str, str], ...]
    most_tokens: int
    extra: Mapping[str, Any]
    top: int = 0

    def build_body(self, model: str) -> dict[str, Any]:
        """Greedy and without reasoning, where a chat template has a switch for it."""
        logprobs = {"logprobs": True, "top_logprobs": self.top} if self.top else {}
        return {
            "model": model,
            "messages": [dict(each) for each in self.messages],
            "max_tokens": self.most_tokens,
            "temperature": 0,
            "seed": 0,
            "stream": False,
            # Names of the switch differ by model; templates ignore those that they do not know.
            "chat_template_kwargs": {"enable_thinking": False, "thinking": False},
            **logprobs,
            **self.extra,
        }


@dataclass(frozen=True, kw_only=True)
class ReplyToken:
    """`others`: the most likely tokens in its place, with itself, by their logprobs (natural log)."""

    text: str
    logprob: float
    others: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class CanaryReply:
    """`tokens` is empty where the engine tells no logprobs. Counts are the engine's own, None where
    it tells none. `error` is why there is no answer, "" otherwise; `status` its HTTP status."""

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[tuple[str, str], ...] = ()  # name, arguments as JSON
    finish: str = ""
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    seconds: float = 0.0
    tokens: tuple[ReplyToken, ...] = ()
    error: str = ""
    status: int | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Self:
        calls = tuple((name, arguments) for name, arguments in said["tool_calls"])
        tokens = tuple(ReplyToken(**each) for each in said["tokens"])
        return cls(**{**said, "tool_calls": calls, "tokens": tokens})


def read_completion(said: Any, seconds: float) -> CanaryReply:
    """A chat completion in OpenAI's form. Raises ValueError for what is none."""
    choices = said.get("choices") if isinstance(said, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise ValueError("It is no chat completion.")
    usage = said.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return CanaryReply(
        text=_read_text(message.get("content")),
        reasoning=_read_text(message.get("reasoning") or message.get("reasoning_content")),
        tool_calls=tuple(_read_calls(message.get("tool_calls"))),
        finish=_read_text(choice.get("finish_reason")),
        prompt_tokens=_read_count(usage.get("prompt_tokens")),
        output_tokens=_read_count(usage.get("completion_tokens")),
        seconds=seconds,
        tokens=tuple(_read_tokens(choice.get("logprobs"))),
    )


def read_stream(said: bytes, seconds: float) -> CanaryReply:
    """A chat completion in pieces, as server-sent events, put together as programs do it.

    Raises ValueError for what is none. Source: the description of streaming in OpenAI's API.
    """
    texts = {"content": "", "reasoning": "", "reasoning_content": ""}
    calls: dict[int, dict[str, str]] = {}
    finish, usage, has_choices = "", None, False
    for line in said.decode(errors="replace").splitlines():
        data = line.removeprefix("data:").strip()
        if not line.startswith("data:") or data == "[DONE]":
            continue
        event = json.loads(data)
        if not isinstance(event, dict):
            raise ValueError("It is no chat completion.")
        if event.get("error"):
            return CanaryReply(error="an error came in the middle of the answer", seconds=seconds)
        usage = event.get("usage") or usage
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        delta = choice.get("delta") if isinstance(choice, dict) else None
        if not isinstance(choice, dict) or not isinstance(delta, dict):
            continue
        has_choices = True
        finish = _read_text(choice.get("finish_reason")) or finish
        for name in texts:
            texts[name] += _read_text(delta.get(name))
        for number, call in enumerate(delta.get("tool_calls") or []):
            if isinstance(call, dict) and isinstance(function := call.get("function"), dict):
                place = _read_count(call.get("index"))
                known = calls.setdefault(
                    number if place is None else place, {"name": "", "arguments": ""}
                )
                for name in known:
                    known[name] += _read_text(function.get(name))
    if not has_choices:
        raise ValueError("It is no chat completion.")
    message = {**texts, "tool_calls": [{"function": calls[place]} for place in sorted(calls)]}
    choice = {"message": message, "finish_reason": finish}
    return read_completion({"choices": [choice], "usage": usage}, seconds)


def _read_calls(said: Any) -> list[tuple[str, str]]:
    found = []
    for each in said if isinstance(said, list) else []:
        function = each.get("function") if isinstance(each, dict) else None
        if isinstance(function, dict):
            found.append((_read_text(function.get("name")), _read_text(function.get("arguments"))))
    return found


def _read_tokens(said: Any) -> list[ReplyToken]:
    content = said.get("content") if isinstance(said, dict) else None
    found = []
    for each in content if isinstance(content, list) else []:
        if not isinstance(each, dict) or not isinstance(each.get("logprob"), int | float):
            return []  # half of them would put each of the others in a wrong place
        top = each.get("top_logprobs")
        others = {
            _read_text(other.get("token")): round(other["logprob"], 4)
            for other in (top if isinstance(top, list) else [])
            if isinstance(other, dict) and isinstance(other.get("logprob"), int | float)
        }
        text, logprob = _read_text(each.get("token")), round(each["logprob"], 4)
        found.append(ReplyToken(text=text, logprob=logprob, others={**others, text: logprob}))
    return found


def _read_text(said: Any) -> str:
    return said if isinstance(said, str) else ""


def _read_count(said: Any) -> int | None:
    return said if isinstance(said, int) and said >= 0 else None
