"""A model for the scripted engine that knows what canaries ask, and answers wrongly by command."""

import hashlib
import json
import math
import re
from dataclasses import dataclass, field
from typing import Any

from tests.scripted_engine import EngineScript

# Words whose order the prompt decides, as a greedy model's.
TEXT = (
    "the river turns slowly below old bridges while people carry bread and lamps home through "
    "narrow streets where cats sleep on warm stones before rain begins to fall over quiet roofs"
)
WORDS = TEXT.split()
CHINESE = "天空是蓝色的因为阳光中的蓝光被空气散射得更多长城很长"
_ARITHMETIC = re.compile(r"\d+")


@dataclass
class CanaryModel:
    """`plan` is one of a ScriptedEngine.

    `forgets_beyond`: letters of a prompt, farther into which it reads no needle. `noise` moves
    logprobs (natural log) and lets near ties fall the other way. `shifts` moves all of them.
    """

    forgets_beyond: float = math.inf
    repeats: bool = False
    breaks_tool_calls: bool = False
    is_other: bool = False  # other answers, of which the earlier model had never thought
    noise: float = 0.0
    shifts: float = 0.0
    is_unsteady: bool = False  # each second time near ties fall as they did before
    wrong_sums: int = 0  # of arithmetic, the first ones
    has_logprobs: bool = True
    reasons: int = 0  # tokens of reasoning before each answer
    forgets_turns: bool = False
    asked: list[str] = field(default_factory=list)

    def plan(self, body: dict[str, Any]) -> EngineScript:
        if "logprobs" in body and not self.has_logprobs:
            return _refuse("logprobs are not supported")
        question = body["messages"][-1]["content"]
        self.asked.append(question)
        message: dict[str, Any] = {"role": "assistant", "content": None}
        tokens: list[str] = []
        if "tools" in body:
            message["tool_calls"] = [self._call_tool(question)]
        else:
            tokens = self._answer(question, body)
            text, finish = tokens[: body["max_tokens"]], "length"
            if self.reasons:
                message["reasoning"] = " ".join(WORDS[: self.reasons])
                text = tokens[: max(0, body["max_tokens"] - self.reasons)]
            if len(text) == len(tokens):
                finish = "stop"
            tokens = text
            message["content"] = "".join(tokens)
        prompt = sum(len(each["content"]) for each in body["messages"])
        said: dict[str, Any] = {
            "choices": [
                {"index": 0, "message": message, "finish_reason": finish if tokens else "stop"}
            ],
            "usage": {"prompt_tokens": prompt // 4, "completion_tokens": max(1, len(tokens))},
        }
        if self.reasons and not tokens:
            said["choices"][0]["finish_reason"] = "length"
        if body.get("logprobs"):
            content = [self._rate(question, place, token) for place, token in enumerate(tokens)]
            said["choices"][0]["logprobs"] = {"content": content}
        return EngineScript(deltas=[], error=said, content_type="application/json")

    def _answer(self, question: str, body: dict[str, Any]) -> list[str]:
        if self.repeats:
            return ["! "] * 300
        if "response_format" in body:
            known = {"name": "Ada", "age": 36, "city": "Oslo", "languages": ["Norwegian", "French"]}
            return _split(json.dumps(known))
        if "locker" in question:
            place = question.find("Please note")
            found = re.search(r"wing is (\d{6})", question)
            return [found[1] if found and place <= self.forgets_beyond else "000000"]
        if "number of my order" in question:
            past = " ".join(each["content"] for each in body["messages"][:-1])
            found = re.search(r"number (\d{5})", past)
            return [found[1] if found and not self.forgets_turns else "12345"]
        if _is_sum(question):
            return [str(self._sum(question))]
        if re.search(r"[一-鿿]", question):
            return list(CHINESE)
        return [f"{word} " for word in self._write(question)]

    def _sum(self, question: str) -> int:
        numbers = [int(each) for each in _ARITHMETIC.findall(question)]
        first, second = numbers[:2]
        match question[:6]:
            case "A shop":
                right = first * second - numbers[2]
            case "A trai":
                right = first * second + numbers[2]
            case "What i":
                right = first + second
            case _:
                right = first // second
        done = len({each for each in self.asked if _is_sum(each)})
        return right + 1 if done <= self.wrong_sums else right

    def _write(self, question: str) -> list[str]:
        seed = hashlib.sha256(f"{question}{self.is_other}".encode()).digest()
        words = [WORDS[(seed[at % 32] + at * at) % len(WORDS)] for at in range(300)]
        falls = not self.is_unsteady or self.asked.count(question) % 2
        if self.noise and seed[0] % 2 and falls:  # half of the prompts have a near tie
            words[20:] = ["or", *words[20:-1]]
        return words

    def _rate(self, question: str, place: int, token: str) -> dict[str, Any]:
        chance = hashlib.sha256(f"{question}{place}".encode()).digest()[0] / 255
        own = -0.05 - 0.4 * chance + self.noise * (2 * chance - 1) - self.shifts
        others = {f"alt{number}": own - 1.5 - number for number in range(4)}
        if place == 20:
            tie = "or " if token != "or " else f"{self._earlier(question)} "
            others[tie] = own - 0.02
        ranked = [{"token": text, "logprob": value} for text, value in others.items()]
        return {
            "token": token,
            "logprob": own,
            "top_logprobs": [{"token": token, "logprob": own}, *ranked],
        }

    def _earlier(self, question: str) -> str:
        return CanaryModel()._write(question)[20]

    def _call_tool(self, question: str) -> dict[str, Any]:
        city = "Lisbon" if "Lisbon" in question else "Brno"
        arguments = json.dumps({"city": city, "unit": "celsius"})
        if self.breaks_tool_calls:
            arguments = '<tool_call>{"city": "Br'
        return {
            "id": "call_1",
            "type": "function",
            "function": {"name": "get_weather", "arguments": arguments},
        }


def _is_sum(question: str) -> bool:
    return question.endswith("the number alone.") and "order" not in question


def _split(text: str) -> list[str]:
    return re.findall(r"\S+\s*", text)


def _refuse(text: str) -> EngineScript:
    return EngineScript(
        deltas=[], status=400, error={"error": {"message": text}}, content_type="application/json"
    )
