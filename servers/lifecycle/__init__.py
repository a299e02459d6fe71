"""The verbs. People's (wishes) write rows; the worker's (moves) bring containers there."""

from servers.lifecycle.external.monitoring import unwatch
from servers.lifecycle.profiles.preflight import preview
from servers.lifecycle.runs.commands import (
    QueueOptions,
    call_off,
    remove,
    restart,
    restore,
    start,
    stop,
)
from servers.lifecycle.runs.out_of_band import take_up
from servers.lifecycle.runs.reboots import note_boot
from servers.lifecycle.runs.reconcile import (
    advance,
    check_limit,
    clear,
    observe,
    reached_ready,
)
from servers.lifecycle.runs.restart_policy import start_due

__all__ = [
    "QueueOptions",
    "advance",
    "call_off",
    "check_limit",
    "clear",
    "note_boot",
    "observe",
    "preview",
    "reached_ready",
    "remove",
    "restart",
    "restore",
    "start",
    "start_due",
    "stop",
    "take_up",
    "unwatch",
]
