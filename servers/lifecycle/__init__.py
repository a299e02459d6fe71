"""The verbs. People's (wishes) write rows; the worker's (moves) bring containers there."""

from servers.lifecycle.boots import note_boot
from servers.lifecycle.byhand import take_up
from servers.lifecycle.moves import (
    advance,
    check_limit,
    clear,
    finish_pull,
    observe,
    pull_failed,
    reached_ready,
)
from servers.lifecycle.preview import preview
from servers.lifecycle.restarts import start_due
from servers.lifecycle.watching import unwatch
from servers.lifecycle.wishes import QueueOptions, call_off, remove, restart, start, stop

__all__ = [
    "QueueOptions",
    "advance",
    "call_off",
    "check_limit",
    "clear",
    "finish_pull",
    "note_boot",
    "observe",
    "preview",
    "pull_failed",
    "reached_ready",
    "remove",
    "restart",
    "start",
    "start_due",
    "stop",
    "take_up",
    "unwatch",
]
