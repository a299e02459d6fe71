"""Making the container of a run, from the profile's version and the box's own limits, with its GPUs."""

import fcntl
import logging
import os
import shlex
import socket
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from io import TextIOWrapper
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction

from servers.host.docker.containers import Container, ContainerError, DockerContainers, Image, Spec
from servers.host.files import paths
from servers.host.files.box_files import BoxFiles
from servers.host.kernel.processes import listener
from servers.host.weights import checkpoints
from servers.judge.runs import limits
from servers.launch.engines import ENGINES, placement
from servers.launch.engines.launch import Launch
from servers.launch.engines.placement import CardsError, Gpu, VolumeError, resolve
from servers.lifecycle.images import inventory
from servers.lifecycle.profiles import export_all
from servers.lifecycle.runs import starts
from servers.lifecycle.runs.ownership import verb
from servers.lifecycle.runs.starts import SecretsError, mask_secrets, remember, site
from servers.models import Box, Claim, ImageFacts, Run
from servers.models.runs.run import ACTIVE, ManagedRun

log = logging.getLogger(__name__)

# Where a port is reached that Docker has bound on every address.
_LOOPBACK = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


@dataclass(frozen=True, kw_only=True)
class CreatedContainer:
    container: Container
    image_digest: str
    command: list[str]
    docker_run: str  # all of it, secrets masked
    address: str | None  # None: it has ended already
    port: int | None
    served_name: str


@cache
def docker() -> DockerContainers:
    return DockerContainers(settings.INSTALL, logins=inventory.load_credentials)


def container_name(run: Run) -> str:
    """The lock of a run: Docker gives a name to one container only."""
    return f"inferdash-{settings.INSTALL[:8]}-{run.pk}"


def find(run: Run) -> Container | None:
    """Its container, whatever somebody has called it since; None without one.

    Raises ContainerError.
    """
    return docker().find(labels(run))


def image(run: Run) -> Image | None:
    """The image to run; None while it has to be pulled.

    Raises Refused where exactly one image is wanted, this box has it no longer, and no digest
    names it to a registry.
    """
    if not run.plan.pinned_image:
        return _find_named_image(run, run.version.launch.image)
    found = docker().image(run.plan.pinned_image)
    if found is None and not (run.plan.repeats and run.plan.repeats.start.image_digest):
        raise SecretsError(
            f"The image that it ran, {run.plan.pinned_image[:19]}, is no longer on {run.server.box}. "
            f"Start the profile as it is: that takes what {run.version.launch.image} names today."
        )
    return found


def _find_named_image(run: Run, reference: str) -> Image | None:
    found = docker().image(reference)
    if found is None and inventory.is_built_here(reference):
        raise SecretsError(
            f"{reference} is made by the Dockerfile of its profile, and it is not on "
            f"{run.server.box}. Build it on the page of {run.server.profile}, then start again."
        )
    return found


@verb
def create(run: ManagedRun, /) -> CreatedContainer:
    """Create and start the container, or find the one that an earlier attempt made.

    Raises Refused when the profile or the box's limits say no, ContainerError when Docker does.
    """
    launch = run.launch
    engine = ENGINES[launch.engine]
    found = image(run)
    if found is None:
        raise ContainerError(
            f"The image {launch.image} was removed before it could be used. Start again.",
            kind="no_image",
        )
    here = site(run)
    remember(run, here)
    try:
        gpus = settle_gpus(run)
    except CardsError as error:
        raise SecretsError(str(error)) from error
    kernels = docker().keep_kernels(found.id) if engine.serves_models else ""
    known = ImageFacts.objects.flaglist_of(run.server.box, launch.engine, found.id)
    refused_ports: set[int] = set()
    name = container_name(run)
    if launch.mount_hf_cache and engine.serves_models:
        make_cache(run.server.box)
    while True:
        port = _host_port(run, refused_ports)
        try:
            spec = placement.spec(
                launch,
                here,
                name=name,
                labels=labels(run),
                host_port=port,
                entrypoint=found.entrypoint,
                kernels_volume=kernels,
                image=found.id,
                gpus=gpus,
                known=known,
            )
        except VolumeError as error:
            raise SecretsError(str(error)) from error
        spec = starts.harden(docker(), spec, read_limits())
        check(spec, kernels)
        export_all.check_files(spec, launch.digests)
        try:
            container = docker().run(spec)
        except ContainerError as error:
            if error.kind == "port_taken" and not launch.host_port and launch.network != "host":
                refused_ports.add(port)
                continue
            if error.kind == "name_taken" and name == container_name(run) and _is_unknown(name):
                name = f"{name}-{run.created_at:%y%m%d-%H%M%S}"
                continue
            raise
        break
    address, bound = _reached_at(container, launch)
    return CreatedContainer(
        container=container,
        image_digest=next(iter(found.digests), ""),
        command=[mask_secrets(run, word) for word in spec.command],
        docker_run=mask_secrets(
            run, spec.docker_run(mask={"HF_TOKEN", *here.secrets} & set(spec.env))
        ),
        address=address,
        port=bound,
        served_name=engine.served_name(launch),
    )


