"""A part of a hub as a service of its own, by the same commands as under `make up`.

`python -m inferdash.wire.serve set-up|prepare|await|postgres|redis|keeper`, and `around WORDS…`, which has
this Python run them while the database runs for them alone.
"""

import os
import socket
import subprocess
import sys
import time
from types import ModuleType
from typing import NoReturn

from inferdash.up.redis import RedisError
from inferdash.wire import hub
from inferdash.wire.hub import HubSetupError
from servers.host.links import postgres

SSHD_WITHIN = 90.0  # seconds
PROGRAMS = ("postgres", "redis", "keeper")


def main(verb: str, *words: str) -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "inferdash.settings")
    from inferdash import settings

    try:
        if verb == "set-up":
            hub.set_up(settings)
        elif verb == "prepare":
            hub.write_enrol_program(settings)
        elif verb == "await":
            postgres.wait_until_ready(os.environ["DATABASE_URL"])
            _wait_for_sshd(settings.HUB_PORT)
        elif verb == "around":
            return _run_around(settings, words)
        elif verb in PROGRAMS:
            _become(settings, verb)
        else:
            print(__doc__, file=sys.stderr)
            return 2
    except (HubSetupError, RedisError, postgres.PostgresError) as error:
        print(f"inferdash: {error}", file=sys.stderr)
        return 1
    return 0


def _run_around(settings: ModuleType, words: tuple[str, ...]) -> int:
    """Raises HubSetupError."""
    with hub.run_database(settings):
        return subprocess.run([sys.executable, *words], check=False).returncode


def _wait_for_sshd(port: int) -> None:
    """Raises HubSetupError."""
    until = time.monotonic() + SSHD_WITHIN
    while time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise HubSetupError(
        f"no sshd answers at port {port}: journalctl -u inferdash-keeper -n 30 says why."
    )


def _become(settings: ModuleType, name: str) -> NoReturn:
    """Raises HubSetupError and RedisError."""
    if settings.WIRE != "hub":
        raise HubSetupError("this inferdash takes in no further boxes: say make install BOXES=1.")
    [program] = [each for each in hub.list_programs(settings) if each.name == name]
    os.execvp(program.command[0], program.command)  # noqa: S606 - our own program, no shell wanted


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:] or [""]))
