"""What a start needs beside what the lint looks at: each with its reason and its remedy.

Nothing is an error while what decides it is not known; that is said, too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from servers.engines import ENGINES, cards
from servers.judge import drivers
from servers.judge.conditions import ON
from servers.judge.facts import Facts
from servers.judge.fit.told import Estimate
from servers.judge.subject import Subject

GIB = 2**30

type Level = Literal["ok", "error", "warning", "unknown"]
LEVELS: tuple[Level, ...] = ("error", "warning", "unknown", "ok")

# What an engine's image takes unpacked, at most, and what Docker needs to make a container.
IMAGE_SIZE, LITTLE = 40 * GIB, 2 * GIB
LEAST_SHM = GIB
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "amd64": "amd64", "arm64": "arm64"}


@dataclass(frozen=True, kw_only=True)
class Item:
    id: str
    title: str
    level: Level
    says: str
    remedy: str = ""

    @property
    def level_word(self) -> str:
        return {"ok": "fine", "error": "fails", "warning": "risky"}.get(self.level, "not known")


@dataclass(frozen=True, kw_only=True)
class Neighbour:
    """Another server that runs on the box, or is about to."""

    name: str
    gpus: frozenset[int] | None  # None: not known which
    ports: frozenset[int]
    is_loading: bool  # its engine has not become ready yet


@dataclass(frozen=True, kw_only=True)
class Around:
    """What is known around a start. None and missing keys mean "not known"."""

    box: str
    is_silent: bool = False
    # As models.Supplies keeps them.
    found: Mapping[str, Any] = field(default_factory=dict)
    images: Mapping[str, Any] = field(default_factory=dict)
    neighbours: tuple[Neighbour, ...] = ()
    own_ports: frozenset[int] = frozenset()  # of the run that this start replaces
    checkpoint: Literal["there", "part", "missing", "unknown"] = "unknown"
    missing: int | None = None  # bytes that are still to be downloaded
    has_token: bool = False  # the engine is given one of Hugging Face
    was_refused: bool = False  # an earlier run for want of a token, or of a licence


def preflight(subject: Subject, around: Around, fit: Estimate | None) -> list[Item]:
    """Every check with what it found, the worst first. `subject` has its parameters filled in."""
    facts = Facts(subject)
    found = [item for check in _CHECKS for item in check(facts, around)]
    found += list(_memory(fit))
    return sorted(found, key=lambda item: LEVELS.index(item.level))


def _item(id: str, title: str, level: Level, says: str, remedy: str = "") -> Item:
    return Item(id=id, title=title, level=level, says=says, remedy=remedy)


def _worker(facts: Facts, around: Around) -> Iterator[Item]:
    if around.is_silent:
        yield _item(
            "worker", "Box", "warning", f"{around.box} is silent, so all of this may be old.",
            f"Look at inferdash's worker and watcher on {around.box}; a start waits for them.",
        )  # fmt: skip


def _image(facts: Facts, around: Around) -> Iterator[Item]:
    image, name = facts.launch.image, around.box
    if image not in around.images:
        yield _item("image", "Image", "unknown", f"{name} has not been asked for {image} yet.")
        return
    found = around.images[image]
    if found is None:
        yield _item("image", "Image", "ok", f"{image} is not on {name} and is pulled at the start.")
        return
    machine = _MACHINES.get(around.found.get("architecture", ""))
    made_for = found.get("architecture") or ""
    if machine and made_for and machine != made_for:
        yield _item(
            "image", "Image", "error",
            f"{image} on {name} is made for {made_for}, and {name} is {machine}: its programs do "
            "not start (exec format error).",
            f"Take an image that is published for {machine}, or pull the tag anew on {name}.",
        )  # fmt: skip
    else:
        yield _item("image", "Image", "ok", f"{image} is there, for {made_for or 'this machine'}.")


def _driver(facts: Facts, around: Around) -> Iterator[Item]:
    found = around.images.get(facts.launch.image)
    driver = facts.subject.driver
    if facts.launch.gpus == "none" or not found:
        return
    require = found.get("require") or ""
    met, cuda = drivers.satisfies(driver, require), drivers.needed(require)
    if met is None:
        yield _item(
            "driver", "Driver", "unknown",
            f"The image asks for “{require[:80]}”, and whether driver {driver or '(not told)'} "
            "meets that is not known.",
        )  # fmt: skip
    elif not met:
        first = drivers.first_for(cuda)
        branch = f" {first} or newer" if first else ""
        yield _item(
            "driver", "Driver", "error",
            f"The image needs CUDA {cuda}, and driver {driver} is too old for it: Docker's NVIDIA "
            "hook refuses the container (“unsatisfied condition”).",
            f"Install driver{branch}, or take an image made with an older CUDA.",
        )  # fmt: skip
    elif cuda:
        yield _item(
            "driver", "Driver", "ok", f"Driver {driver} is new enough for the image's CUDA {cuda}."
        )


def _toolkit(facts: Facts, around: Around) -> Iterator[Item]:
    launch, runtimes = facts.launch, around.found.get("runtimes")
    if launch.runtime and runtimes is not None and launch.runtime not in runtimes:
        yield _item(
            "runtime", "Runtime", "error",
            f"Docker on {around.box} has no runtime “{launch.runtime}”. It has: "
            f"{', '.join(runtimes)}.",
            "Leave the runtime out of the profile, or set it up with: sudo nvidia-ctk runtime "
            "configure --runtime=docker, and restart Docker.",
        )  # fmt: skip
    if launch.gpus == "none" or runtimes is None:
        return
    if "nvidia" in runtimes or around.found.get("toolkit"):
        yield _item("toolkit", "Container toolkit", "ok", "NVIDIA's container toolkit is there.")
    else:
        yield _item(
            "toolkit", "Container toolkit", "warning",
            "NVIDIA's container toolkit was not found where its packages put it. Without it Docker "
            "says “could not select device driver”.",
            "Install nvidia-container-toolkit, then: sudo nvidia-ctk runtime configure "
            "--runtime=docker, and restart Docker.",
        )  # fmt: skip


def _port(facts: Facts, around: Around) -> Iterator[Item]:
    launch = facts.launch
    on_host = launch.network == "host"
    port = ENGINES[launch.engine].port(launch) if on_host else launch.host_port
    if not port:
        yield _item("port", "Port", "ok", "A free one is chosen at the start.")
        return
    holder = next((each.name for each in around.neighbours if port in each.ports), "")
    listening = around.found.get("listening")
    if holder or (listening is not None and port in listening and port not in around.own_ports):
        yield _item(
            "port", "Port", "error",
            f"Port {port} of {around.box} is taken by {holder or 'another program'}.",
            f"Stop it (sudo ss -ltnp 'sport = :{port}' says who it is), or write another port "
            "into the profile" + ("." if on_host else "; without one a free one is chosen."),
        )  # fmt: skip
    elif listening is None:
        yield _item("port", "Port", "unknown", f"Whether port {port} is free is not known.")
    else:
        yield _item("port", "Port", "ok", f"Port {port} is free.")


def _gpus(facts: Facts, around: Around) -> Iterator[Item]:
    launch, there = facts.launch, facts.subject.gpus
    if launch.gpus == "none" or not there:
        if launch.gpus != "none":
            level: Level = "unknown" if there is None else "warning"
            says = "not told its GPUs yet" if there is None else "no GPU that can be seen"
            yield _item("gpus", "GPUs", level, f"{around.box} has {says}.",
                        "" if there is None else "The box's page says what is missing.")  # fmt: skip
        return
    mine = {gpu.index for gpu in facts.used_gpus or ()}
    is_unified = facts.subject.box_kind == "unified"
    sharing = [each for each in around.neighbours if each.gpus is None or mine & each.gpus]
    if cards.parse(launch.gpus) and not is_unified:
        sharing = _where_it_would_go(facts, around, sharing)
    loading = [each.name for each in sharing if each.is_loading]
    if loading:
        where = "The memory that GPU and machine share" if is_unified else "A GPU of this start"
        yield _item(
            "loading", "GPUs", "error",
            f"{where} is just being filled by {', '.join(loading)}. An engine measures what is "
            "free while it starts, so two at once size their caches by memory that the other is "
            "about to take.",
            f"Wait until {loading[0]} is ready, or stop it.",
        )  # fmt: skip
    elif sharing and not is_unified:
        names = ", ".join(each.name for each in sharing)
        yield _item(
            "shared", "GPUs", "warning", f"{names} runs on a GPU of this start, too.",
            "Choose other GPUs in the profile, or see that both fit.",
        )  # fmt: skip
    else:
        shared = " shared by all servers" if is_unified else "" if sharing else " free of others"
        count = "1 GPU" if len(mine) == 1 else f"{len(mine)} GPUs"
        yield _item("gpus", "GPUs", "ok", f"{count}{shared}.")


def _where_it_would_go(facts: Facts, around: Around, sharing: list[Neighbour]) -> list[Neighbour]:
    """Who is in the way where a profile says which GPUs and not where: idle ones come first."""
    wanted = cards.parse(facts.launch.gpus)
    busy = {index for each in around.neighbours for index in each.gpus or ()}
    if wanted is None:
        return sharing
    fitting = [
        gpu.index
        for gpu in facts.subject.gpus or ()
        if wanted.fits((gpu.name, gpu.compute_capability))
    ]
    idle = [index for index in fitting if index not in busy]
    return [] if len(idle) >= wanted.count else sharing


def _made_for(facts: Facts, around: Around) -> Iterator[Item]:
    wanted, there = cards.parse(facts.launch.hardware), facts.subject.gpus
    if wanted is None or not there:
        return
    fitting = sum(wanted.fits((gpu.name, gpu.compute_capability)) for gpu in there)
    if fitting:
        yield _item("made-for", "Made for", "ok", f"The profile was made for {wanted}.")
        return
    has = cards.listed([(gpu.name, gpu.compute_capability) for gpu in there])
    yield _item(
        "made-for", "Made for", "warning",
        f"The profile was made for {wanted}, and {around.box} has {has}: kernels and quantizations "
        "that it names may not exist for another compute capability.",
        "See what the checks say of its flags, or take a profile made for these GPUs.",
    )  # fmt: skip


def _checkpoint(facts: Facts, around: Around) -> Iterator[Item]:
    launch = facts.launch
    offline = (facts.env.get("HF_HUB_OFFLINE") or "").casefold() in ON
    if around.checkpoint == "there":
        yield _item("checkpoint", "Checkpoint", "ok", f"{launch.checkpoint} is on {around.box}.")
    elif around.checkpoint == "unknown":
        yield _item(
            "checkpoint", "Checkpoint", "unknown",
            f"Whether {launch.checkpoint} is on {around.box} is not known.",
        )  # fmt: skip
    elif launch.checkpoint.startswith("/"):
        yield _item(
            "checkpoint", "Checkpoint", "error",
            f"{launch.checkpoint} leads to nothing on {around.box}.",
            "Put the model there, or correct the path or the volumes in the profile.",
        )  # fmt: skip
    elif offline:
        yield _item(
            "checkpoint", "Checkpoint", "error",
            f"{launch.checkpoint} is not whole on {around.box}, and HF_HUB_OFFLINE forbids to "
            "download it.",
            "Take HF_HUB_OFFLINE out of the profile for the first start.",
        )  # fmt: skip
    else:
        rest = f", {_gib(around.missing)} GiB" if around.missing else ""
        yield _item(
            "checkpoint", "Checkpoint", "ok",
            f"{launch.checkpoint} is {'partly ' if around.checkpoint == 'part' else 'not '}on "
            f"{around.box}; the engine downloads {'the rest' if rest else 'it'}{rest}.",
        )  # fmt: skip


def _token(facts: Facts, around: Around) -> Iterator[Item]:
    if not around.was_refused or around.checkpoint == "there":
        return
    if around.has_token:
        yield _item(
            "token", "Token", "warning",
            f"Hugging Face has refused {facts.launch.checkpoint} before; there is a token now.",
            "If it is refused again, accept the model's licence on its page as the token's owner.",
        )  # fmt: skip
    else:
        yield _item(
            "token", "Token", "error",
            f"Hugging Face has refused {facts.launch.checkpoint} before, and the engine is given "
            "no token.",
            "Save a Hugging Face token for the box in the settings, and let the profile pass it.",
        )  # fmt: skip


def _disks(facts: Facts, around: Around) -> Iterator[Item]:
    disks = around.found.get("disks") or {}
    pulls = around.images.get(facts.launch.image, ...) is None
    if (images := disks.get("images")) is not None:
        least = IMAGE_SIZE if pulls else LITTLE
        yield _room("image-disk", "Docker's disk", images, least, "the image" if pulls else "")
    cache = disks.get("cache")
    if (
        cache is not None
        and around.checkpoint in ("part", "missing")
        and facts.launch.mount_hf_cache
    ):
        if around.missing and around.missing > cache["free"]:
            yield _item(
                "weights-disk", "Model disk", "error",
                f"{_gib(around.missing)} GiB of weights are to be downloaded, and {cache['path']} "
                f"has {_gib(cache['free'])} GiB free.",
                "Delete models that nobody needs, or move the Hugging Face cache to a larger disk.",
            )  # fmt: skip
        else:
            yield _room(
                "weights-disk", "Model disk", cache, around.missing or IMAGE_SIZE, "weights"
            )


def _room(id: str, title: str, disk: Mapping[str, Any], least: int, what: str) -> Item:
    free = f"{disk['path']} has {_gib(disk['free'])} GiB free"
    if disk["free"] >= least:
        return _item(id, title, "ok", f"{free}.")
    may_take = (
        f", and {what} may take up to {_gib(least)}" if what else ", and containers need some"
    )
    return _item(
        id, title, "warning", f"{free}{may_take}.",
        "Remove what nobody needs there: docker system df and du say what it is.",
    )  # fmt: skip


def _shm(facts: Facts, around: Around) -> Iterator[Item]:
    shm = (around.found.get("disks") or {}).get("shm")
    if facts.launch.ipc != "host" or shm is None or facts.engine == "llamacpp":
        return
    if shm["free"] < LEAST_SHM:
        yield _item(
            "shm", "Shared memory", "warning",
            f"The box's /dev/shm, which --ipc host uses, has {_gib(shm['free'])} of "
            f"{_gib(shm['total'])} GiB free: NCCL fails or hangs without it.",
            "Remove what killed engines left there; the box's page lists it.",
        )  # fmt: skip
    else:
        yield _item("shm", "Shared memory", "ok", f"{_gib(shm['free'])} GiB of /dev/shm are free.")


def _memory(fit: Estimate | None) -> Iterator[Item]:
    if fit is None:
        return
    levels: dict[str, Level] = {"fits": "ok", "tight": "warning", "no": "warning"}
    yield _item("memory", "GPU memory", levels.get(fit.verdict, "unknown"), fit.says)


def _gib(size: float | None) -> str:
    return f"{(size or 0) / GIB:.1f}"


_CHECKS = (
    _worker,
    _image,
    _driver,
    _toolkit,
    _port,
    _gpus,
    _made_for,
    _checkpoint,
    _token,
    _disks,
    _shm,
)
