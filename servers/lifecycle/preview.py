"""The docker run command that a start would amount to, for people to read and copy."""

from dataclasses import dataclass

from servers.engines import placement
from servers.engines.engine import secret_words
from servers.engines.launch import Launch
from servers.engines.volumes import Volume, VolumeError
from servers.models import Box
from servers.models.secret import mask

# An image that is not on the box yet cannot say what its entrypoint is; these are the
# conventions of the images that most people use.
KNOWN_ENTRYPOINTS = {
    "vllm/vllm-openai": ("vllm", "serve"),
    "ghcr.io/ggml-org/llama.cpp": ("/app/llama-server",),
}


@dataclass(frozen=True, kw_only=True)
class Preview:
    command: str = ""
    volumes: list[Volume] | None = None  # resolved for the box
    problem: str = ""


def preview(launch: Launch, box: Box) -> Preview:
    site = placement.Site(
        home=box.home,
        hf_cache=box.hf_cache,
        hf_token="masked" if box.hf_token_id else "",  # noqa: S106 - stands in for the token
        secrets=dict.fromkeys(launch.secret_env, "masked"),
    )
    name, _colon, _tag = launch.image.partition(":")
    try:
        spec = placement.spec(
            launch,
            site,
            name=f"inferdash-{box.slug}",
            labels={},
            host_port=launch.host_port,
            entrypoint=KNOWN_ENTRYPOINTS.get(name, ()),
            kernels_volume="",
        )
        volumes = placement.volumes(launch, site)
    except VolumeError as error:
        return Preview(problem=str(error))
    secrets = {"HF_TOKEN", *launch.secret_env} & set(spec.env)
    command = mask(spec.docker_run(mask=secrets), secret_words(launch.flags))
    return Preview(command=command, volumes=volumes)
