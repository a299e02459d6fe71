"""A launch's words as its engine will understand them: what the rules of the lint look at."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from servers.judge.memory.pools import GpuRoom
from servers.launch.engines import ENGINES, placement
from servers.launch.engines.change import LaunchChange, split_flags
from servers.launch.engines.flaglist import (
    Flag,
    FlagList,
    Release,
    all_shipped,
    load_shipped,
    of_image,
    read_release,
)
from servers.launch.engines.launch import Launch

type Severity = Literal["error", "warning", "info"]
type BoxKind = Literal["discrete", "unified", "numa", ""]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")


@dataclass(frozen=True, kw_only=True)
class TargetGpu:
    index: int
    name: str
    compute_capability: str  # "12.0"; "" when the driver does not tell
    memory: int | None  # bytes


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A launch and what is known around it. None and "" mean "not known", never "none there"."""

    launch: Launch
    engine_version: str = ""  # as the image was asked; "": what its tag says
    gpus: tuple[TargetGpu, ...] | None = None  # every GPU of the box
    box_kind: BoxKind = ""
    nodes: int = 1  # machines that this launch spans
    flaglist: FlagList | None = None  # of exactly this image; None: the shipped one, if any
    checkpoint_config: Mapping[str, Any] | None = None  # its config.json
    driver: str = ""  # the box's NVIDIA driver, "580.126.09"
    others: tuple[str, ...] | None = None  # what else holds GPU memory on the box, by name
    weights: int | None = None  # bytes of the checkpoint's weights
    rooms: tuple[GpuRoom, ...] | None = None  # what each GPU has for it now


@dataclass(frozen=True, kw_only=True)
class RuleSource:
    """Where a rule was published."""

    title: str
    url: str = ""


@dataclass(frozen=True, kw_only=True)
class LintFinding:
    rule: str
    severity: Severity
    says: str
    # What on the form it stands beside: a flag as typed, a variable, or a field of Launch;
    # "flags" and "env" for what is missing there.
    about: str
    fix: LaunchChange | None = None
    sources: tuple[RuleSource, ...] = ()
    # What is not known and would decide: "the engine's version", "the GPUs". Such a finding
    # is never an error.
    unknown: tuple[str, ...] = ()
    code: str = ""  # of the message, with what it was filled in with
    params: Mapping[str, Any] = field(default_factory=dict, compare=False)
    yours: str = ""  # what the last start of the same profile that became ready says of it


# Whose values no sentence repeats.
SECRET_FLAGS = ("--api-key", "--admin-api-key", "--hf-token", "-hft")

# A value that is still to be filled in: $TP, ${TP}, <your token>.
_BLANK = re.compile(r"\$\{?\w|<[^<>]+>")


@dataclass(frozen=True, kw_only=True)
class TypedFlags:
    """A flag as it stands in the launch. `name` is the spelled-out one where it is known."""

    word: str
    name: str
    values: tuple[str, ...]
    flag: Flag | None
    is_part: bool = False  # one key of a JSON value: --compilation-config.mode
    nth: int = 0  # of those that are typed alike

    @property
    def value(self) -> str:
        return " ".join(self.values)


