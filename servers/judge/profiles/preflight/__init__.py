"""Preflight: what a start needs beside what the lint looks at.

Nothing is an error while what decides it is not known; that is said, too.
"""

from collections.abc import Iterator

from servers.judge.images import drivers
from servers.judge.messages import say
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
    met, cuda = drivers.satisfies(driver, require), drivers.find_needed_cuda(require)
    if met is None:
        said = say(
            "profiles.driver-unknown", require=require[:80], driver=driver or "(not reported)"
        )
        yield item("driver", said)
    elif not met:
        first = drivers.first_for(cuda)
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
