"""An installation that serves one test after another, and shows none what others have left."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import psutil
import redis

from tests import migrated
from tests.installation import Installation
from tests.nvml import SimulatedMachine
from tests.waiting import PATIENCE, wait_until

FOUND = "SELECT facts LIKE '%\"gpus\": [{%' FROM servers_box"
WITH_CONTAINERS = (
    "SELECT count(*) FROM servers_run WHERE container_id <> '' AND NOT is_watched"
    " AND state NOT IN ('stopped', 'failed')"
)
LEFT = "SELECT (SELECT count(*) FROM servers_run) + (SELECT count(*) FROM servers_alert)"
SEEN = "SELECT seen_at FROM servers_box"
GPUS = "SELECT json_array_length(facts, '$.gpus') FROM servers_box"
FAULTS = "SELECT json_array_length(facts, '$.faults') FROM servers_box"


class Emptied:
    def __init__(self, place: Installation, machine: SimulatedMachine) -> None:
        """Once the watcher has found the box, so that what it remembers of it stays true."""
        self.place = place
        self.machine = machine
        self.fresh = place.data.parent / "fresh.sqlite3"
        self.models = place.data.parent / "models"
        wait_until(lambda: self._says(FOUND) == 1, "the watcher has found the box's GPUs")
        self.limits = (place.data / "box.toml").read_text()
        with (
            closing(sqlite3.connect(place.data / migrated.NAME)) as database,
            closing(sqlite3.connect(self.fresh)) as fresh,
        ):
            database.backup(fresh)

    def empty(self) -> None:
        """As after the first start: nobody has joined, nothing runs or ever did, no model lies there."""
        had_other_cards = any(
            len(each.cards) != len(self.machine.cards) for each in self.place.gpus.shown
        )
        self.place.gpus.shown.clear()
        self.place.gpus.show(self.machine)
        (self.place.data / "box.toml").write_text(self.limits)
        shutil.rmtree(self.models, ignore_errors=True)
        wait_until(self._is_quiet, "the watcher has seen all engines go")
        if had_other_cards:
            # It misses those that a test took away for seconds after they are back, and a round of
            # its alerts that has begun may tell of them whenever it ends.
            self._has_watcher_anew()
        wait_until(self._sees_gpus, "the watcher sees all GPUs, and no fault")
        self._put_back()
        # A round that had begun before may have written what it knew.
        while self.place.docker.list_ours() or self._says(LEFT):
            wait_until(self._is_quiet, "the watcher has seen all engines go")
            self._put_back()

    def _is_quiet(self) -> bool:
        for container in self.place.docker.list_ours():
            self.place.docker.remove(container.id)
        return self._says(WITH_CONTAINERS) == 0

    def _has_watcher_anew(self) -> None:
        before = self._watcher()
        assert before is not None
        before.kill()
        wait_until(lambda: self._watcher() not in (before, None), "the watcher is started again")

    def _watcher(self) -> psutil.Process | None:
        return self.place.up.children().get("manage.py watch")

    def _sees_gpus(self) -> bool:
        if self._says(GPUS) == len(self.machine.cards) and self._says(FAULTS) == 0:
            return True
        self._has_looked()
        return False

    def _put_back(self) -> None:
        migrated.put_back(self.place.data, self.fresh)
        with redis.Redis(unix_socket_path=f"{self._redis}") as client:
            for key in client.scan_iter("inferdash:*"):
                client.delete(key)
        for _round in ("that may have begun before", "that begins now"):
            self._has_looked()

    def _has_looked(self) -> None:
        seen = self._says(SEEN)
        with redis.Redis(unix_socket_path=f"{self._redis}") as client:
            client.publish("inferdash:wake:rtx8", "")
        wait_until(lambda: self._says(SEEN) != seen, "the watcher looks")

    @property
    def _redis(self) -> Path:
        return self.place.data / "redis" / "redis.sock"

    def _says(self, question: str) -> object:
        path = self.place.data / migrated.NAME
        with closing(sqlite3.connect(path, timeout=PATIENCE)) as database:
            answer = database.execute(question).fetchone()
        return answer[0] if answer else None
