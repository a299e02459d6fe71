"""Preflight of disks, shared memory, context length, clock and checkpoint."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from servers.judge.profiles.conditions import ON
from servers.judge.profiles.facts import LaunchFacts
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


def item(id: str, title: str, level: Level, says: str, remedy: str = "") -> PreflightItem:
    return PreflightItem(id=id, title=title, level=level, says=says, remedy=remedy)


def gib(size: float | None) -> str:
    return f"{(size or 0) / GIB:.1f}"


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
        yield item(
            "weights-lost", "Weights", "warning",
            f"{around.box} has no Hugging Face cache: the weights are downloaded into the "
            "container and lost with it, and every start downloads them again.",
            "An admin names the cache's folder under Settings. Or mount one at "
            "/root/.cache/huggingface.",
        )  # fmt: skip
    cache = disks.get("cache")
    if (
        cache is not None
        and around.checkpoint in ("part", "missing")
        and facts.launch.mount_hf_cache
    ):
        if around.missing and around.missing > cache["free"]:
            yield item(
                "weights-disk", "Model disk", "error",
                f"{gib(around.missing)} GiB of weights are to be downloaded, and {cache['path']} "
                f"has {gib(cache['free'])} GiB free.",
                "Delete models that nobody needs, or move the Hugging Face cache to a larger disk.",
            )  # fmt: skip
        else:
            yield _room(
                "weights-disk", "Model disk", cache, around.missing or IMAGE_SIZE, "weights"
            )


def _needs_cache(launch: Launch) -> bool:
    """Whether it has a model of the Hub downloaded to where only the box's cache would keep it."""
    is_of_hub = bool(_OF_HUB.fullmatch(launch.checkpoint))
    return launch.mount_hf_cache and is_of_hub and "huggingface" not in " ".join(launch.volumes)


def _room(id: str, title: str, disk: Mapping[str, Any], least: int, what: str) -> PreflightItem:
    free = f"{disk['path']} has {gib(disk['free'])} GiB free"
    if disk["free"] >= least:
        return item(id, title, "ok", f"{free}.")
    may_take = f", and {what} may take up to {gib(least)}" if what else ", and containers need some"
    return item(
        id, title, "warning", f"{free}{may_take}.",
        "Remove what nobody needs there: docker system df and du say what it is.",
    )  # fmt: skip


def shared_memory(facts: LaunchFacts, around: StartContext) -> Iterator[PreflightItem]:
    shm = (around.found.get("disks") or {}).get("shm")
    if facts.launch.ipc != "host" or shm is None or facts.engine == "llamacpp":
        return
    if shm["free"] < LEAST_SHM:
        yield item(
            "shm", "Shared memory", "warning",
            f"The box's /dev/shm, which --ipc host uses, has {gib(shm['free'])} of "
            f"{gib(shm['total'])} GiB free: NCCL fails or hangs without it.",
            "Remove what killed engines left there; the box's page lists it.",
        )  # fmt: skip
    else:
        yield item("shm", "Shared memory", "ok", f"{gib(shm['free'])} GiB of /dev/shm are free.")


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
        yield item(
            "clock", "Clock", "warning",
            f"The clock of {around.box} is {_off(own)} the one by which inferdash keeps its times: "
            "those of this start will be off by that.",
            _remedy(around.box),
        )  # fmt: skip


def _compare_clocks(told: dict[str, ClockOffset], silent: list[str]) -> PreflightItem:
    if silent:
        return item(
            "clock", "Clocks", "unknown",
            f"This start runs over several boxes, and {', '.join(silent)} has not told its time "
            "lately.",
        )  # fmt: skip
    first, last = (pick(told, key=lambda box: told[box].ahead) for pick in (min, max))
    apart = told[last].ahead - told[first].ahead
    if apart <= APART + told[first].within + told[last].within:
        return item("clock", "Clocks", "ok", f"The clocks of {', '.join(told)} agree.")
    return item(
        "clock", "Clocks", "warning",
        f"The clock of {last} is {_seconds(apart)} ahead of {first}'s, and this start runs over "
        "several boxes: their logs cannot be read side by side, and what must meet in time "
        "(rendezvous, certificates, tokens) may fail.",
        _remedy(f"{first} and {last}"),
    )  # fmt: skip


