"""One `make up` per data folder."""

import fcntl
import json
import os
from pathlib import Path


class AlreadyRunningError(Exception):
    def __init__(self, *, pid: int, address: str, wanted: str) -> None:
        self.is_same = address == wanted
        super().__init__(
            f"already running at {address} (pid {pid})"
            if self.is_same
            else f"this data folder is in use: already running at {address} (pid {pid}). "
            f"Stop it there (Ctrl-C, or kill {pid}) to run at {wanted} instead, or name another "
            "data folder: INFERDASH_DATA=/path make up."
        )


def take(data: Path, address: str) -> int:
    """Hold the data folder until the returned descriptor is closed."""
    # The lock is the kernel's, so that no crash leaves one behind; the text is for people.
    descriptor = os.open(data / "up.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with os.fdopen(descriptor) as file:
            holder = json.loads(file.read() or "{}")
        raise AlreadyRunningError(
            pid=holder.get("pid", 0),
            address=holder.get("address", "an address that it has not told yet"),
            wanted=address,
        ) from None
    os.truncate(descriptor, 0)
    os.write(descriptor, json.dumps({"pid": os.getpid(), "address": address}).encode())
    return descriptor
