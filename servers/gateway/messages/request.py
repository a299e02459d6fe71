"""A request of the Messages API as one of chat completions."""

import json
from collections.abc import Iterable, Iterator

from servers.gateway.callers import Refusal
from servers.gateway.messages.response import Json
from servers.launch.engines import SERVING, sampling

# What both APIs have, under the names that `sampling` knows.
_SAME = ("max_tokens", "temperature", "top_p", "top_k")
# What only Anthropic's own machines can do. Left out in silence it would be an answer to another
# question. All other fields that are not read here (cache_control, metadata, service_tier, …) ask for
# nothing that changes the answer.
_THEIRS = ("mcp_servers", "container")
# What Claude Code writes first into its system prompt. It differs from request to request, so that
# no engine would find the beginning of the conversation in its cache again.
_BILLING = "x-anthropic-billing-header:"


def translate_request(said: Json, engine: str) -> Json:
    """The body of a chat completion, of the same model. Raises Refusal for what chat cannot say."""
    for name in _THEIRS:
        if said.get(name):
            raise _refuse(f"{name} is a service of Anthropic’s and")
    if "max_tokens" not in said:
        raise _invalid("max_tokens: Field required")
    given: Json = {name: said[name] for name in _SAME if said.get(name) is not None}
    if stops := said.get("stop_sequences"):
        given["stop"] = stops
    if (thinking := _parse_thinking(said.get("thinking"))) and engine in SERVING:
        given["thinking"] = thinking
    given |= _tools(said)
    body: Json = {"messages": translate_messages(said)} | sampling.request(engine, given)
    if "model" in said:
        body["model"] = said["model"]
    if said.get("stream") is True:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body | _format(said)


def translate_count(said: Json) -> Json:
    """What /tokenize of vLLM counts: the prompt as the chat's template makes it. Raises Refusal."""
    body: Json = {"messages": translate_messages(said)}
    if "model" in said:
        body["model"] = said["model"]
    tools = _tools(said).get("tools")
    return body | ({"tools": tools} if tools else {})


def translate_messages(said: Json) -> list[Json]:
    """The conversation, with its system prompt first. Raises Refusal."""
    found: list[Json] = []
    system = _blocks(said.get("system") or [], "system")
    system = [block for block in system if not str(block.get("text")).startswith(_BILLING)]
    if text := _join(system, "system"):
        found.append({"role": "system", "content": text})
    messages = said.get("messages")
    if not isinstance(messages, list) or not messages:
        raise _invalid("messages: at least one message is required")
    for at, message in enumerate(messages):
        where = f"messages.{at}"
        if not isinstance(message, dict):
            raise _invalid(f"{where}: not an object")
        blocks = _blocks(message.get("content"), f"{where}.content")
        match message.get("role"):
            case "user":
                found += _user(blocks, where)
            case "assistant":
                found.append(_assistant(blocks, where))
            case "system":
                found.append({"role": "system", "content": _join(blocks, where)})
            case role:
                raise _invalid(f"{where}.role: {role!r:.60} is neither user nor assistant")
    return found


def _user(blocks: list[Json], where: str) -> Iterator[Json]:
    """Results of tools first, each a message of its own: engines want them right after the calls."""
    parts: list[Json] = []
    pictures: list[Json] = []
    for at, block in enumerate(blocks):
        if block.get("type") != "tool_result":
            parts.append(_part(block, f"{where}.content.{at}"))
            continue
        here = f"{where}.content.{at}"
        result = [_part(each, here) for each in _blocks(block.get("content") or [], here)]
        text = "\n".join(part["text"] for part in result if part["type"] == "text")
        # No engine's template shows a picture in a result: it follows as if the user had sent it.
        pictures += [part for part in result if part["type"] != "text"]
        if block.get("is_error") is True:
            text = f"Error: {text}"
        yield {
            "role": "tool",
            "tool_call_id": _text(block, "tool_use_id", here),
            "content": text,
        }
    if pictures or parts or not blocks:
        yield {"role": "user", "content": _content(pictures + parts)}


def _assistant(blocks: list[Json], where: str) -> Json:
    texts, thoughts, calls = [], [], []
    for at, block in enumerate(blocks):
        here = f"{where}.content.{at}"
        match block.get("type"):
            case "text":
                texts.append(_text(block, "text", here))
            case "thinking":
                thoughts.append(_text(block, "thinking", here))
            case "redacted_thinking":
                pass  # only Anthropic can read it
            case "tool_use":
                arguments = json.dumps(block.get("input") or {}, ensure_ascii=False)
                function = {"name": _text(block, "name", here), "arguments": arguments}
                calls.append(
                    {"id": _text(block, "id", here), "type": "function", "function": function}
                )
            case kind:
                raise _refuse(f"{here}: a block of type {kind!r:.60} is")
    # "" where there is none: templates read it as a text.
    message: Json = {"role": "assistant", "content": "".join(texts)}
    if thoughts:
        message["reasoning_content"] = "\n".join(thoughts)
    return message | ({"tool_calls": calls} if calls else {})


