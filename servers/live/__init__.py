"""What open browsers are told and shown."""

from servers.live.messages import (
    HISTORY,
    LIVE,
    Changed,
    Grew,
    box_changed,
    box_sampled,
    history,
    log_grew,
    log_group,
    sample,
    server_changed,
    servers_changed,
    wake_channel,
    wake_watcher,
)
from servers.live.pages import attention, head, panel, panels, render

__all__ = [
    "HISTORY",
    "LIVE",
    "Changed",
    "Grew",
    "attention",
    "box_changed",
    "box_sampled",
    "head",
    "history",
    "log_grew",
    "log_group",
    "panel",
    "panels",
    "render",
    "sample",
    "server_changed",
    "servers_changed",
    "wake_channel",
    "wake_watcher",
]
