"""The container of a launch on a box: volumes, required paths, GPUs."""

import posixpath
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Literal

from servers.launch.engines import ENGINES
from servers.launch.engines.change import split_flags
from servers.launch.engines.flaglist import FlagList
from servers.launch.engines.launch import FIELDS, Launch
from servers.launch.spec import Mount, Port, Spec

_NAMED = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z")
_HOME = re.compile(r"(?:~|\$HOME|\$\{HOME\})(?=/|\Z)")


class VolumeError(Exception):
    """A volume that cannot be understood; the text is fit for a person."""


@dataclass(frozen=True, kw_only=True)
class Volume:
    kind: Literal["bind", "volume"]
    source: str  # an absolute path on the box, or a volume's name
    target: str  # an absolute path in the container
    read_only: bool


def parse(text: str, *, home: str) -> Volume:
    """Read `docker run -v`'s notation. `home` is where ~ and $HOME lead on the box.

    Raises VolumeError. Relative sources are refused: they would mean the worker's folder.
    """
    parts = text.strip().split(":")
    if len(parts) < 2 or len(parts) > 3 or not all(parts):
        raise VolumeError(f"“{text}” is not source:target or source:target:ro.")
    source, target, options = parts[0], parts[1], parts[2].split(",") if len(parts) == 3 else []
    unknown = [option for option in options if option not in ("ro", "rw", "z", "Z")]
    if unknown:
        raise VolumeError(f"“{text}”: the option {unknown[0]} is not supported. Use ro or rw.")
    if not target.startswith("/"):
        raise VolumeError(f"“{text}”: the target {target} must be an absolute path.")
    read_only = "ro" in options
    target = "/" + posixpath.normpath(target).lstrip("/")
    if _NAMED.match(source):
        return Volume(kind="volume", source=source, target=target, read_only=read_only)
    path = resolve(source, home=home)
    return Volume(kind="bind", source=path, target=target, read_only=read_only)


def resolve(path: str, *, home: str) -> str:
    """An absolute path on the box: ~, $HOME and ${HOME} at the start become `home`.

    Raises VolumeError for relative paths, for other variables, and when the home folder
    is needed and not known.
    """
    if _HOME.match(path):
        if not home:
            raise VolumeError(
                f"“{path}” needs the box's home folder, which is not set. "
                "Set it under Settings, Boxes."
            )
        path = _HOME.sub(lambda _: home, path, count=1)
    if "$" in path:
        raise VolumeError(f"“{path}”: only $HOME is known here. Write the path out.")
    if not path.startswith("/"):
        raise VolumeError(f"“{path}” must be an absolute path, ~/… or $HOME/….")
    # POSIX lets normpath keep two slashes in front.
    return "/" + posixpath.normpath(path).lstrip("/")


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
        command=engine.command(launch, launch.entrypoint or entrypoint, known=known),
        env=environment(launch, site, keeps_kernels=keeps_kernels),
        mounts=tuple(mounts),
        ports=() if launch.network == "host" else tuple(ports),
        network=launch.network,
        pid=launch.pid,
        gpus=gpus or launch.gpus,
        **_options(launch),
    )


def _options(launch: Launch) -> dict[str, Any]:
    """Those of the container that the launch says as Docker does."""
    said = {name: getattr(launch, name) for name, each in FIELDS.items() if each.docker}
    # What has a default of its own in Docker is not said where the launch does not.
    return said | {name: said[name] or None for name in ("shm_size", "entrypoint")}


@dataclass(frozen=True, kw_only=True)
class Place:
    path: str  # on the box
    of: str  # what needs it: "volumes", "checkpoint" or a flag as typed


def list_required_paths(launch: Launch, site: Site) -> tuple[Place, ...]:
    """Mounted folders first, then what the checkpoint and the flags name below them.

    A path of the container that no mount covers lies in the image, which is not asked.
    Raises VolumeError for a mount that cannot be resolved.
    """
    mounts = [volume for volume in volumes(launch, site) if volume.kind == "bind"]
    found = [Place(path=volume.source, of="volumes") for volume in mounts]
    for path, of in _iterate_paths(launch):
        on_box = _on_box(path, mounts)
        if on_box and all(each.path != on_box for each in found):
            found.append(Place(path=on_box, of=of))
    return tuple(found)


