"""Parsers of tool calls and reasoning that a model's format needs, by engine.

As the engines' own lists of parsers name them; a model that is not known here is nobody's guess.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

type Kind = Literal["tools", "reasoning"]

FLAGS: dict[Kind, str] = {"tools": "--tool-call-parser", "reasoning": "--reasoning-parser"}


@dataclass(frozen=True, kw_only=True)
class ParserFamily:
    """Parsers by engine. An empty table: models of this family need none, or none is known."""

    pattern: str
    tools: Mapping[str, str] = field(default_factory=dict)
    reasoning: Mapping[str, str] = field(default_factory=dict)

    def get_names(self, kind: Kind) -> Mapping[str, str]:
        return self.tools if kind == "tools" else self.reasoning


def _both(vllm: str, sglang: str = "") -> dict[str, str]:
    return {"vllm": vllm, "sglang": sglang or vllm}


# The first that fits counts: the particular ones before the general.
FAMILIES = (
    ParserFamily(
        pattern=r"qwen3\.[5-9]|qwen3_5|qwen3-?next.*thinking",
        tools=_both("qwen3_coder"),
        reasoning=_both("qwen3"),
    ),
    ParserFamily(pattern=r"qwen3-coder", tools=_both("qwen3_coder")),
    ParserFamily(pattern=r"qwen3.*instruct", tools=_both("hermes", "qwen25")),
    ParserFamily(pattern=r"qwen-?3", tools=_both("hermes", "qwen25"), reasoning=_both("qwen3")),
    ParserFamily(
        pattern=r"qwq", tools=_both("hermes"), reasoning=_both("deepseek_r1", "deepseek-r1")
    ),
    ParserFamily(pattern=r"qwen", tools=_both("hermes", "qwen25")),
    ParserFamily(
        pattern=r"deepseek-?v4",
        tools=_both("deepseek_v4", "deepseekv4"),
        reasoning=_both("deepseek_v4", "deepseek-v4"),
    ),
    ParserFamily(
        pattern=r"deepseek-?v3\.2",
        tools=_both("deepseek_v32", "deepseekv32"),
        reasoning=_both("deepseek_v3", "deepseek-v3"),
    ),
    ParserFamily(
        pattern=r"deepseek-?v3\.1",
        tools=_both("deepseek_v31", "deepseekv31"),
        reasoning=_both("deepseek_v3", "deepseek-v3"),
    ),
    ParserFamily(
        pattern=r"deepseek-?r1",
        tools=_both("deepseek_v3", "deepseekv3"),
        reasoning=_both("deepseek_r1", "deepseek-r1"),
    ),
    ParserFamily(pattern=r"deepseek-?v3", tools=_both("deepseek_v3", "deepseekv3")),
    ParserFamily(pattern=r"glm-?(5|4\.7)", tools=_both("glm47"), reasoning=_both("glm45")),
    ParserFamily(pattern=r"glm-?4\.[56]", tools=_both("glm45"), reasoning=_both("glm45")),
    ParserFamily(pattern=r"kimi-?k2", tools=_both("kimi_k2"), reasoning=_both("kimi_k2")),
    ParserFamily(
        pattern=r"minimax-?m2",
        tools=_both("minimax_m2", "minimax-m2"),
        reasoning=_both("minimax_m2", "minimax"),
    ),
    ParserFamily(
        pattern=r"gpt-?oss",
        tools=_both("openai", "gpt-oss"),
        reasoning=_both("openai_gptoss", "gpt-oss"),
    ),
    ParserFamily(
        pattern=r"nemotron-?3",
        tools=_both("qwen3_coder"),
        reasoning=_both("nemotron_v3", "nemotron_3"),
    ),
    ParserFamily(pattern=r"llama-?4", tools=_both("llama4_pythonic", "pythonic")),
    ParserFamily(pattern=r"llama-?3", tools=_both("llama3_json", "llama3")),
    ParserFamily(pattern=r"magistral", tools=_both("mistral"), reasoning=_both("mistral")),
    ParserFamily(pattern=r"mi[ns]i?stral|devstral|mixtral", tools=_both("mistral")),
    ParserFamily(pattern=r"gemma-?4", tools=_both("gemma4"), reasoning=_both("gemma4")),
    ParserFamily(pattern=r"seed-?oss", tools={"vllm": "seed_oss"}, reasoning={"vllm": "seed_oss"}),
    ParserFamily(pattern=r"mimo", tools=_both("mimo"), reasoning=_both("mimo")),
)


def parser(engine: str, kind: Kind, model: str) -> str:
    """The parser's name for this engine; "" where none is known. `model` names its family."""
    for family in FAMILIES:
        if re.search(family.pattern, model.lower()):
            return family.get_names(kind).get(engine, "")
    return ""
