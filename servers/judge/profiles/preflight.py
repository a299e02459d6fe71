"""Preflight: what a start needs beside what the lint looks at.

Nothing is an error while what decides it is not known; that is said, too.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from servers.judge.images.names import find_needed_cuda, first_for, satisfies
from servers.judge.messages import Sentence, say
from servers.judge.profiles.conditions import ON
from servers.judge.profiles.facts import LaunchFacts, Subject
from servers.judge.weights.fit.result import Estimate
from servers.launch.engines import ENGINES, placement
from servers.launch.engines.launch import Launch

GIB = 2**30

type Level = Literal["ok", "error", "warning", "unknown"]
LEVELS: tuple[Level, ...] = ("error", "warning", "unknown", "ok")
WORDS: dict[Level, str] = {
    "error": "error", "warning": "warning", "unknown": "unknown", "ok": "passed",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PreflightItem:
    id: str
    title: str
    level: Level
    says: str
    remedy: str = ""
    code: str = ""  # of the message, with what it was filled in with
    params: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def level_word(self) -> str:
        return WORDS[self.level]


@dataclass(frozen=True, kw_only=True)
class OtherWorkload:
    """Another server that runs on the box, or is about to."""

    name: str
    gpus: frozenset[int] | None  # None: not known which
    ports: frozenset[int]
    is_loading: bool  # its engine has not become ready yet


@dataclass(frozen=True, kw_only=True)
class ClockOffset:
    """How far a box's clock is ahead of the one that all boxes compare theirs with."""

    ahead: float  # seconds; negative: behind
    within: float  # seconds that the comparison may be off


@dataclass(frozen=True, kw_only=True)
class StartContext:
    """What is known around a start. None and missing keys mean "not known"."""

    box: str
    is_silent: bool = False
    # As models.Supplies keeps them.
    found: Mapping[str, Any] = field(default_factory=dict)
    images: Mapping[str, Any] = field(default_factory=dict)
    other_workloads: tuple[OtherWorkload, ...] = ()
    port_holders: Mapping[int, str] = field(default_factory=dict)  # other people's, by the port
    own_ports: frozenset[int] = frozenset()  # of the run that this start replaces
    checkpoint: Literal["there", "part", "missing", "unknown"] = "unknown"
    missing: int | None = None  # bytes that are still to be downloaded
    remote: str = ""  # what the Hub says of one that is missing: "open", "refused", "gone"
    refusals: tuple[str, ...] = ()  # why the box's limits forbid its container
    has_cache: bool | None = None  # the box has a Hugging Face cache to mount
    has_token: bool = False  # the engine is given one of Hugging Face
    was_refused: bool = False  # an earlier run for want of a token, or of a licence
    clocks: Mapping[str, ClockOffset | None] = field(
        default_factory=dict
    )  # of this box and all others


def item(id: str, said: Sentence) -> PreflightItem:
    return PreflightItem(
        id=id,
        title=said.title,
        level=cast(Level, said.severity),
        says=said.text,
        remedy=said.advice,
        code=said.code,
        params=said.params,
    )


# What an engine's image takes unpacked, at most, and what Docker needs to make a container.
IMAGE_SIZE, LITTLE = 40 * GIB, 2 * GIB
LEAST_SHM = GIB
_OF_HUB = re.compile(r"[\w.-]+/[\w.-]+")


def rooms(facts: LaunchFacts, around: StartContext) -> Iterator[PreflightItem]:
    disks = around.found.get("disks") or {}
    pulls = around.images.get(facts.launch.image, ...) is None
    if (images := disks.get("images")) is not None:
        least = IMAGE_SIZE if pulls else LITTLE
        yield _room("image-disk", "Docker's disk", images, least, "the image" if pulls else "")
    if around.has_cache is False and _needs_cache(facts.launch):
        yield item("weights-lost", say("profiles.weights-lost", box=around.box))
    cache = disks.get("cache")
    if (
        cache is not None
        and around.checkpoint in ("part", "missing")
        and facts.launch.mount_hf_cache
    ):
        path, free, missing = cache["path"], cache["free"], around.missing
        if missing and missing > free:
            said = say("profiles.model-disk-full", missing=missing, path=path, free=free)
            yield item("weights-disk", said)
        else:
            yield _room("weights-disk", "Model disk", cache, missing or IMAGE_SIZE, "weights")


