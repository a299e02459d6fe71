"""Trials of container options: whether this Docker runs a program with them."""

from dataclasses import replace
from pathlib import Path

from servers.host.docker.containers import QUESTION, ContainerError, DockerContainers, Mount, Spec
from servers.host.logs.log_stream import LogStreamError

# Where a shell and its libraries are. The one of an image might say anything.
PROGRAMS = ("/bin", "/lib", "/lib64", "/usr")
_SAYS = 'while read -r line; do echo "$line"; done < /proc/self/status'
_OUR_FAULT = ("daemon_down", "no_permission", "timeout")


def status(docker: DockerContainers, spec: Spec, *, root: Path = Path("/")) -> dict[str, str]:
    """What the kernel says of a program in a container with these options: /proc/self/status.

    The box's own shell is run, read only, without network; nothing is left. Creating and starting
    an empty image would not do: runtimes set some options only once there is a program to run.
    `root` is where this process sees the box's "/". Raises ContainerError: of the kinds
    daemon_down, no_permission and timeout when the box cannot be asked, else when its Docker
    refuses the options. Rule: proc_pid_status(5).
    """
    folders = tuple(each for each in PROGRAMS if (root / each.lstrip("/")).exists())
    trial = replace(
        spec,
        image=docker.ensure_empty_image(),
        entrypoint=("/bin/sh", "-c", _SAYS),
        network="none",
        mounts=tuple(Mount(source=each, target=each, read_only=True) for each in folders),
        labels={"inferdash.install": docker.install, QUESTION: "yes"},
    )
    container = docker.run(trial)
    try:
        # Followed to its end, which is the container's.
        lines = [text.decode(errors="replace") for _, _, text in _log(docker, container.id)]
    except LogStreamError as error:
        raise ContainerError(f"Docker broke off: {error}", kind="daemon_down") from error
    finally:
        docker.remove(container.id)
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def can_be_asked(error: ContainerError) -> bool:
    """Whether an error of status() says something of the options, and not of the moment."""
    return error.kind not in _OUR_FAULT


def _log(docker: DockerContainers, container: str) -> list[tuple[str, str, bytes]]:
    return list(docker.logs(container, follow=True, with_rest=True))
