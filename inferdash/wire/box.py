"""A box's part of the wire: two links to its hub, the relay, its worker and its watcher."""

import json
import os
import sys
from types import ModuleType
from typing import Any

from inferdash.up.plan import WORKER_THREADS, Program, SupervisorPlan, worker_words
from inferdash.wire.releases import find_state, make_launch
from servers.host.links.files import WireFiles
from servers.host.links.ssh import HubAddress, LinkCommands, SshError

# A wire that was cut is to be back within seconds, however often it fails.
WIRE_PAUSE = 4.0
BULK_PORT = 8474


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
        # Of a box that has joined before there was one.
        bulk_port=hub.get("bulk_port", BULK_PORT),
    )


def make_box_plan(settings: ModuleType) -> SupervisorPlan:
    """Raises BoxError."""
    files = WireFiles(settings.DATA)
    links, hub = make_links(files), read_hub(files)
    # Releases that the hub brings lie elsewhere, and go by the same settings and data.
    os.environ["INFERDASH_DATA"] = str(settings.DATA)
    os.environ.setdefault("INFERDASH_SETTINGS", str(settings.BASE_DIR / ".env"))
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
        again=make_launch(find_state(files)),
        programs=[
            _wire("control", control),
            Program(name="relay", command=[*when_ready, *manage, "relay"], descriptors=[]),
            _wire("streams", streams),
            Program(
                name="follower", command=[python, "-m", "inferdash.wire.follow"], descriptors=[]
            ),
            Program(name="worker", command=[*when_ready, python, *words], descriptors=[]),
            Program(name="watcher", command=[*when_ready, *manage, "watch"], descriptors=[]),
        ],
    )


def _wire(name: str, command: list[str]) -> Program:
    # Last, so that what ends before them can still tell the hub.
    return Program(
        name=name,
        command=command,
        descriptors=[],
        is_last_to_stop=True,
        grace=2.0,
        longest_pause=WIRE_PAUSE,
    )