def _needs_cache(launch: Launch) -> bool:
    """Whether it has a model of the Hub downloaded to where only the box's cache would keep it."""
    is_of_hub = bool(_OF_HUB.fullmatch(launch.checkpoint))
    return launch.mount_hf_cache and is_of_hub and "huggingface" not in " ".join(launch.volumes)


def _room(id: str, title: str, disk: Mapping[str, Any], least: int, what: str) -> PreflightItem:
    known = {"disk": title, "path": disk["path"], "free": disk["free"]}
    if disk["free"] >= least:
        return item(id, say("profiles.disk-enough", **known))
    if what:
        return item(id, say("profiles.disk-little", **known, what=what, least=least))
    return item(id, say("profiles.disk-little-for-containers", **known))


def shared_memory(facts: LaunchFacts, around: StartContext) -> Iterator[PreflightItem]:
    shm = (around.found.get("disks") or {}).get("shm")
    if facts.launch.ipc != "host" or shm is None or facts.engine == "llamacpp":
        return
    if shm["free"] < LEAST_SHM:
        yield item("shm", say("profiles.shm-little", free=shm["free"], total=shm["total"]))
    else:
        yield item("shm", say("profiles.shm-enough", free=shm["free"]))


# Seconds. Ours, no engine names one: NTP keeps machines of one network within milliseconds, so a
# second says that it does not run, and puts the lines of two logs in the wrong order.
APART = 1.0


def clocks(facts: LaunchFacts, around: StartContext) -> Iterator[PreflightItem]:
    """One item, for a start over several boxes, or where this box is off by itself."""
    told = {box: clock for box, clock in around.clocks.items() if clock is not None}
    own = told.get(around.box)
    if (facts.nodes or 1) > 1 and len(around.clocks) > 1:
        yield _compare_clocks(told, [box for box in around.clocks if box not in told])
    elif own is not None and _is_off(own):
        yield item("clock", say("profiles.clock-off", box=around.box, off=_off(own)))


def _compare_clocks(told: dict[str, ClockOffset], silent: list[str]) -> PreflightItem:
    if silent:
        return item("clock", say("profiles.clocks-unknown", boxes=", ".join(silent)))
    first, last = (pick(told, key=lambda box: told[box].ahead) for pick in (min, max))
    apart = told[last].ahead - told[first].ahead
    if apart <= APART + told[first].within + told[last].within:
        return item("clock", say("profiles.clocks-agree", boxes=", ".join(told)))
    return item(
        "clock", say("profiles.clocks-apart", last=last, apart=_seconds(apart), first=first)
    )


def _is_off(clock: ClockOffset) -> bool:
    return abs(clock.ahead) > APART + clock.within


def _off(clock: ClockOffset) -> str:
    return f"{_seconds(abs(clock.ahead))} {'ahead of' if clock.ahead > 0 else 'behind'}"


def _seconds(count: float) -> str:
    return f"{count:.1f} s" if count < 120 else f"{count / 60:.0f} min"


def checkpoint(facts: LaunchFacts, around: StartContext) -> Iterator[PreflightItem]:
    offline = (facts.env.get("HF_HUB_OFFLINE") or "").casefold() in ON
    known = {"checkpoint": facts.launch.checkpoint, "box": around.box}
    if around.checkpoint == "there":
        said = say("profiles.checkpoint-there", **known)
    elif around.checkpoint == "unknown":
        said = say("profiles.checkpoint-unknown", **known)
    elif facts.launch.checkpoint.startswith("/"):
        said = say("profiles.checkpoint-no-path", **known)
    elif offline:
        said = say("profiles.checkpoint-offline", **known)
    elif around.remote == "gone":
        seen_by = "the box's token" if around.has_token else "requests without a token"
        said = say("profiles.checkpoint-gone", **known, seen_by=seen_by)
    else:
        size = f", {around.missing / GIB:.1f} GiB" if around.missing else ""
        is_part = around.checkpoint == "part"
        code = "profiles.checkpoint-partly-there" if is_part else "profiles.checkpoint-downloaded"
        said = say(code, **known, size=size)
    yield item("checkpoint", said)


