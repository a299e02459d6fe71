"""The docker run command that a start would amount to, for people to read and copy."""

from dataclasses import dataclass

from servers.host.docker.containers import kernels_volume
from servers.judge.runs import hardening
from servers.launch.engines import parameters, placement, usual_entrypoint
from servers.launch.engines.engine import secret_words
from servers.launch.engines.launch import Launch
from servers.launch.engines.volumes import Volume, VolumeError
from servers.launch.spec import Spec
from servers.lifecycle.runs import gpu_assignment
from servers.models import Box, HostResources, ImageFacts
from servers.models.people.secret import mask


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
