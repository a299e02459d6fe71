"""The script of a simulated start: what the engine logs, when, and how it ends."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from servers.launch.tables import load_yaml

GIB = 2**30


@dataclass(frozen=True, kw_only=True)
class DemoModel:
    """What the demo knows of a checkpoint, per GPU of one that it fits on alone (sample.yaml)."""

    weights: float  # GiB of all of it
    kv: float = 0.00012  # GiB a token of context
    architecture: str = "Qwen3ForCausalLM"
    speed: float = 95.0  # tokens a second of one request
    longest: int = 131072
    rate: float = 0.0  # requests a second on a steady hour
    box: str = ""  # in whose cache it is when the demo begins
    config: dict[str, Any] = field(default_factory=dict)  # of its config.json


SAMPLE: dict[str, Any] = load_yaml(Path(__file__).with_name("sample.yaml").read_text())
LINES: dict[str, Any] = load_yaml(Path(__file__).with_name("start.yaml").read_text())
_SIZE = re.compile(r"(\d+(?:\.\d+)?)[bB]\b")


def find_model(name: str) -> DemoModel:
    """What is known of a checkpoint; of another one a guess by the size in its name."""
    if name in SAMPLE["models"]:
        return DemoModel(**SAMPLE["models"][name])
    sizes = [float(size) for size in _SIZE.findall(name)]
    return DemoModel(weights=max(1.0, max(sizes, default=8.0) * 1.9))


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a command line asks of an engine."""

    engine: Literal["vllm", "sglang", "llamacpp"]
    model: str
    served: str
    port: int
    ranks: int
    context: int | None
    share: float  # of each GPU's memory
    kv_factor: float = 1.0  # a half with --kv-cache-dtype fp8


@dataclass(frozen=True, kw_only=True)
class LogLine:
    text: str
    stream: Literal["o", "e"] = "o"


@dataclass(frozen=True, kw_only=True)
class ScriptPause:
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Load:
    """Each GPU holds so many bytes from now on, got to within so many seconds."""

    size: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Exit:
    code: int


type Step = LogLine | ScriptPause | Load | Exit


def play_start(settings: Settings, memory: int, *, seconds: float) -> Iterator[Step]:
    """The steps of a start on GPUs of so many bytes, in about so many seconds."""
    if settings.engine == "vllm":
        return _vllm(settings, memory, seconds)
    return _other(settings, memory, seconds)


class _StartLog:
    """What an engine logs of a start, by the sections of start.yaml."""

    def __init__(self, settings: Settings, part: float) -> None:
        self._sections = LINES[settings.engine]
        self._part = part  # seconds
        self._ranks = settings.ranks
        self._is_vllm = settings.engine == "vllm"
        self.core = "EngineCore pid=271" if self._ranks == 1 else "Worker_TP0 pid=412"
        self._values: dict[str, Any] = {
            "model": settings.model,
            "architecture": find_model(settings.model).architecture,
            "ranks": self._ranks,
            "port": settings.port,
            "core": self.core,
        }

    def say(self, section: str, **more: Any) -> Iterator[Step]:
        """`more`: figures for this section and those that follow."""
        self._values |= more
        for line in self._sections[section]:
            for who, told in line.items():
                yield from self._say(who, told)

    def _say(self, who: str, told: Any) -> Iterator[Step]:
        now = f"{datetime.now():%Y-%m-%d %H:%M:%S}"
        match who:
            case "pause":
                yield ScriptPause(seconds=told * self._part)
            case "each":
                for rank in range(self._ranks):
                    for text in told:
                        said = text.format(**self._values, rank=rank, now=now)
                        yield LogLine(text=self._sign(self._name(rank), said))
            case "api" | "core" | "several":
                name = "APIServer pid=1" if who == "api" else self.core
                if who != "several" or self._ranks > 1:
                    yield LogLine(text=self._sign(name, told.format(**self._values)))
            case "die":
                yield from self._die(told.format(**self._values))
            case _:
                said = told.format(**self._values, now=now)
                yield LogLine(text=said, stream="e" if who == "err" else "o")

    def _name(self, rank: int) -> str:
        return self.core if self._ranks == 1 else f"Worker_TP{rank} pid={412 + rank}"

    def _sign(self, name: str, text: str, level: str = "INFO") -> str:
        return f"({name}) {level} {_stamp()} {text}" if self._is_vllm else text

    def _die(self, text: str) -> Iterator[Step]:
        for line in (*self._sections["trace"], f"ValueError: {text}"):
            signed = self._sign(self.core, f"[core.py:1108] {line}", "ERROR")
            yield LogLine(text=signed, stream="e")
        yield ScriptPause(seconds=0.6)
        yield LogLine(text=self._sections["last"], stream="e")
        yield Exit(code=1)


def _stamp() -> str:
    return datetime.now().strftime("%m-%d %H:%M:%S")


def _vllm(settings: Settings, memory: int, seconds: float) -> Iterator[Step]:
    model, ranks, part = find_model(settings.model), settings.ranks, seconds / 12
    log = _StartLog(settings, part)
    context = settings.context or model.longest
    yield from log.say("begin", context=context, part=part)
    weights = model.weights / ranks
    shards = max(2, min(24, round(model.weights / 4.5)))
    for done in range(shards + 1):
        share = done / shards
        yield Load(size=int((0.6 + weights * share) * GIB), seconds=5 * part / shards)
        if done:
            yield ScriptPause(seconds=4.6 * part / shards)
        passed, left = (round(4.6 * part * each) for each in (share, 1 - share))
        pace = shards / 4.6 / part
        figures = {"share": share, "done": done, "passed": passed, "left": left, "pace": pace}
        yield from log.say("shard", shards=shards, **figures)
    took = {"weights": 4.6, "model": 4.8, "dynamo": 0.4, "compile": 1.2, "init": 3.4}
    took = {f"{name}_took": parts * part for name, parts in took.items()}
    yield from log.say("loaded", weights=weights, **took)
    free = memory / GIB * settings.share - weights - 3.4
    needed = context * model.kv / ranks * settings.kv_factor
    if free <= 0:
        yield from log.say("no_memory")
        return
    yield from log.say("memory", free=free)
    if needed > free:
        yield from log.say("too_long", needed=needed, fits=int(free / needed * context) // 16 * 16)
        return
    tokens = int(free / (model.kv / ranks * settings.kv_factor))
    yield from log.say("cache", tokens=tokens, concurrency=tokens / context)
    yield Load(size=int(memory * settings.share), seconds=part / 2)
    for done in range(0, 52, 3):
        yield from log.say(
            "graph",
            share=done / 51,
            bar="█" * (done // 5),
            done=done,
            passed=done / 17,
            left=3 - done / 17,
        )
        yield ScriptPause(seconds=part / 14)
    yield from log.say("end")


def _other(settings: Settings, memory: int, seconds: float) -> Iterator[Step]:
    """SGLang's and llama.cpp's, shorter."""
    model, part = find_model(settings.model), seconds / 10
    weights = model.weights / settings.ranks
    log = _StartLog(settings, part)
    yield from log.say("begin", memory=memory / GIB, weights=weights)
    if settings.engine == "llamacpp":
        yield Load(size=int(weights * GIB), seconds=7 * part)
        yield from log.say("loading")
        return
    yield Load(size=int(weights * GIB), seconds=5 * part)
    for done in range(0, 11):
        yield from log.say("shard", share=done / 10, done=done, passed=done // 3)
    yield from log.say("loaded", left=memory / GIB - weights)
    yield Load(size=int(memory * settings.share), seconds=part)
    yield from log.say("end", graph_took=2 * part)
