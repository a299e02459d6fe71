"""Reasons why a download may not write to its destination."""

import os

from servers.host.files.box_files import DiskRoom
from servers.host.weights.fetch.job import FetchError


def fault(of: DiskRoom) -> FetchError | None:
    """None where it may."""
    if of.may_write:
        return None
    if of.is_read_only:
        return FetchError(
            f"{of.path} can only be read by inferdash.",
            f"Where it runs as a service: sudo systemctl edit inferdash-watcher, with [Service] and "
            f"ReadWritePaths={of.path}. In a container: mount that folder writable for its watcher.",
        )
    return FetchError(
        f"inferdash may not write into {of.path}.",
        f"Its owner can allow it: setfacl -m u:{os.geteuid()}:rwx {of.path}",
    )
