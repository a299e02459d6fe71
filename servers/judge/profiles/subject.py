"""The subject of the lint, and its findings."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from servers.judge.memory.room import GpuRoom
from servers.launch.engines.change import LaunchChange
from servers.launch.engines.flaglist import FlagList
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
    yours: str = ""  # what the last start of the same profile that became ready says of it
