"""The follower: it tells the hub this box's version, and brings inferdash here to the hub's when an admin asks.

It needs no other table than that of links and that of upgrades, whose columns mean the same in
every version: so it also works where this box and its hub differ.
"""

import json
import logging
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import django
from django.db import DatabaseError, InterfaceError, connection

from inferdash.wire import releases, trial
from inferdash.wire.box import BoxError, make_links
from inferdash.wire.join import find_schema
from inferdash.wire.releases import ReleaseError
from inferdash.wire.trial import ReleaseState
from servers.host.links.bulk import BulkError, fetch_bundle
from servers.host.links.files import WireFiles
from servers.host.links.ssh import SshError
from servers.management.commands.await_hub import find_obstacle

log = logging.getLogger(__name__)

LOOK_EVERY = 4.0  # seconds, by one question over a connection that stays
TELL_EVERY = 15.0
SSH_PATIENCE = 30.0
FETCHES = 5  # a link that was cut goes on from where it was

_OPEN = """SELECT id, step, release, digest, size FROM servers_boxupgrade
WHERE box_id = inferdash_box() AND is_open"""
_TELL = """UPDATE servers_boxlink SET version = %s, schema = %s, told_at = now()
WHERE box_id = inferdash_box()"""
_SEEN = "SELECT seen_at FROM servers_box WHERE id = inferdash_box()"


def main() -> NoReturn:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "inferdash.settings")
    django.setup()
    from inferdash import settings

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    follower = HubFollower(settings)
    while True:
        try:
            follower.look()
        except (DatabaseError, InterfaceError) as error:
            # The hub is away, or older than the table: both are told by others.
            log.debug("%s", error)
            follower.forget()
        time.sleep(LOOK_EVERY)


class HubFollower:
    def __init__(self, settings: ModuleType) -> None:
        self._root: Path = settings.FILES
        self._version: str = settings.VERSION
        self._may: bool = settings.BRING_UP
        self._within = float(os.environ.get("INFERDASH_BRING_UP_WITHIN", trial.PATIENCE))
        self._files = WireFiles(settings.DATA)
        self._tells_at = float("-inf")

    def forget(self) -> None:
        """The connection, and that the hub was told: it may be as it was before a restore."""
        self._tells_at = float("-inf")
        connection.close()

    def look(self) -> None:
        """Raises DatabaseError and InterfaceError."""
        if time.monotonic() >= self._tells_at:
            _execute(_TELL, self._version, find_schema())
            self._tells_at = time.monotonic() + TELL_EVERY
        state = ReleaseState.read(releases.find_state(self._files))
        if state is not None and state.failed:
            before = Path(state.current.root).name
            self._end(state.upgrade, "failed", f"{state.failed} {before} runs again.")
            releases.forget_failure(self._files)
        elif state is not None and state.trial is not None:
            self._see_trial(state)
            return
        for pk, step, release, digest, size in _execute(_OPEN):
            if step == "asked":
                self._describe(pk)
            elif step not in ("described", "asked"):
                self._change(pk, release, digest, size)

    def _describe(self, pk: int) -> None:
        if why := releases.find_hindrance(self._files, self._root, may=self._may):
            self._end(pk, "failed", why)
        else:
            self._move(pk, "described", has=json.dumps(releases.describe_here(self._root)))

    def _see_trial(self, state: ReleaseState) -> None:
        assert state.trial is not None
        if state.trial.root != str(self._root):
            self._restart()  # it was asked to before, and was not heard
            return
        if find_obstacle():
            return
        [(seen,)] = _execute(_SEEN)
        # Its watcher has told of this box since this release was started.
        if isinstance(seen, datetime) and seen.timestamp() > state.began:
            self._end(state.upgrade, "done", "")
            releases.confirm(self._files)

    def _change(self, pk: int, release: str, digest: str, size: int) -> None:
        """To the release that the hub has packed."""
        bundle = self._files.releases / f"{release}.tar.gz"
        bundle.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._fetch(pk, bundle, digest=digest, size=size)
            self._move(pk, "installing")
            new = releases.unpack(bundle, release, self._files, root=self._root)
            bundle.unlink()
            if not self._is_wanted(pk):
                return
            releases.begin_trial(new, self._files, root=self._root, upgrade=pk, within=self._within)
        except (BulkError, ReleaseError, SshError, BoxError, OSError) as error:
            self._end(pk, "failed", str(error))
            return
        self._move(pk, "switching")
        self._restart()

    def _fetch(self, pk: int, bundle: Path, *, digest: str, size: int) -> None:
        """Raises BulkError, SshError and BoxError."""
        secret = self._files.relay_secret.read_text().strip()

        def tell(percent: int) -> None:
            self._move(pk, "fetching", percent=percent)

        for number in range(FETCHES):
            try:
                with _carry(self._files) as socket:
                    fetch_bundle(
                        bundle, by=socket, secret=secret, size=size, digest=digest, tell=tell
                    )
                    return
            except BulkError:
                if number == FETCHES - 1 or not self._is_wanted(pk):
                    raise
                time.sleep(LOOK_EVERY)

    def _is_wanted(self, pk: int) -> bool:
        return any(row[0] == pk for row in _execute(_OPEN))

    def _move(self, pk: int, step: str, **values: str | int) -> None:
        _update(pk, {**values, "step": step, "moved_at": datetime.now().astimezone()})

    def _end(self, pk: int, step: str, said: str) -> None:
        _update(pk, {"step": step, "said": said, "is_open": None,
                     "moved_at": datetime.now().astimezone()})  # fmt: skip
        print(f"The hub's release: {step}. {said}", flush=True)

    def _restart(self) -> None:
        """The supervisor, which started this, ends all of it and starts what is to run."""
        os.kill(os.getppid(), signal.SIGUSR1)


def _execute(statement: str, *values: str | int | datetime | None) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


def _update(pk: int, values: Mapping[str, str | int | datetime | None]) -> None:
    names = ", ".join(f"{name} = %s" for name in values)
    # What was cancelled meanwhile stays so.
    where = "id = %s AND is_open AND box_id = inferdash_box()"
    statement = f"UPDATE servers_boxupgrade SET {names} WHERE {where}"  # noqa: S608 - our own names
    _execute(statement, *values.values(), pk)


@contextmanager
def _carry(files: WireFiles) -> Iterator[Path]:
    """A connection of its own for something large. Raises SshError, BoxError and BulkError."""
    command = make_links(files).make_bulk()
    files.bulk_socket.unlink(missing_ok=True)
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as ssh:
        try:
            until = time.monotonic() + SSH_PATIENCE
            while not files.bulk_socket.is_socket():
                if ssh.poll() is not None or time.monotonic() > until:
                    raise BulkError("The hub cannot be reached for its bundle.")
                time.sleep(0.1)
            yield files.bulk_socket
        finally:
            ssh.terminate()


if __name__ == "__main__":
    main()