def _is_off(clock: ClockOffset) -> bool:
    return abs(clock.ahead) > APART + clock.within


def _off(clock: ClockOffset) -> str:
    return f"{_seconds(abs(clock.ahead))} {'ahead of' if clock.ahead > 0 else 'behind'}"


def _seconds(count: float) -> str:
    return f"{count:.1f} s" if count < 120 else f"{count / 60:.0f} min"


def _remedy(where: str) -> str:
    return (
        f"Let NTP set it, on {where}: sudo timedatectl set-ntp true; timedatectl says if it does."
    )


def checkpoint(facts: LaunchFacts, around: StartContext) -> Iterator[PreflightItem]:
    launch = facts.launch
    offline = (facts.env.get("HF_HUB_OFFLINE") or "").casefold() in ON
    if around.checkpoint == "there":
        yield item("checkpoint", "Checkpoint", "ok", f"{launch.checkpoint} is on {around.box}.")
    elif around.checkpoint == "unknown":
        yield item(
            "checkpoint", "Checkpoint", "unknown",
            f"Whether {launch.checkpoint} is on {around.box} is not known.",
        )  # fmt: skip
    elif launch.checkpoint.startswith("/"):
        yield item(
            "checkpoint", "Checkpoint", "error",
            f"{launch.checkpoint} leads to nothing on {around.box}.",
            "Put the model there, or correct the path or the volumes in the profile.",
        )  # fmt: skip
    elif offline:
        yield item(
            "checkpoint", "Checkpoint", "error",
            f"{launch.checkpoint} is not whole on {around.box}, and HF_HUB_OFFLINE forbids to "
            "download it.",
            "Take HF_HUB_OFFLINE out of the profile for the first start.",
        )  # fmt: skip
    elif around.remote == "gone":
        seen = "the box's token" if around.has_token else "anybody without a token"
        yield item(
            "checkpoint", "Checkpoint", "error",
            f"{launch.checkpoint} is not on {around.box}, and Hugging Face shows no such model to "
            f"{seen}.",
            "Correct its name or revision; if it is private, save a token for the box that may "
            "read it.",
        )  # fmt: skip
    else:
        rest = f", {gib(around.missing)} GiB" if around.missing else ""
        yield item(
            "checkpoint", "Checkpoint", "ok",
            f"{launch.checkpoint} is {'partly ' if around.checkpoint == 'part' else 'not '}on "
            f"{around.box}; the engine downloads {'the rest' if around.checkpoint == 'part' else 'it'}{rest}.",
        )  # fmt: skip


def check_token(facts: LaunchFacts, around: StartContext) -> Iterator[PreflightItem]:
    if around.remote == "expired" and around.has_token and around.checkpoint != "there":
        yield item(
            "token", "Token", "error",
            "Hugging Face does not accept the box's token: it has ended, was revoked, or is "
            "mistyped.",
            "Save a new one for the box in the settings.",
        )  # fmt: skip
        return
    if around.remote == "refused" and around.checkpoint != "there":
        yield item(
            "token", "Token", "warning" if around.has_token else "error",
            f"Hugging Face shows the files of {facts.launch.checkpoint} only to who has accepted "
            f"its licence, {'not with the box’s token' if around.has_token else 'and the engine is given no token'}.",
            "Accept the licence on the model's page, and save a token of that account for the box "
            "in the settings.",
        )  # fmt: skip
        return
    if not around.was_refused or around.checkpoint == "there":
        return
    if around.has_token:
        yield item(
            "token", "Token", "warning",
            f"Hugging Face has refused {facts.launch.checkpoint} before; there is a token now.",
            "If it is refused again, accept the model's licence on its page as the token's owner.",
        )  # fmt: skip
    else:
        yield item(
            "token", "Token", "error",
            f"Hugging Face has refused {facts.launch.checkpoint} before, and the engine is given "
            "no token.",
            "Save a Hugging Face token for the box in the settings, and let the profile pass it.",
        )  # fmt: skip