def find_checkpoint_path(launch: Launch, site: Site) -> str:
    """The box's path of a checkpoint that is named by a path; "" when no mount covers it.

    Raises VolumeError for a mount that cannot be resolved.
    """
    mounts = [volume for volume in volumes(launch, site) if volume.kind == "bind"]
    return _on_box(launch.checkpoint, mounts)


def _iterate_paths(launch: Launch) -> Iterator[tuple[str, str]]:
    if launch.checkpoint.startswith("/"):
        yield launch.checkpoint, "checkpoint"
    for name, values in split_flags(launch.flags):
        for value in values:
            if value.startswith("/"):
                yield value, name


def _on_box(path: str, mounts: list[Volume]) -> str:
    """The path that a container's path stands for; "" when no mount covers it."""
    inside = PurePosixPath(path)
    covering = [mount for mount in mounts if inside.is_relative_to(mount.target)]
    if ".." in inside.parts or not covering:
        return ""
    nearest = max(covering, key=lambda mount: len(mount.target))
    return str(PurePosixPath(nearest.source) / inside.relative_to(nearest.target))


_TEXT = re.compile(r"\s*([1-9][0-9]{0,3})\s*[x×]\s*(\S.*?)\s*", re.IGNORECASE)
_CAPABILITY = re.compile(r"sm_([0-9]{1,2})([0-9])[a-z]?", re.IGNORECASE)
_WORD = re.compile(r"[a-z0-9]+")

# A GPU's name as NVML says it, and its compute capability such as "12.0"; "" where unknown.
type Gpu = tuple[str, str]


class CardsError(ValueError):
    """A box has fewer of the wanted cards than it takes; the text says how many."""


@dataclass(frozen=True, kw_only=True)
class GpuRequirement:
    count: int
    name: str  # part of NVML's name, or sm_120

    def fits(self, gpu: Gpu) -> bool:
        """Whether this is such a GPU: the name's words follow each other in NVML's."""
        name, capability = gpu
        if wanted := _CAPABILITY.fullmatch(self.name):
            return capability == f"{wanted[1]}.{wanted[2]}"
        words, has = _WORD.findall(self.name.lower()), _WORD.findall(name.lower())
        last = len(has) - len(words)
        return bool(words) and any(has[at:][: len(words)] == words for at in range(last + 1))

    def __str__(self) -> str:
        return f"{self.count}x {self.name}"


def parse_gpu_requirement(text: str) -> GpuRequirement | None:
    """None for a text that does not follow the grammar, such as an empty one or "0,1"."""
    match = _TEXT.fullmatch(text)
    return GpuRequirement(count=int(match[1]), name=match[2]) if match else None


def choose_gpus(
    wanted: GpuRequirement, cards: Sequence[tuple[int, Gpu]], *, busy: Collection[int] = ()
) -> tuple[int, ...]:
    """The indices of such cards, those that nothing of ours uses before `busy` ones.

    `cards` are a box's indices and GPUs. Raises CardsError when there are too few.
    """
    fitting = [index for index, gpu in cards if wanted.fits(gpu)]
    if len(fitting) < wanted.count:
        has = (
            str(len(fitting))
            if fitting
            else describe_gpu_requirement([gpu for _index, gpu in cards])
        )
        raise CardsError(
            f"The profile wants {wanted}; this box has {has}. Change the profile's GPUs, or "
            "start it on another box."
        )
    first = sorted(fitting, key=lambda index: (index in busy, index))[: wanted.count]
    return tuple(sorted(first))


def describe_gpu_requirement(gpus: Sequence[Gpu]) -> str:
    """What there is, for people: "2x RTX PRO 6000, 1x GB300"."""
    if not gpus:
        return "no GPU"
    counted = Counter(name.removeprefix("NVIDIA ") or "unnamed GPU" for name, _capability in gpus)
    return ", ".join(f"{count}x {name}" for name, count in counted.items())
