"""Connections that the hub's sshd has: which key each came with, and its end."""

import logging
import os
import re
import signal
import threading
from collections.abc import Iterable
from contextlib import suppress
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

    def cut(self, sshd: int, port: int, *, allowed: Iterable[str]) -> int:
        """End the connections of keys that are not allowed, by the hashes of those that are.

        `sshd`: its process id, and the port that it listens on. Says how many processes were ended.
        Connections outlive the sshd that took them, and nobody knows their keys any more: those are
        ended, and come back if they may. One of this sshd whose login was not heard of is left
        alone: it logs in right now, or sshd ends it.
        """
        kept = set(allowed)
        own = _list_children(sshd)
        ended = 0
        for pid, peer in _list_connections(port):
            with self._lock:
                found = self._hashes.get(peer)
            if found in kept or (found is None and pid in own):
                continue
            log.info("Ending a connection of a key that may no longer log in")
            _kill(pid)
            ended += 1
        return ended


def _list_children(sshd: int) -> set[int]:
    try:
        return {each.pid for each in psutil.Process(sshd).children(recursive=True)}
    except psutil.NoSuchProcess:
        return set()


def _list_connections(port: int) -> list[tuple[int, Peer]]:
    """Processes of any sshd with a connection that came in at this port."""
    found = []
    for each in psutil.net_connections(kind="tcp"):
        if each.pid is None or not each.raddr or not each.laddr or each.laddr.port != port:
            continue
        try:
            name = psutil.Process(each.pid).name()
        except psutil.NoSuchProcess:
            continue
        if name.startswith("sshd"):
            found.append((each.pid, Peer(each.raddr.ip, each.raddr.port)))
    return found


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
