"""Files that a profile depends on, compared with those it was made with."""

from collections.abc import Mapping
from pathlib import PurePosixPath

from django.conf import settings

from servers.host.docker.containers import Mount, Spec
from servers.host.files import digests, paths
from servers.host.files.box_files import BoxFiles
from servers.lifecycle.runs.secret_env import SecretsError


def check(spec: Spec, wanted: Mapping[str, str]) -> None:
    """`wanted` is the SHA-256 of files by their path in the container. Raises Refused.

    Only what a mount shows to the container anyway is read.
    """
    for path, digest in wanted.items():
        try:
            source, real = _on_box(spec, path)
            # Whether that may be mounted at all is checked with the container.
            files = BoxFiles(below=(source,), root=settings.HOST_ROOT)
            found = digests.sha256(real, files)
        except (digests.DigestError, paths.PathError) as error:
            raise SecretsError(f"{path}, which the profile depends on: {error}") from error
        if found != digest:
            raise SecretsError(
                f"{path} is not what the profile was made with. Its SHA-256 is {found}, "
                f"and the profile says {digest}. Put the right one there, or, if this is "
                "right, write its SHA-256 into the profile."
            )


def _on_box(spec: Spec, path: str) -> tuple[PurePosixPath, PurePosixPath]:
    """What is mounted, and the file in it, each where it lies in truth."""
    inside = PurePosixPath(path)
    around = [
        mount
        for mount in spec.mounts
        if mount.kind == "bind" and inside.is_relative_to(mount.target)
    ]
    if not around:
        raise SecretsError(
            f"The profile names the SHA-256 of {path}, and none of its volumes brings it into "
            "the container."
        )
    # As in the container: the innermost mount hides the others.
    mount: Mount = max(around, key=lambda each: len(PurePosixPath(each.target).parts))
    source = paths.resolve(mount.source, root=settings.HOST_ROOT)
    found = paths.resolve(str(source / inside.relative_to(mount.target)), root=settings.HOST_ROOT)
    if not found.is_relative_to(source):
        raise SecretsError(
            f"{path} is a link that leads out of {mount.source}, where the container cannot follow."
        )
    return source, found