def _is_unknown(name: str) -> bool:
    """Whether it is this install's, from a time that the database does not remember."""
    found = docker().inspect(name)
    return found is not None and found.labels.get("inferdash.install") == settings.INSTALL


def _reached_at(container: Container, launch: Launch) -> tuple[str | None, int | None]:
    """Where Docker has really bound the engine's port; nothing while nothing listens for us.

    Never what the profile says: with a network that publishes no ports, a typed address would
    lead inferdash's questions to whoever listens there. Raises Refused for such networks.
    """
    if container.state != "running":
        return None, None
    if found := bound(container, launch):
        return found
    docker().remove(container.id)
    raise SecretsError(
        f"The Docker network {launch.network} publishes no ports, so nobody could reach the "
        "engine. Write bridge, host or another network into the profile."
    )


def bound(container: Container, launch: Launch) -> tuple[str, int] | None:
    """Address and port of the engine in a container that runs; None where none is published."""
    wanted = ENGINES[launch.engine].port(launch)
    if launch.network == "host":
        return "127.0.0.1", wanted
    for port in container.published:
        if port.container_port == wanted:
            return _LOOPBACK.get(port.host_ip, port.host_ip), port.host_port
    return None


def labels(run: Run) -> dict[str, str]:
    return {
        "inferdash.install": settings.INSTALL,
        "inferdash.run": str(run.pk),
        "inferdash.asked": run.created_at.isoformat(),
        "inferdash.server": str(run.server),
        "inferdash.version": str(run.version.number),
        "inferdash.box": str(run.server.box),
    }


def read_limits() -> limits.Limits:
    """What this box allows. Raises Refused where nobody can say."""
    try:
        return limits.read(settings.BOX_FILE)
    except limits.LimitsError as error:
        raise SecretsError(str(error)) from error
    except FileNotFoundError:
        raise SecretsError(
            f"{settings.BOX_FILE} is missing: it says what containers may do on this box. "
            "Restart inferdash on the box; it writes the file anew."
        ) from None


def check(spec: Spec, kernels: str, *, beside: str = "") -> None:
    """Raises Refused for what this box does not allow; `kernels` is the volume of inferdash's, and
    `beside` the container whose network this one may share."""
    limit = read_limits()
    refusals = limits.refusals(
        spec,
        limit,
        root=settings.HOST_ROOT,
        own=own_paths(),
        manage=settings.MANAGE,
        beside=beside,
    )
    if refusals:
        raise SecretsError(" ".join(refusals))
    for mount in spec.mounts:
        if mount.kind == "volume" and mount.source != kernels:
            _check_volume(mount.source, limit)
        # Docker's -v would create an empty folder owned by root.
        if mount.kind == "bind" and paths.exists(mount.source, root=settings.HOST_ROOT) is False:
            raise SecretsError(
                f"{mount.source} does not exist on {settings.BOX}, and the profile mounts it at "
                f"{mount.target}. Create it there (mkdir -p {shlex.quote(mount.source)}), or change "
                "the profile's volumes."
            )


