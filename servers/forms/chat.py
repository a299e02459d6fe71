"""A chat request of the playground: messages and a list of known parameters."""

import json
from dataclasses import dataclass
from typing import Any

from servers.forms.chat_messages import MESSAGES_LIMIT, AskError, Message, messages
from servers.forms.conversation import KEY, whole
from servers.launch.engines import sampling

__all__ = ["MESSAGES_LIMIT", "PARAMETERS", "Ask", "AskError", "read"]

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


def read(text: bytes) -> Ask:
    """Raises AskError."""
    try:
        body = whole(json.loads(text, parse_constant=_refuse_constant))
    except (ValueError, RecursionError) as error:
        raise AskError(f"The request is not JSON: {error}. Reload the page.") from error
    if not isinstance(body, dict) or not _is_count(body.get("run")):
        raise AskError("The request names no server. Pick one at the top, then retry.")
    return Ask(
        run_id=body["run"],
        messages=messages(body.get("messages")),
        parameters=_parameters(body.get("params", {})),
        conversation=_key(body.get("conversation", "")),
        answer=_key(body.get("answer", "")),
    )


def _key(value: Any) -> str:
    if isinstance(value, str) and (not value or KEY.fullmatch(value)):
        return value
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


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")
