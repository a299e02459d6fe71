"""A launch as a command of the paste's kind again: what `docker run` and compose files say."""

from servers.launch import sizes
from servers.launch.commandline import render, restart
from servers.launch.commandline.command import LaunchCommand
from servers.launch.engines import ENGINES, gpu_requirements, parameters, usual_entrypoint
from servers.launch.engines.engine import listens_beyond_loopback
from servers.launch.engines.launch import Launch

# Where people keep it; a box may say another place.
HF_CACHE = "~/.cache/huggingface:/root/.cache/huggingface"
# Above a profile's own command: what a guide says of the host's network becomes a published port.
HOST_STAYS = "# --network: host stays"
HF_TOKEN = "HF_TOKEN"  # noqa: S105 - the variable's name


def command_of(launch: Launch, *, name: str = "") -> LaunchCommand:
    """What the profile says, without what a box adds. Values of secrets are left to the reader's
    own environment (`-e NAME`)."""
    launch = parameters.fill(launch)
    engine = ENGINES[launch.engine]
    env: dict[str, str | None] = {**launch.env, **dict.fromkeys(launch.secret_env)}
    if launch.serves_models and launch.pass_hf_token and HF_TOKEN not in env:
        env[HF_TOKEN] = None
    cache = (HF_CACHE,) if launch.serves_models and launch.mount_hf_cache else ()
    on_host = launch.network == "host"
    return LaunchCommand(
        kind="docker_run",
        engine=engine.key,  # type: ignore[arg-type]
        name=name or None,
        image=launch.image,
        entrypoint=launch.entrypoint or None,
        command=engine.command(launch, launch.entrypoint or usual_entrypoint(launch.image)),
        env=env,
        volumes=launch.volumes + cache,
        ports=() if on_host else (_format_port(launch, engine.port(launch)),),
        ipc=launch.ipc or None,
        shm_size=sizes.format_size(launch.shm_size) if launch.shm_size else None,
        ulimits={limit: str(count) for limit, count in launch.ulimits.items()},
        gpus=_gpus(launch.gpus),
        runtime=launch.runtime or None,
        network=launch.network if launch.network != "bridge" else None,
        cap_add=launch.cap_add,
        privileged=launch.privileged,
        devices=launch.devices,
        cpuset=launch.cpuset_cpus or None,
        user=launch.user or None,
        workdir=launch.workdir or None,
        security_opt=launch.security_opt,
        init=launch.init,
        restart=restart.to_docker(launch),
    )


def docker_run(launch: Launch, *, name: str = "") -> str:
    """With the reasons as comments above; reading it back gives the same launch."""
    return _reasons(launch) + render.docker_run(command_of(launch, name=name)) + "\n"


def compose(launch: Launch, *, name: str = "") -> str:
    """A compose file with one service, with the reasons as comments above."""
    return _reasons(launch) + render.compose(command_of(launch, name=name))


def _reasons(launch: Launch) -> str:
    said = "".join(f"# {name}: {why}\n" for name, why in launch.reasons.items())
    for name, value in launch.parameters.items():
        said = f"# {{{{{name}}}}}: {value}\n{said}"
    if remark := restart.inexact(launch):
        said = f"# --restart: {remark}\n{said}"
    if launch.network == "host":
        said = f"{HOST_STAYS}: this profile means it\n{said}"
    if gpu_requirements.parse(launch.gpus):
        said = f"# --gpus: {launch.gpus}, whichever those are on the box\n{said}"
    return said


def _format_port(launch: Launch, port: int) -> str:
    address = f"[{launch.host_address}]" if ":" in launch.host_address else launch.host_address
    if listens_beyond_loopback(launch.host_address) and address == "0.0.0.0":  # noqa: S104
        return f"{launch.host_port}:{port}" if launch.host_port else str(port)
    return f"{address}:{launch.host_port or ''}:{port}"


def _gpus(said: str) -> str | int | tuple[str, ...] | None:
    if said == "none":
        return None
    # Docker chooses by number and by index alone.
    if which := gpu_requirements.parse(said):
        return which.count
    return "all" if said == "all" else tuple(said.split(","))
