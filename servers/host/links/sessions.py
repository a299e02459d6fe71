"""Connections that the hub's sshd has: which key each came with, and its end."""

import logging
import os
import re
import signal
import threading
from collections.abc import Iterable
from dataclasses import dataclass

import psutil

log = logging.getLogger(__name__)

_ACCEPTED = re.compile(
    r"Accepted publickey for \S+ from (?P<address>\S+) port (?P<port>\d+) ssh2: \S+ "
    r"(?P<hash>SHA256:\S+)"
)
_MOST = 4096  # connections that are remembered


@dataclass(frozen=True)
class Peer:
    address: str
    port: int


class SshdSessions:
    """Fed with sshd's log, line by line, by one thread; asked by another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hashes: dict[Peer, str] = {}

    def hear(self, line: str) -> None:
        """A line of sshd at LogLevel VERBOSE."""
        if found := _ACCEPTED.search(line):
            peer = Peer(found["address"], int(found["port"]))
            with self._lock:
                self._hashes[peer] = found["hash"]
                while len(self._hashes) > _MOST:
                    del self._hashes[next(iter(self._hashes))]

    def cut(self, sshd: int, *, allowed: Iterable[str]) -> int:
        """End the connections of keys that are not allowed, by the hashes of those that are.

        `sshd`: its process id. Says how many were ended. A connection whose login was not heard of
        is left alone: sshd itself ends those that do not log in.
        """
        kept = set(allowed)
        ended = 0
        for process in _list_children(sshd):
            with self._lock:
                hashes = {self._hashes.get(peer) for peer in _list_peers(process)}
            if not hashes - {None} <= kept:
                log.info("Ending a connection of a key that may no longer log in")
                _kill(process)
                ended += 1
        return ended


def _list_children(sshd: int) -> list[psutil.Process]:
    try:
        return list(psutil.Process(sshd).children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def _list_peers(process: psutil.Process) -> set[Peer]:
    try:
        found = process.net_connections(kind="tcp")
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return set()
    # A socket that listens has nobody on the other side: then it is ().
    return {Peer(*each.raddr) for each in found if tuple(each.raddr)}


def _kill(process: psutil.Process) -> None:
    try:
        os.kill(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
