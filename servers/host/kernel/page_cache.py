"""The page cache: dropped as `sync; echo 3 > /proc/sys/vm/drop_caches` does."""

import os
from pathlib import Path

from servers.host.docker import throwaway
from servers.host.docker.containers import ContainerError, DockerContainers
from servers.host.docker.throwaway import ContainerCommand

# 1: page cache, 2: what drivers and the kernel would give back when asked, 3: both.
LEVEL = 3
_SWITCH = Path("/proc/sys/vm/drop_caches")
# Where a shell and its libraries are.
_PROGRAMS = ("/bin", "/lib", "/lib64", "/usr")
_SECONDS = 120  # a box with a terabyte of memory has a lot to write


def drop_caches(docker: DockerContainers, *, root: Path = Path("/"), level: int = LEVEL) -> None:
    """Write what is not on disk yet, then drop caches and driver pools.

    Root can do so itself. Anybody else who may speak to Docker can through a container that
    may write kernel settings, and is removed at once: no more power than Docker's socket has.
    The shell in it is the box's own, as an image's might do more than it is told. `root` is
    where this process sees the box's "/". Raises ContainerError. Rule: kernel documentation, vm.drop_caches.
    """
    try:
        os.sync()
        _SWITCH.write_text(f"{level}\n")
    except OSError:
        _through_container(docker, root, level)


def _through_container(docker: DockerContainers, root: Path, level: int = LEVEL) -> None:
    folders = tuple(each for each in _PROGRAMS if (root / each.lstrip("/")).exists())
    words = ("/bin/sh", "-c", f"sync; echo {level} > {_SWITCH}")
    question = ContainerCommand(
        image=docker.ensure_empty_image(),
        words=words,
        seconds=_SECONDS,
        sets_kernel=True,
        reads=folders,
    )
    said = throwaway.ask(docker, question)
    if said.exit_code != 0:
        how = f"exit code {said.exit_code}" if said.end == "ended" else f"it was {said.end}"
        raise ContainerError(
            f"The page cache could not be dropped in a container ({how}): "
            f"{said.errors.strip()[-300:] or 'it said nothing'}",
            kind="other",
        )
