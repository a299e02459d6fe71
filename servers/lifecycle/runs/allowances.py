"""A box's limits for a start, as far as its rows tell."""

from dataclasses import replace
from typing import Any

from servers.judge.runs import limits
from servers.judge.runs.limits import Limits
from servers.launch.engines.gpu_requirements import CardsError
from servers.launch.engines.volumes import VolumeError
from servers.lifecycle.profiles import path_reports
from servers.lifecycle.profiles.knowledge import Knowledge, LaunchOnBox
from servers.lifecycle.runs import gpu_assignment
from servers.lifecycle.runs.preview import spec_of


def refusals(start: LaunchOnBox, knowledge: Knowledge) -> tuple[str, ...]:
    """Why the box would refuse its container, a sentence each; what it has not told yet refuses
    nothing, and neither do devices, of which only the box knows where they lead."""
    launch, box = start.launch, start.box
    told: dict[str, Any] = box.facts.get("limits") or {}
    try:
        gpus = gpu_assignment.choose(launch, box, busy=knowledge.busy(box))
        spec = spec_of(launch, box, knowledge.image(start), gpus)
    except (VolumeError, CardsError):
        return ()  # said where the command is shown
    allowed = Limits(
        privileged=told.get("privileged", True),
        host_network=told.get("host_network", True),
        host_ipc=told.get("host_ipc", True),
        host_pid=told.get("host_pid", True),
        open_ports=told.get("open_ports", True),
        cap_add=tuple(told.get("cap_add", spec.cap_add)),
        security_opt=tuple(told.get("security_opt", spec.security_opt)),
    )
    manage = box.facts.get("manage") or limits.MANAGE
    found = limits.refusals(replace(spec, mounts=(), devices=()), allowed, manage=manage)
    return (*found, *path_reports.refusals(knowledge.folders(start) or ()))