def _check_volume(name: str, allowed: limits.Limits) -> None:
    if name not in allowed.volumes and not docker().keep_volume(name):
        raise SecretsError(
            f"The Docker volume {name} was not made for a profile of this inferdash, so nobody "
            "knows what it holds. Name another one in the profile, which is then made. "
            + limits.granted_by(settings.MANAGE, "volume", name)
        )


def own_paths() -> limits.OwnLimits:
    """What no container may have of this box, as the box names it."""
    way = urlsplit(docker().host)
    own = [way.path] if way.scheme.endswith("unix") and way.path else []
    account = [f"{settings.HOME.rstrip('/')}/{each}" for each in limits.OF_ACCOUNT]
    # In a container they lie in its own volumes, and its /data is not the box's.
    if str(settings.HOST_ROOT) == "/":
        own += map(str, (settings.DATA, settings.BASE_DIR, settings.BOX_FILE))
        account += _of_python()
    return limits.OwnLimits(box=tuple(own), account=tuple(account))


def _of_python() -> list[str]:
    """The interpreter that runs this, with its libraries, and its virtual environment."""
    base = Path(sys.base_prefix)
    # The system's own is spread over a folder with everything else in it.
    is_systems = base in (Path("/usr"), Path("/usr/local"), Path("/"))
    folders = [base / "bin", base / "lib"] if is_systems else [base]
    if sys.prefix != sys.base_prefix:
        folders.append(Path(sys.prefix))
    return list(map(str, folders))


def _host_port(run: Run, refused: set[int]) -> int:
    launch = run.version.launch
    if launch.network == "host":
        _check_own_port(run)
        return 0
    if launch.host_port:
        return launch.host_port
    taken = set(
        Run.objects.filter(server__box=run.server.box, state__in=ACTIVE)
        .exclude(port=None)
        .values_list("port", flat=True)
    )
    ports = settings.ENGINE_PORTS
    for port in ports:
        if port not in taken | refused and _is_free(launch.host_address, port):
            return port
    raise SecretsError(
        f"Every port from {ports.start} to {ports.stop - 1} is taken on this box. Stop a server, "
        "write a port into the profile, or name more ports in INFERDASH_ENGINE_PORTS."
    )


def _check_own_port(run: Run) -> None:
    """On the box's network somebody else's server on the engine's port would pass for it."""
    port = ENGINES[run.version.launch.engine].port(run.version.launch)
    if find(run) is None and not _is_free("127.0.0.1", port):
        by = listener(port) or "another program"
        raise SecretsError(
            f"Port {port} of this box is taken by {by}, and with network host the engine listens "
            "there. Choose another port in the profile, or stop what uses it."
        )