def check_token(facts: LaunchFacts, around: StartContext) -> Iterator[PreflightItem]:
    if around.checkpoint == "there":
        return
    checkpoint = facts.launch.checkpoint
    if around.remote == "expired" and around.has_token:
        yield item("token", say("profiles.token-expired"))
    elif around.remote == "refused":
        has, lacks = "profiles.token-without-licence", "profiles.token-needed-for-licence"
        yield item("token", say(has if around.has_token else lacks, checkpoint=checkpoint))
    elif around.was_refused:
        has, lacks = "profiles.token-refused-before", "profiles.token-missing"
        yield item("token", say(has if around.has_token else lacks, checkpoint=checkpoint))


_MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "amd64": "amd64", "arm64": "arm64"}


def preflight(subject: Subject, around: StartContext, fit: Estimate | None) -> list[PreflightItem]:
    """Every check with what it found, the worst first. `subject` has its parameters filled in."""
    facts = LaunchFacts(subject)
    checks = [each for each in _CHECKS if facts.launch.serves_models or each not in _OF_MODELS]
    found = [each for check in checks for each in check(facts, around)]
    found += list(_memory(fit))
    return sorted(found, key=lambda each: LEVELS.index(each.level))


def _worker(facts: LaunchFacts, around: StartContext) -> Iterator[PreflightItem]:
    if around.is_silent:
        yield item("worker", say("profiles.box-silent", box=around.box))


def _limits(facts: LaunchFacts, around: StartContext) -> Iterator[PreflightItem]:
    for each in around.refusals:
        yield item("limits", say("profiles.limits", why=each))


def _image(facts: LaunchFacts, around: StartContext) -> Iterator[PreflightItem]:
    image, box = facts.launch.image, around.box
    if image not in around.images:
        yield item("image", say("profiles.image-not-inspected", box=box, image=image))
        return
    found = around.images[image]
    if found is None:
        yield item("image", say("profiles.image-pulled-at-start", box=box, image=image))
        return
    machine = _MACHINES.get(around.found.get("architecture", ""))
    made_for = found.get("architecture") or ""
    if machine and made_for and machine != made_for:
        said = say(
            "profiles.image-other-architecture",
            image=image,
            box=box,
            made_for=made_for,
            machine=machine,
        )
        yield item("image", said)
    else:
        made_for = made_for or "this machine"
        yield item("image", say("profiles.image-there", image=image, made_for=made_for))


def _driver(facts: LaunchFacts, around: StartContext) -> Iterator[PreflightItem]:
    found = around.images.get(facts.launch.image)
    driver = facts.subject.driver
    if facts.launch.gpus == "none" or not found:
        return
    require = found.get("require") or ""
    met, cuda = satisfies(driver, require), find_needed_cuda(require)
    if met is None:
        said = say(
            "profiles.driver-unknown", require=require[:80], driver=driver or "(not reported)"
        )
        yield item("driver", said)
    elif not met:
        first = first_for(cuda)
        branch = f" {first} or newer" if first else ""
        said = say("profiles.driver-too-old", cuda=cuda, driver=driver, branch=branch)
        yield item("driver", said)
    elif cuda:
        yield item("driver", say("profiles.driver-new-enough", cuda=cuda, driver=driver))


def _toolkit(facts: LaunchFacts, around: StartContext) -> Iterator[PreflightItem]:
    launch, runtimes = facts.launch, around.found.get("runtimes")
    if launch.runtime and runtimes is not None and launch.runtime not in runtimes:
        said = say(
            "profiles.runtime-missing",
            box=around.box,
            runtime=launch.runtime,
            runtimes=", ".join(runtimes),
        )
        yield item("runtime", said)
    if launch.gpus == "none" or runtimes is None:
        return
    is_there = "nvidia" in runtimes or around.found.get("toolkit")
    yield item("toolkit", say("profiles.toolkit-there" if is_there else "profiles.toolkit-missing"))


