"""systemd itself, and whether what it started answers."""

import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from inferdash.service import layout
from inferdash.service.account import run
from inferdash.service.layout import ServiceError, say
from inferdash.tls import oneself

_RUNS = Path("/run/systemd/system")


def check() -> None:
    """Raises ServiceError where systemd does not run."""
    if not _RUNS.is_dir():
        raise ServiceError(
            "systemd does not run here. Use make up under whatever starts programs on this "
            "machine, or docker compose; --no-start only writes the files."
        )


def start() -> None:
    run(["systemctl", "daemon-reload"])
    for name in (layout.TARGET, *services()):
        run(["systemctl", "--quiet", "enable", name])
    run(["systemctl", "restart", layout.TARGET])
    # A unit that was stopped by itself is not started by the restart of what it is part of.
    run(["systemctl", "start", *services()])


def stop() -> None:
    if not _RUNS.is_dir() or not services():
        return
    say("stopping web, worker and watcher; engines keep running")
    run(["systemctl", "stop", layout.TARGET, *services()])


def forget() -> None:
    if not _RUNS.is_dir():
        return
    for name in (layout.TARGET, *services()):
        subprocess.run(["systemctl", "--quiet", "disable", name], check=False, capture_output=True)
    subprocess.run(["systemctl", "daemon-reload"], check=False)


def services() -> list[str]:
    return sorted(each.name for each in layout.UNITS.glob("inferdash-*.service"))


def answers(url: str, *, within: float) -> bool:
    deadline = time.monotonic() + within
    context = oneself.make_unverified_context() if url.startswith("https:") else None
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(  # noqa: S310
                f"{url}/login/", timeout=10, context=context
            ) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    return False
