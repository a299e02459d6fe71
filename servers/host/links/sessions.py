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
    r"Accepted publickey for \S+ from (?P<address>\S+) port (?P<port>\d+) ssh2: \S+ (?P<hash>SHA256:\S+)"
)