def _is_free(address: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        # Connections that were closed a moment ago do not count, as for the engine itself.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


@verb
def remove_predecessors(run: ManagedRun, /) -> None:
    """Delete the containers of this server's earlier runs; their logs are in the database."""
    others = run.server.runs.filter_managed().exclude(pk=run.pk).exclude(container_id="")
    for earlier in others.order_by("-pk")[:5]:
        if not earlier.is_active and earlier.log.is_complete:
            remove_container(earlier)


@verb
def remove_container(run: ManagedRun, /) -> None:
    """Delete the container of a run that has ended, once its log was read whole."""
    docker().remove(run.container_id)
    Run.objects.filter(pk=run.pk).update(container_id="", container_was=run.container_id)


def box_files() -> BoxFiles:
    """The files of this box that profiles may mount. Raises OSError, LimitsError and PathError."""
    allowed = limits.read(settings.BOX_FILE)
    return BoxFiles.from_text(allowed.mount_roots, own_paths(), root=Path(settings.HOST_ROOT))


def make_cache(box: Box) -> None:
    """The folder of its Hugging Face cache, where it is not there yet: the owner of the one above
    gets it. Where that cannot be done, the check of the mount says that it is missing."""
    if not box.hf_cache:
        return
    try:
        cache = resolve(box.hf_cache, home=box.home)
        if paths.exists(cache, root=settings.HOST_ROOT) is False:
            box_files().make_folder(paths.resolve(cache, root=settings.HOST_ROOT))
    except (OSError, VolumeError, paths.PathError, limits.LimitsError) as error:
        log.warning("%s of %s cannot be made: %s", box.hf_cache, box, error)


def hub(box: Box) -> PurePosixPath:
    """Where the box's Hugging Face cache lies in truth. Raises VolumeError and PathError."""
    on_box = resolve(box.hf_cache, home=box.home)
    return paths.resolve(f"{on_box}/hub", root=settings.HOST_ROOT)


def checkpoint_revision(run: Run) -> str:
    """The commit of the checkpoint in the box's Hugging Face cache; "" where there is none."""
    launch = run.launch
    box: Box = run.server.box
    if not (launch.mount_hf_cache and box.hf_cache) or launch.checkpoint.startswith("/"):
        return ""
    try:
        return checkpoints.commit_of(hub(box), launch.checkpoint, box_files(), launch.revision)
    except (paths.PathError, limits.LimitsError, OSError) as error:
        log.warning("the commit of %s cannot be told: %s", launch.checkpoint, error)
        return ""


@contextmanager
def lock_creation(run: Run) -> Iterator[bool]:
    """Whether the caller may make it; False while somebody else on this box is at it.

    The kernel ends the lock with its holder, however that ends. So whoever gets it and finds the
    run still *creating* knows that its maker is gone, and need not guess by the clock.
    """
    path = settings.DATA / "creating" / container_name(run)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with path.open("w") as file:
        if not _try_lock(file, str(path)):
            yield False
            return
        try:
            yield True
        finally:
            path.unlink(missing_ok=True)


def _try_lock(file: TextIOWrapper, path: str) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Who held it may have removed the file meanwhile: then this one locks nothing.
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))  # noqa: PTH116
    except (BlockingIOError, FileNotFoundError):
        return False


def settle_gpus(run: Run) -> str:
    """The GPUs of this run as Docker takes them, also where its profile names a kind of them.

    The first answer stays, and is on the row. Raises CardsError.
    """
    with transaction.atomic():
        # Two starts at once would both find the same cards idle.
        box = Box.objects.select_for_update().get(pk=run.server.box_id)
        said = Run.objects.values_list("gpus", flat=True).get(pk=run.pk)
        if not said:
            others = Run.objects.active().filter(server__box=box).exclude(pk=run.pk)
            claims = box.claims.active().exclude(by=run.started_by_id)
            taken = find_busy_gpus(box, others.select_related("version"), claims)
            said = choose_gpus(run.version.launch, box, busy=taken)
            Run.objects.filter(pk=run.pk).update(gpus=said)
    run.gpus = said
    return said


def choose_gpus(launch: Launch, box: Box, *, busy: Collection[int]) -> str:
    """ "all", "none" or indices. Raises CardsError when the box has too few, or says nothing yet."""
    wanted = placement.parse_gpu_requirement(launch.gpus)
    if wanted is None:
        return launch.gpus
    if box.gpus is None:
        raise CardsError(
            f"The profile wants {wanted}, and {box} has not reported its GPUs yet. Start again in a "
            "minute; if it still has not, the box's page says what is missing."
        )
    there: list[tuple[int, Gpu]] = [
        (card["index"], (card["name"] or "", card["compute_capability"] or "")) for card in box.gpus
    ]
    return ",".join(map(str, placement.choose_gpus(wanted, there, busy=busy)))


def find_busy_gpus(box: Box, active: Iterable[Run], claims: Iterable[Claim]) -> set[int]:
    """Cards that these runs have, or will get because their profiles name them, and claimed ones."""
    used = {index for each in claims for index in each.gpus}
    for other in active:
        said = other.gpus or other.version.launch.gpus
        if said == "all":
            used.update(card["index"] for card in box.gpus or ())
        elif said.replace(",", "").isdigit():
            used.update(map(int, said.split(",")))
    return used
