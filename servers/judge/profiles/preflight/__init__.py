"""Preflight: what a start needs beside what the lint looks at.

Nothing is an error while what decides it is not known; that is said, too.
"""

from collections.abc import Iterator

from servers.judge.images import drivers
from servers.judge.profiles.facts import LaunchFacts, Subject
from servers.judge.profiles.preflight import rules
from servers.judge.profiles.preflight.rules import (
    LEVELS,
    WORDS,
    ClockOffset,
    Level,
    OtherWorkload,
    PreflightItem,
    StartContext,
    item,
)
from servers.judge.weights.fit.result import Estimate
from servers.launch.engines import ENGINES, placement

__all__ = [
    "LEVELS",
    "WORDS",
    "StartContext",
    "ClockOffset",
    "PreflightItem",
    "OtherWorkload",
    "preflight",
]

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
        yield item(
            "worker", "Box", "warning", f"{around.box} is silent, so all of this may be old.",
            f"Look at inferdash's worker and watcher on {around.box}; a start waits for them.",
        )  # fmt: skip


def _limits(facts: LaunchFacts, around: StartContext) -> Iterator[PreflightItem]:
    for each in around.refusals:
        yield item("limits", "Allowed", "error", each)


def _image(facts: LaunchFacts, around: StartContext) -> Iterator[PreflightItem]:
    image, name = facts.launch.image, around.box
    if image not in around.images:
        yield item("image", "Image", "unknown", f"{name} has not been asked for {image} yet.")
        return
    found = around.images[image]
    if found is None:
        yield item("image", "Image", "ok", f"{image} is not on {name} and is pulled at the start.")
        return
    machine = _MACHINES.get(around.found.get("architecture", ""))
    made_for = found.get("architecture") or ""
    if machine and made_for and machine != made_for:
        yield item(
            "image", "Image", "error",
            f"{image} on {name} is made for {made_for}, and {name} is {machine}: its programs do "
            "not start (exec format error).",
            f"Take an image that is published for {machine}, or pull the tag anew on {name}.",
        )  # fmt: skip
    else:
        yield item("image", "Image", "ok", f"{image} is there, for {made_for or 'this machine'}.")


def _driver(facts: LaunchFacts, around: StartContext) -> Iterator[PreflightItem]:
    found = around.images.get(facts.launch.image)
    driver = facts.subject.driver
    if facts.launch.gpus == "none" or not found:
        return
    require = found.get("require") or ""
    met, cuda = drivers.satisfies(driver, require), drivers.find_needed_cuda(require)
    if met is None:
        yield item(
            "driver", "Driver", "unknown",
            f"The image asks for “{require[:80]}”, and whether driver {driver or '(not told)'} "
            "meets that is not known.",
        )  # fmt: skip
    elif not met:
        first = drivers.first_for(cuda)
        branch = f" {first} or newer" if first else ""
        yield item(
            "driver", "Driver", "error",
            f"The image needs CUDA {cuda}, and driver {driver} is too old for it: Docker's NVIDIA "
            "hook refuses the container (“unsatisfied condition”).",
            f"Install driver{branch}, or take an image made with an older CUDA.",
        )  # fmt: skip
    elif cuda:
        yield item(
            "driver", "Driver", "ok", f"Driver {driver} is new enough for the image's CUDA {cuda}."
        )


def _toolkit(facts: LaunchFacts, around: StartContext) -> Iterator[PreflightItem]:
    launch, runtimes = facts.launch, around.found.get("runtimes")
    if launch.runtime and runtimes is not None and launch.runtime not in runtimes:
        yield item(
            "runtime", "Runtime", "error",
            f"Docker on {around.box} has no runtime “{launch.runtime}”. It has: "
            f"{', '.join(runtimes)}.",
            "Leave the runtime out of the profile, or set it up with: sudo nvidia-ctk runtime "
            "configure --runtime=docker, and restart Docker.",
        )  # fmt: skip
    if launch.gpus == "none" or runtimes is None:
        return
    if "nvidia" in runtimes or around.found.get("toolkit"):
        yield item("toolkit", "Container toolkit", "ok", "NVIDIA's container toolkit is there.")
    else:
        yield item(
            "toolkit", "Container toolkit", "warning",
            "NVIDIA's container toolkit was not found where its packages put it. Without it Docker "
            "says “could not select device driver”.",
            "Install nvidia-container-toolkit, then: sudo nvidia-ctk runtime configure "
            "--runtime=docker, and restart Docker.",
        )  # fmt: skip