def _part(block: Json, where: str) -> Json:
    """A text, or a picture."""
    match block.get("type"):
        case "text":
            return {"type": "text", "text": _text(block, "text", where)}
        case "image":
            return {"type": "image_url", "image_url": {"url": _address(block, where)}}
        case "document" if _source(block, where).get("type") == "text":
            return {"type": "text", "text": _text(_source(block, where), "data", where)}
        case "search_result":
            texts = _join(_blocks(block.get("content") or [], where), where)
            heads = [
                block[name] for name in ("title", "source") if isinstance(block.get(name), str)
            ]
            return {"type": "text", "text": "\n".join([*heads, texts])}
        case kind:
            raise _refuse(f"{where}: a block of type {kind!r:.60} is")


def _address(block: Json, where: str) -> str:
    source = _source(block, where)
    match source.get("type"):
        case "base64":
            kind, data = _text(source, "media_type", where), _text(source, "data", where)
            return f"data:{kind};base64,{data}"
        case "url":
            return _text(source, "url", where)
        case kind:
            raise _refuse(f"{where}: a picture from {kind!r:.60} is")


def _source(block: Json, where: str) -> Json:
    source = block.get("source")
    if not isinstance(source, dict):
        raise _invalid(f"{where}.source: not an object")
    return source


def _content(parts: list[Json]) -> str | list[Json]:
    """As a text where that says all: some engines read nothing else."""
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def _tools(said: Json) -> Json:
    found: Json = {}
    tools = said.get("tools") or []
    if not isinstance(tools, list):
        raise _invalid("tools: not a list")
    if tools:
        found["tools"] = [_tool(tool, f"tools.{at}") for at, tool in enumerate(tools)]
    choice = said.get("tool_choice")
    if choice is None or not tools:
        return found
    if not isinstance(choice, dict):
        raise _invalid("tool_choice: not an object")
    match choice.get("type"):
        case "auto" | "none" as kind:
            found["tool_choice"] = kind
        case "any":
            found["tool_choice"] = "required"
        case "tool":
            function = {"name": _text(choice, "name", "tool_choice")}
            found["tool_choice"] = {"type": "function", "function": function}
        case kind:
            raise _invalid(f"tool_choice.type: {kind!r:.60} is not auto, any, tool or none")
    if choice.get("disable_parallel_tool_use") is True:
        found["parallel_tool_calls"] = False
    return found


def _tool(tool: object, where: str) -> Json:
    if not isinstance(tool, dict):
        raise _invalid(f"{where}: not an object")
    if tool.get("type") not in (None, "custom"):
        raise _refuse(f"{where}: the tool {tool['type']!r:.60} is")
    function: Json = {"name": _text(tool, "name", where)}
    if isinstance(description := tool.get("description"), str):
        function["description"] = description
    schema = tool.get("input_schema")
    if not isinstance(schema, dict):
        raise _invalid(f"{where}.input_schema: not an object")
    return {"type": "function", "function": function | {"parameters": schema}}


def _format(said: Json) -> Json:
    """The JSON schema that the answer must have; once it stood beside output_config."""
    config = said.get("output_config")
    wanted = config.get("format") if isinstance(config, dict) else said.get("output_format")
    if not isinstance(wanted, dict) or wanted.get("type") != "json_schema":
        return {}
    schema = {"name": "answer", "schema": wanted.get("schema"), "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def _parse_thinking(said: object) -> str:
    """ "on", "off", or "" where the model's own way is wanted."""
    kind = said.get("type") if isinstance(said, dict) else None
    return {"enabled": "on", "adaptive": "on", "disabled": "off"}.get(str(kind), "")


def _blocks(content: object, where: str) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    if not isinstance(content, list) or not all(isinstance(each, dict) for each in content):
        raise _invalid(f"{where}: neither a text nor a list of blocks")
    return content


def _join(blocks: Iterable[Json], where: str) -> str:
    return "\n".join(_text(block, "text", where) for block in blocks)


def _text(block: Json, name: str, where: str) -> str:
    if not isinstance(text := block.get(name), str):
        raise _invalid(f"{where}.{name}: a text is required")
    return text


def _invalid(message: str) -> Refusal:
    return Refusal(400, "invalid_messages", message)


def _refuse(what: str) -> Refusal:
    return Refusal(
        400,
        "not_translated",
        f"{what} not understood by this server’s engine, which speaks chat completions. Leave it out.",
    )