class LaunchFacts:
    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.launch: Launch = subject.launch
        self.engine = subject.launch.engine

    @cached_property
    def version_text(self) -> str:
        return self.subject.engine_version or of_image(self.engine, self.launch.image)

    @cached_property
    def version(self) -> Release | None:
        return read_release(self.version_text)

    @cached_property
    def flaglist(self) -> FlagList | None:
        return self.subject.flaglist or load_shipped(self.engine, self.version_text)

    @cached_property
    def known_env(self) -> frozenset[str] | None:
        """The variables that this version reads; an image's --help does not tell them."""
        for flags in (self.flaglist, load_shipped(self.engine, self.version_text)):
            if flags is not None and flags.env is not None:
                return flags.env
        return None

    @cached_property
    def _lists(self) -> tuple[FlagList, ...]:
        """Where names are looked up: this version's list, else every one that there is."""
        return (self.flaglist,) if self.flaglist else all_shipped(self.engine)

    def resolve_spelling(self, word: str) -> tuple[str, Flag | None]:
        """The flag that a word means, and the name that stands for it or for its opposite."""
        found = [(flags, flag) for flags in self._lists if (flag := flags.find(word))]
        # An older version's own name comes before what a newer one would take it to begin.
        found.sort(key=lambda each: not each[0].is_spelled_out(word))
        for flags, flag in found:
            is_off = flags.is_off(flags.matches(word)[0])
            return (flag.off[0] if is_off else flag.name), flag
        return word.replace("_", "-") if word.startswith("--") else word, None

    @cached_property
    def typed(self) -> tuple[TypedFlags, ...]:
        found = []
        seen = Counter[str]()
        for word, values in split_flags(self.launch.flags):
            if not word:
                continue
            if self.engine == "vllm" and re.fullmatch(r"-O\d", word):
                values = (word[2:],)
            name, flag = self.resolve_spelling(word)
            is_part = self.engine == "vllm" and "." in word
            if is_part:
                values = (f"{word.split('.', 1)[1]}={' '.join(values)}",)
            found.append(
                TypedFlags(
                    word=word,
                    name=name,
                    values=values,
                    flag=flag,
                    is_part=is_part,
                    nth=seen[word],
                )
            )
            seen[word] += 1
        return tuple(found)

    def all_typed(self, name: str) -> list[TypedFlags]:
        spelled = self.resolve_spelling(name)[0]
        return [each for each in self.typed if each.name in (spelled, name)]

    def flag(self, name: str) -> TypedFlags | None:
        """The last one counts, as for the engines."""
        found = self.all_typed(name)
        return found[-1] if found else None

    def number(self, name: str, default: int = 1) -> int | None:
        """A flag's whole number; None when what stands there is none."""
        typed = self.flag(name)
        if typed is None:
            return default
        return int(typed.value) if re.fullmatch(r"[0-9]{1,9}", typed.value) else None

    @cached_property
    def env(self) -> dict[str, str | None]:
        """The variables that the engine will see; None: the value is a secret."""
        secret: dict[str, str | None] = dict.fromkeys(self.launch.secret_env)
        return ENGINES[self.engine].env | self.launch.env | secret

    @cached_property
    def tp(self) -> int | None:
        return self.number("--tensor-parallel-size")

    @cached_property
    def pp(self) -> int | None:
        return self.number("--pipeline-parallel-size")

    @cached_property
    def dp(self) -> int | None:
        return self.number("--data-parallel-size")

    @cached_property
    def ep(self) -> int | None:
        if self.engine == "vllm":
            return self.tp if self.flag("--enable-expert-parallel") else 1
        return self.number("--expert-parallel-size")

    @cached_property
    def nodes(self) -> int | None:
        """Machines; None when Ray decides."""
        said = self.number("--nnodes", default=self.subject.nodes)
        backend = self.flag("--distributed-executor-backend")
        if backend is not None and backend.value == "ray" and said == 1:
            return None
        return None if said is None else max(said, self.subject.nodes)

    @cached_property
    def used_gpus(self) -> tuple[TargetGpu, ...] | None:
        """The GPUs that the container gets and the engine sees; None when not known."""
        gpus = self.subject.gpus
        if self.launch.gpus == "none":
            return ()
        if gpus is None:
            return None
        if which := placement.parse_gpu_requirement(self.launch.gpus):
            fitting = (gpu for gpu in gpus if which.fits((gpu.name, gpu.compute_capability)))
            gpus = tuple(fitting)[: which.count]
        elif self.launch.gpus != "all":
            wanted = self.gpu_indices or ()
            gpus = tuple(gpu for gpu in gpus if gpu.index in wanted)
        return self._visible(gpus)

    @cached_property
    def weights_share(self) -> float | None:
        """The part of the smallest GPU that the weights take of it; None where that is not known."""
        weights, nodes = self.subject.weights, self.nodes
        memory = [gpu.memory for gpu in self.used_gpus or () if gpu.memory]
        if not weights or not memory or not nodes or not self.tp or not self.pp:
            return None
        return weights / (self.tp * self.pp) / min(memory)

    @cached_property
    def gpu_indices(self) -> tuple[int, ...] | None:
        """What the launch names; None for "all", "none" and for what is no index."""
        if not re.fullmatch(r"[0-9]{1,4}(,[0-9]{1,4})*", self.launch.gpus.replace(" ", "")):
            return None
        return tuple(int(each) for each in self.launch.gpus.split(","))

    @cached_property
    def gpu_count(self) -> int | None:
        if self.used_gpus is not None:
            return len(self.used_gpus)
        if which := placement.parse_gpu_requirement(self.launch.gpus):
            return which.count
        named = self.gpu_indices
        if named is None and (visible := self._visible_indices) is not None:
            return len(visible)
        return None if named is None else len(named)

    @cached_property
    def _visible_indices(self) -> tuple[int, ...] | None:
        said = self.env.get("CUDA_VISIBLE_DEVICES")
        if not said or not re.fullmatch(r"[0-9]{1,4}(,[0-9]{1,4})*", said):
            return None
        return tuple(map(int, said.split(",")))

    def _visible(self, gpus: tuple[TargetGpu, ...]) -> tuple[TargetGpu, ...]:
        """Inside the container GPUs are counted anew, from 0."""
        visible = self._visible_indices
        if visible is None:
            return gpus
        return tuple(gpus[at] for at in visible if at < len(gpus))

    @cached_property
    def model_text(self) -> str:
        """Everything that names the model; a path alone often does not."""
        config = self.subject.checkpoint_config or {}
        quantization = config.get("quantization_config")
        if not isinstance(quantization, Mapping):
            quantization = {}
        named = self.flag("--served-model-name")
        parts = (
            self.launch.checkpoint,
            self.launch.served_name,
            named.value if named else "",
            config.get("model_type"),
            config.get("architectures"),
            quantization.get("quant_method"),
            quantization.get("quant_algo"),
        )
        return " ".join(str(part) for part in parts if part)


def is_blank(text: str) -> bool:
    """Whether a value is not decided yet: a shell variable or a placeholder."""
    return bool(_BLANK.search(text))


def is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
