"""Rights that this box's Docker can take from engines: tried once, then taken from each."""

import threading

from django.conf import settings

from servers.host.docker import throwaway
from servers.host.docker.containers import ContainerError, DockerContainers, Spec
from servers.judge.runs.limits import PARTS, PIDS, Limits, Part, drop_rights, list_kept

_BARE = Spec(image="", init=False)
_IGNORED = "Docker takes the option, and the container keeps the right all the same."
_NO_PIDS = "Docker says that it cannot count processes here: the cgroup controller pids is missing."

_known: dict[str, dict[str, str]] = {}  # by Docker's address, for the life of this process
_lock = threading.Lock()


def harden(docker: DockerContainers, spec: Spec, allowed: Limits) -> Spec:
    """The container without what engines do not need. Raises ContainerError."""
    return drop_rights(spec, pids=allowed.pids_limit, without=list_unsupported(docker))


def list_unsupported(docker: DockerContainers) -> dict[str, str]:
    """Which parts of it this Docker does not do, and why: empty on nearly every box.

    Never read from a row: whoever can write rows could give rights back by one. Raises
    ContainerError when Docker cannot be asked; then it is asked again the next time.
    """
    with _lock:
        if docker.host not in _known:
            _known[docker.host] = _try_hardening(docker)
        return dict(_known[docker.host])


def _try_hardening(docker: DockerContainers) -> dict[str, str]:
    counts = docker.facts().counts_processes
    missing = {} if counts else {"pids": _NO_PIDS}
    if not _trouble(docker, set(PARTS) - set(missing)):
        return missing
    each = {part: _trouble(docker, {part}) for part in PARTS if part not in missing}
    return missing | {part: why for part, why in each.items() if why}


def _trouble(docker: DockerContainers, parts: set[Part]) -> str:
    """Why a program does not run with these parts, or runs as if without; "" where it does."""
    left_out = set(PARTS) - parts
    spec = drop_rights(_BARE, pids=PIDS, without=left_out)
    try:
        said = throwaway.read_trial_status(docker, spec, root=settings.HOST_ROOT)
    except ContainerError as error:
        if not throwaway.can_be_asked(error):
            raise
        return _of_options(docker, spec, error)
    kept = list_kept(said, parts)
    return _IGNORED if kept else ""


def _of_options(docker: DockerContainers, spec: Spec, error: ContainerError) -> str:
    """Docker's words on the options; where the box's own shell runs in no container, as on a box
    that keeps its programs elsewhere, those on an empty container with them."""
    try:
        throwaway.read_trial_status(docker, _BARE, root=settings.HOST_ROOT)
    except ContainerError as of_shell:
        if not throwaway.can_be_asked(of_shell):
            raise
        refusal = _refusal(docker, spec)
        return (refusal.detail or str(refusal)) if refusal else ""
    return error.detail or str(error)


def _refusal(docker: DockerContainers, spec: Spec) -> ContainerError | None:
    """Docker's own of an empty container. Where it makes none at all, nothing was learnt of the
    options: they are used, and the start says what comes of it."""
    try:
        return docker.refusal(spec)
    except ContainerError as error:
        if not throwaway.can_be_asked(error):
            raise
        return None