def _port(facts: LaunchFacts, around: StartContext) -> Iterator[PreflightItem]:
    launch = facts.launch
    on_host = launch.network == "host"
    port = ENGINES[launch.engine].port(launch) if on_host else launch.host_port
    if not port:
        yield item("port", say("profiles.port-chosen"))
        return
    holder = next((each.name for each in around.other_workloads if port in each.ports), "")
    holder = holder or around.port_holders.get(port, "")
    listening = around.found.get("listening")
    if holder or (listening is not None and port in listening and port not in around.own_ports):
        code = "profiles.host-port-taken" if on_host else "profiles.port-taken"
        holder = holder or "another program"
        yield item("port", say(code, port=port, box=around.box, holder=holder))
    else:
        code = "profiles.port-unknown" if listening is None else "profiles.port-free"
        yield item("port", say(code, port=port))


def _gpus(facts: LaunchFacts, around: StartContext) -> Iterator[PreflightItem]:
    launch, there = facts.launch, facts.subject.gpus
    if launch.gpus == "none":
        return
    if not there:
        code = "profiles.gpus-unknown" if there is None else "profiles.gpus-none"
        yield item("gpus", say(code, box=around.box))
        return
    mine = {gpu.index for gpu in facts.used_gpus or ()}
    is_unified = facts.subject.box_kind == "unified"
    sharing = [each for each in around.other_workloads if each.gpus is None or mine & each.gpus]
    if placement.parse_gpu_requirement(launch.gpus) and not is_unified:
        sharing = _where_it_would_go(facts, around, sharing)
    loading = [each.name for each in sharing if each.is_loading]
    if loading:
        where = "The memory that GPU and machine share" if is_unified else "A GPU of this start"
        said = say("profiles.gpus-loading", where=where, names=", ".join(loading), first=loading[0])
        yield item("loading", said)
    elif sharing and not is_unified:
        names = ", ".join(each.name for each in sharing)
        yield item("shared", say("profiles.gpus-shared", names=names))
    else:
        shared = " shared by all servers" if is_unified else "" if sharing else " free of others"
        count = "1 GPU" if len(mine) == 1 else f"{len(mine)} GPUs"
        yield item("gpus", say("profiles.gpus-there", count=count, shared=shared))


def _where_it_would_go(
    facts: LaunchFacts, around: StartContext, sharing: list[OtherWorkload]
) -> list[OtherWorkload]:
    """Who is in the way where a profile says which GPUs and not where: idle ones come first."""
    wanted = placement.parse_gpu_requirement(facts.launch.gpus)
    busy = {index for each in around.other_workloads for index in each.gpus or ()}
    if wanted is None:
        return sharing
    fitting = [
        gpu.index
        for gpu in facts.subject.gpus or ()
        if wanted.fits((gpu.name, gpu.compute_capability))
    ]
    idle = [index for index in fitting if index not in busy]
    return [] if len(idle) >= wanted.count else sharing


def _made_for(facts: LaunchFacts, around: StartContext) -> Iterator[PreflightItem]:
    wanted, there = placement.parse_gpu_requirement(facts.launch.hardware), facts.subject.gpus
    if wanted is None or not there:
        return
    fitting = sum(wanted.fits((gpu.name, gpu.compute_capability)) for gpu in there)
    if fitting:
        yield item("made-for", say("profiles.made-for-these", wanted=str(wanted)))
        return
    has = placement.describe_gpu_requirement([(gpu.name, gpu.compute_capability) for gpu in there])
    said = say("profiles.made-for-others", wanted=str(wanted), box=around.box, has=has)
    yield item("made-for", said)


def _memory(fit: Estimate | None) -> Iterator[PreflightItem]:
    if fit is None:
        return
    levels: dict[str, Level] = {"fits": "ok", "tight": "warning", "no": "warning"}
    yield PreflightItem(
        id="memory",
        title="GPU memory",
        level=levels.get(fit.verdict, "unknown"),
        says=fit.says,
        code=fit.code,
        params=fit.params,
    )


_OF_MODELS = (checkpoint, check_token)
_CHECKS = (
    _worker,
    _limits,
    _image,
    _driver,
    _toolkit,
    _port,
    _gpus,
    _made_for,
    *_OF_MODELS,
    rooms,
    shared_memory,
    clocks,
)
