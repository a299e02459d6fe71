"""What a box's limits say to a start before anybody makes it, as far as its rows tell."""

from dataclasses import replace
from typing import Any

from servers.engines.cards import CardsError
from servers.engines.volumes import VolumeError
from servers.judge import limits
from servers.judge.limits import Limits
from servers.lifecycle import cards, folders
from servers.lifecycle.knowledge import Knowledge, LaunchOnBox
from servers.lifecycle.preview import spec_of


def refusals(start: LaunchOnBox, knowledge: Knowledge) -> tuple[str, ...]:
    """Why the box would refuse its container, a sentence each; what it has not told yet refuses
    nothing, and neither do devices, of which only the box knows where they lead."""
    launch, box = start.launch, start.box
    told: dict[str, Any] = box.facts.get("limits") or {}
    try:
        gpus = cards.choose(launch, box, busy=knowledge.busy(box))
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
    return (*found, *folders.refusals(knowledge.folders(start) or ()))
