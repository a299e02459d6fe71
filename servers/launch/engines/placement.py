"""The container of a launch on a box."""

from dataclasses import dataclass, field

from servers.launch.engines import ENGINES
from servers.launch.engines.flaglist import FlagList
from servers.launch.engines.launch import Launch
from servers.launch.engines.volumes import Volume, parse, resolve
from servers.launch.spec import Mount, Port, Spec

# Where the box's Hugging Face cache appears in every container, and where compiled
# kernels are kept. HF_HOME and the variables below point engines at them whoever they run as.
HF_HOME = "/root/.cache/huggingface"
KERNELS = "/inferdash-kernels"
KERNEL_VARIABLES = {
    "VLLM_CACHE_ROOT": f"{KERNELS}/vllm",
    "SGLANG_CACHE_DIR": f"{KERNELS}/sglang",
    "FLASHINFER_WORKSPACE_BASE": f"{KERNELS}/flashinfer",
    "TRITON_CACHE_DIR": f"{KERNELS}/triton",
    "TORCHINDUCTOR_CACHE_DIR": f"{KERNELS}/inductor",
    "CUDA_CACHE_PATH": f"{KERNELS}/cuda",
}
# Docker hands a log line on only at its newline: a bar that redraws itself with \r would
# stay invisible until it is full. These two make tqdm write each refresh as a line.
TQDM = {"TQDM_BAR_FORMAT": "{l_bar}{bar}{r_bar}\n", "TQDM_MININTERVAL": "1"}


@dataclass(frozen=True, kw_only=True)
class Site:
    """What a box adds to a profile. Empty texts: the box has none."""

    home: str = ""
    hf_cache: str = ""
    hf_token: str = ""
    secrets: dict[str, str] = field(default_factory=dict)  # variable -> value


def volumes(launch: Launch, site: Site) -> list[Volume]:
    """Every mount with its path on the box. Raises VolumeError for one that cannot be resolved."""
    found = [parse(text, home=site.home) for text in launch.volumes]
    targets = {volume.target for volume in found}
    has_cache = launch.mount_hf_cache and ENGINES[launch.engine].serves_models
    if has_cache and site.hf_cache and HF_HOME not in targets:
        cache = resolve(site.hf_cache, home=site.home)
        found.append(Volume(kind="bind", source=cache, target=HF_HOME, read_only=False))
    return found


def environment(launch: Launch, site: Site, *, keeps_kernels: bool) -> dict[str, str]:
    """The container's variables: inferdash's own, then the profile's over them, then secrets.

    What serves no models gets none of inferdash's, the box's token least of all.
    """
    if not ENGINES[launch.engine].serves_models:
        return launch.env | site.secrets
    own = dict(TQDM)
    if launch.mount_hf_cache and site.hf_cache:
        own["HF_HOME"] = HF_HOME
    if keeps_kernels:
        own |= KERNEL_VARIABLES
    if launch.pass_hf_token and site.hf_token:
        own["HF_TOKEN"] = site.hf_token
    return own | ENGINES[launch.engine].env | launch.env | site.secrets


def spec(
    launch: Launch,
    site: Site,
    *,
    name: str,
    labels: dict[str, str],
    host_port: int,
    entrypoint: tuple[str, ...],
    kernels_volume: str,
    image: str = "",
    gpus: str = "",
    known: FlagList | None = None,
) -> Spec:
    """The container for one run.

    `entrypoint` is the image's own. `image` overrides the profile's reference, to pin an
    image id; `gpus` what it says of GPUs, where it says which and not their indices. An empty
    `kernels_volume` keeps no compiled kernels. `known` is the image's own list of flags, None
    where it was not asked. Raises VolumeError.
    """
    engine = ENGINES[launch.engine]
    # The volume belongs to root: an engine that runs as somebody else could not write to it.
    keeps_kernels = bool(kernels_volume) and not launch.user and engine.serves_models
    mounts = [
        Mount(kind=v.kind, source=v.source, target=v.target, read_only=v.read_only)
        for v in volumes(launch, site)
    ]
    if keeps_kernels:
        mounts.append(Mount(kind="volume", source=kernels_volume, target=KERNELS))
    ports = [
        Port(container_port=engine.port(launch), host_port=host_port, host_ip=launch.host_address)
    ]
    return Spec(
        image=image or launch.image,
        name=name,
        labels=labels,
        entrypoint=launch.entrypoint or None,
        command=engine.command(launch, launch.entrypoint or entrypoint, known=known),
        env=environment(launch, site, keeps_kernels=keeps_kernels),
        mounts=tuple(mounts),
        ports=() if launch.network == "host" else tuple(ports),
        network=launch.network,
        ipc=launch.ipc,
        pid=launch.pid,
        shm_size=launch.shm_size or None,
        ulimits=launch.ulimits,
        gpus=gpus or launch.gpus,
        runtime=launch.runtime,
        cap_add=launch.cap_add,
        privileged=launch.privileged,
        cpuset_cpus=launch.cpuset_cpus,
        devices=launch.devices,
        security_opt=launch.security_opt,
        user=launch.user,
        workdir=launch.workdir,
        init=launch.init,
    )
