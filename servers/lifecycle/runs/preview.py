"""The docker run command that a start would amount to, and the allowances that it needs."""

from dataclasses import dataclass, replace
from typing import Any

from servers.host.docker.containers import kernels_volume
from servers.judge.runs import limits
from servers.judge.runs.limits import PIDS, Limits, drop_rights
from servers.launch.engines import placement, usual_entrypoint
from servers.launch.engines.engine import secret_words
from servers.launch.engines.placement import CardsError, Volume, VolumeError
from servers.launch.spec import Spec
from servers.lifecycle.profiles import path_reports
from servers.lifecycle.profiles.knowledge import LaunchContext
from servers.models.people.key import mask


@dataclass(frozen=True, kw_only=True)
class Preview:
    command: str = ""
    volumes: list[Volume] | None = None  # resolved for the box
    problem: str = ""


def preview(context: LaunchContext) -> Preview:
    launch = context.launch
    try:
        spec = _build_spec(context, kernels=kernels_volume(_image_id(context)))
        volumes = placement.volumes(launch, _site(context))
    except (VolumeError, CardsError) as error:
        return Preview(problem=str(error))
    secrets = {"HF_TOKEN", *launch.secret_env} & set(spec.env)
    command = mask(spec.docker_run(mask=secrets), secret_words(launch.flags))
    return Preview(command=command, volumes=volumes)


def _image_id(context: LaunchContext) -> str:
    """ "" while the box has not told it."""
    host_resources = context.knowledge.host_resources(context.box)
    there = host_resources.images.get(context.launch.image) if host_resources else None
    return str(there["id"]) if there else context.image.image_id if context.image else ""


def _build_spec(context: LaunchContext, *, kernels: str = "") -> Spec:
    """The container of a start, with its secrets masked. Raises VolumeError, CardsError."""
    launch, box, image = context.launch, context.box, context.image
    usual = usual_entrypoint(launch.image)
    spec = placement.spec(
        launch,
        _site(context),
        # A copy with them would take the place of the run that a start makes.
        name="",
        labels={},
        host_port=launch.host_port,
        entrypoint=image.entrypoint_or(usual) if image else usual,
        kernels_volume=kernels,
        gpus=context.choose_gpus(),
        known=image.flaglist if image else None,
    )
    return drop_rights(
        spec,
        pids=box.facts.get("limits", {}).get("pids_limit", PIDS),
        without=box.facts.get("left_out", ()),
    )


def _site(context: LaunchContext) -> placement.Site:
    box = context.box
    return placement.Site(
        home=box.home,
        hf_cache=box.hf_cache,
        hf_token="masked" if box.hf_token_id else "",  # noqa: S106 - stands in for the token
        secrets=dict.fromkeys(context.launch.secret_env, "masked"),
    )


def list_refusals(context: LaunchContext) -> tuple[str, ...]:
    """Why the box would refuse its container, a sentence each; what it has not told yet refuses
    nothing, and neither do devices, of which only the box knows where they lead."""
    box = context.box
    told: dict[str, Any] = box.facts.get("limits") or {}
    try:
        spec = _build_spec(context)
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
    return (*found, *path_reports.refusals(context.folders or ()))
