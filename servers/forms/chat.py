"""What the playground may ask of an engine: messages and a list of known parameters."""

import json
import math
from dataclasses import dataclass
from typing import Any

ROLES = ("system", "user", "assistant")
MESSAGES_LIMIT = 2000

# Other names are refused rather than passed on: engines take some that make them open
# addresses or files (SGLang's bootstrap_host, lora_path; vLLM's kv_transfer_params).
PARAMETERS = {
    *("temperature", "top_p", "top_k", "min_p", "typical_p", "seed", "logit_bias", "ignore_eos"),
    *("max_tokens", "max_completion_tokens", "min_tokens", "stop", "stop_token_ids"),
    *("presence_penalty", "frequency_penalty", "repetition_penalty", "repeat_penalty"),
    *("skip_special_tokens", "spaces_between_special_tokens"),
    *("tools", "tool_choice", "parallel_tool_calls", "response_format"),
    *("json_schema", "regex", "ebnf", "grammar", "structured_outputs"),
    *("chat_template_kwargs", "reasoning_effort", "thinking_budget_tokens"),
    *("include_reasoning", "separate_reasoning", "stream_reasoning"),
}
# name: lowest, highest, what it is called in the page
RANGES = {
    "temperature": (0.0, 2.0, "Temperature"),
    "top_p": (0.0, 1.0, "Top-p"),
}
COUNTS = {"max_tokens": "Max tokens", "max_completion_tokens": "Max completion tokens"}


class AskError(Exception):
    """The question cannot be sent; the text says why and what to change."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    run_id: int
    messages: list[dict[str, str]]
    parameters: dict[str, Any]

    def body(self, model: str) -> dict[str, Any]:
        """The OpenAI request for an engine that serves this model name."""
        return {
            **self.parameters,
            "model": model,
            "messages": self.messages,
            "stream": True,
            "stream_options": {"include_usage": True},
        }


def read(text: bytes) -> Ask:
    """Raises AskError."""
    try:
        body = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise AskError(f"The request is not JSON: {error}. Reload the page.") from error
    if not isinstance(body, dict) or not _is_count(body.get("run")):
        raise AskError("The request names no server. Pick one at the top, then retry.")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise AskError("There is no message to send. Write one, then send it.")
    if len(messages) > MESSAGES_LIMIT:
        raise AskError(
            f"The conversation has {len(messages)} messages, and {MESSAGES_LIMIT} is the limit. "
            "Start a new one."
        )
    return Ask(
        run_id=body["run"],
        messages=[_message(message) for message in messages],
        parameters=_parameters(body.get("params", {})),
    )


def _message(message: Any) -> dict[str, str]:
    # Only texts: a picture's address would be opened by the engine, from inside.
    if (
        not isinstance(message, dict)
        or message.get("role") not in ROLES
        or not isinstance(message.get("content"), str)
    ):
        raise AskError(
            "A message must have a text and be the system's, the user's or the assistant's. "
            "Start a new conversation."
        )
    return {"role": message["role"], "content": message["content"]}


def _parameters(params: Any) -> dict[str, Any]:
    if not isinstance(params, dict):
        raise AskError("The parameters must be a JSON object, such as {“seed”: 1}.")
    given = {name: value for name, value in params.items() if value is not None}
    if unknown := sorted(set(given) - PARAMETERS):
        raise AskError(
            f"“{unknown[0]}” is not a parameter that the playground passes on. Remove it from "
            f"the extra parameters. Known ones: {', '.join(sorted(PARAMETERS))}."
        )
    for name, (low, high, title) in RANGES.items():
        value = given.get(name, low)
        if not _is_number(value) or not low <= value <= high:
            raise AskError(f"{title} must be a number from {low:g} to {high:g}, not {value!r}.")
    for name, title in COUNTS.items():
        if name in given and not _is_count(given[name]):
            raise AskError(f"{title} must be a whole number above 0, not {given[name]!r}.")
    return given


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")
