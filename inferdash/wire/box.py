"""A box's part of the wire: two links to its hub, the relay, its worker and its watcher."""

import json
import os
import sys
from types import ModuleType
from typing import Any

from inferdash.up.plan import WORKER_THREADS, Program, SupervisorPlan, worker_words
from servers.host.links.files import WireFiles
from servers.host.links.ssh import HubAddress, LinkCommands, SshError

# A wire that was cut is to be back within seconds, however often it fails.
WIRE_PAUSE = 4.0


class BoxError(Exception):
    """Why this box cannot be linked to its hub, and what to do about it."""


def read_hub(files: WireFiles) -> dict[str, Any]:
    """What the hub said of itself when this box joined. Raises BoxError."""
    try:
        found: dict[str, Any] = json.loads(files.hub.read_text())
    except (OSError, ValueError) as error:
        raise BoxError(
            f"{files.hub} cannot be read ({error}): join the hub again with make join TOKEN=…."
        ) from error
    return found


def make_links(files: WireFiles) -> LinkCommands:
    """Raises BoxError."""
    hub = read_hub(files)
    return LinkCommands(
        files=files,
        hub=HubAddress(host=hub["host"], port=hub["port"]),
        account=hub["account"],
        database_port=hub["database_port"],
        redis_port=hub["redis_port"],
        box_port=hub["box_port"],
    )


def make_box_plan(settings: ModuleType) -> SupervisorPlan:
    """Raises BoxError."""
    files = WireFiles(settings.DATA)
    links, hub = make_links(files), read_hub(files)
    files.database_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    manage = [sys.executable, str(settings.FILES / "manage.py")]
    # Until the hub answers, and while it has other tables, they would only fail.
    when_ready = [*manage, "await_hub"]
    python = sys.executable
    level = os.environ.get("LOG_LEVEL", "").strip() or "INFO"
    words = worker_words(settings.CELERY_TASK_DEFAULT_QUEUE, threads=WORKER_THREADS, level=level)
    try:
        control, streams = links.make_control(), links.make_streams()
    except SshError as error:
        raise BoxError(str(error)) from error
    return SupervisorPlan(
        address="",
        loopback="",
        admin_link="",
        warnings=[],
        notes=[f"this box is {settings.BOX} of the inferdash at {hub['url']}"],
        programs=[
            _wire("control", control),
            Program(name="relay", command=[*when_ready, *manage, "relay"], descriptors=[]),
            _wire("streams", streams),
            Program(name="worker", command=[*when_ready, python, *words], descriptors=[]),
            Program(name="watcher", command=[*when_ready, *manage, "watch"], descriptors=[]),
        ],
    )


def _wire(name: str, command: list[str]) -> Program:
    return Program(name=name, command=command, descriptors=[], longest_pause=WIRE_PAUSE)
