"""The docker run command that a start would amount to, and the allowances that it needs."""

from dataclasses import dataclass, replace
from typing import Any

from servers.host.docker.containers import kernels_volume
from servers.judge.runs import hardening, limits
from servers.judge.runs.limits import Limits
from servers.launch.engines import parameters, placement, usual_entrypoint
from servers.launch.engines.engine import secret_words
from servers.launch.engines.launch import Launch
from servers.launch.engines.placement import CardsError, Volume, VolumeError
from servers.launch.spec import Spec
from servers.lifecycle.profiles import path_reports
from servers.lifecycle.profiles.knowledge import Knowledge, LaunchOnBox
from servers.lifecycle.runs import gpu_assignment
from servers.models import Box, HostResources, ImageFacts
from servers.models.people.key import mask


@dataclass(frozen=True, kw_only=True)
class Preview:
    command: str = ""
    volumes: list[Volume] | None = None  # resolved for the box
    problem: str = ""


def preview(launch: Launch, box: Box) -> Preview:
    launch = parameters.fill(launch)
    try:
        image = ImageFacts.objects.find_for_launch(launch, box)
        kernels = kernels_volume(_image_id(launch, box, image))
        spec = spec_of(launch, box, image, gpu_assignment.choose(launch, box), kernels=kernels)
        volumes = placement.volumes(launch, _site(launch, box))
    except (VolumeError, gpu_assignment.CardsError) as error:
        return Preview(problem=str(error))
    secrets = {"HF_TOKEN", *launch.secret_env} & set(spec.env)
    command = mask(spec.docker_run(mask=secrets), secret_words(launch.flags))
    return Preview(command=command, volumes=volumes)


def _image_id(launch: Launch, box: Box, image: ImageFacts | None) -> str:
    """ "" while the box has not told it."""
    host_resources = HostResources.objects.filter(box=box).first()
    there = host_resources.images.get(launch.image) if host_resources else None
    return str(there["id"]) if there else image.image_id if image else ""


def spec_of(
    launch: Launch, box: Box, image: ImageFacts | None, gpus: str, *, kernels: str = ""
) -> Spec:
    """The container of a start, with its secrets masked. Raises VolumeError."""
    usual = usual_entrypoint(launch.image)
    spec = placement.spec(
        launch,
        _site(launch, box),
        # A copy with them would take the place of the run that a start makes.
        name="",
        labels={},
        host_port=launch.host_port,
        entrypoint=image.entrypoint_or(usual) if image else usual,
        kernels_volume=kernels,
        gpus=gpus,
        known=image.flaglist if image else None,
    )
    return hardening.harden(
        spec,
        pids=box.facts.get("limits", {}).get("pids_limit", hardening.PIDS),
        without=box.facts.get("left_out", ()),
    )


def _site(launch: Launch, box: Box) -> placement.Site:
    return placement.Site(
        home=box.home,
        hf_cache=box.hf_cache,
        hf_token="masked" if box.hf_token_id else "",  # noqa: S106 - stands in for the token
        secrets=dict.fromkeys(launch.secret_env, "masked"),
    )


def list_refusals(start: LaunchOnBox, knowledge: Knowledge) -> tuple[str, ...]:
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