def _port(facts: LaunchFacts, around: StartContext) -> Iterator[PreflightItem]:
    launch = facts.launch
    on_host = launch.network == "host"
    port = ENGINES[launch.engine].port(launch) if on_host else launch.host_port
    if not port:
        yield item("port", "Port", "ok", "A free one is chosen at the start.")
        return
    holder = next((each.name for each in around.other_workloads if port in each.ports), "")
    holder = holder or around.port_holders.get(port, "")
    listening = around.found.get("listening")
    if holder or (listening is not None and port in listening and port not in around.own_ports):
        yield item(
            "port", "Port", "error",
            f"Port {port} of {around.box} is taken by {holder or 'another program'}.",
            f"Stop it (sudo ss -ltnp 'sport = :{port}' says who it is), or write another port "
            "into the profile" + ("." if on_host else "; without one a free one is chosen."),
        )  # fmt: skip
    elif listening is None:
        yield item("port", "Port", "unknown", f"Whether port {port} is free is not known.")
    else:
        yield item("port", "Port", "ok", f"Port {port} is free.")


def _gpus(facts: LaunchFacts, around: StartContext) -> Iterator[PreflightItem]:
    launch, there = facts.launch, facts.subject.gpus
    if launch.gpus == "none" or not there:
        if launch.gpus != "none":
            level: Level = "unknown" if there is None else "warning"
            says = "not told its GPUs yet" if there is None else "no GPU that can be seen"
            yield item("gpus", "GPUs", level, f"{around.box} has {says}.",
                        "" if there is None else "The box's page says what is missing.")  # fmt: skip
        return
    mine = {gpu.index for gpu in facts.used_gpus or ()}
    is_unified = facts.subject.box_kind == "unified"
    sharing = [each for each in around.other_workloads if each.gpus is None or mine & each.gpus]
    if placement.parse_gpu_requirement(launch.gpus) and not is_unified:
        sharing = _where_it_would_go(facts, around, sharing)
    loading = [each.name for each in sharing if each.is_loading]
    if loading:
        where = "The memory that GPU and machine share" if is_unified else "A GPU of this start"
        yield item(
            "loading", "GPUs", "error",
            f"{where} is just being filled by {', '.join(loading)}. An engine measures what is "
            "free while it starts, so two at once size their caches by memory that the other is "
            "about to take.",
            f"Wait until {loading[0]} is ready, or stop it.",
        )  # fmt: skip
    elif sharing and not is_unified:
        names = ", ".join(each.name for each in sharing)
        yield item(
            "shared", "GPUs", "warning", f"{names} runs on a GPU of this start, too.",
            "Choose other GPUs in the profile, or see that both fit.",
        )  # fmt: skip
    else:
        shared = " shared by all servers" if is_unified else "" if sharing else " free of others"
        count = "1 GPU" if len(mine) == 1 else f"{len(mine)} GPUs"
        yield item("gpus", "GPUs", "ok", f"{count}{shared}.")


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
        yield item("made-for", "Made for", "ok", f"The profile was made for {wanted}.")
        return
    has = placement.describe_gpu_requirement([(gpu.name, gpu.compute_capability) for gpu in there])
    yield item(
        "made-for", "Made for", "warning",
        f"The profile was made for {wanted}, and {around.box} has {has}: kernels and quantizations "
        "that it names may not exist for another compute capability.",
        "See what the checks say of its flags, or take a profile made for these GPUs.",
    )  # fmt: skip


def _memory(fit: Estimate | None) -> Iterator[PreflightItem]:
    if fit is None:
        return
    levels: dict[str, Level] = {"fits": "ok", "tight": "warning", "no": "warning"}
    yield item("memory", "GPU memory", levels.get(fit.verdict, "unknown"), fit.says)


_OF_MODELS = (rules.checkpoint, rules.check_token)
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
    rules.rooms,
    rules.shared_memory,
    rules.clocks,
)
