"""The demo's process: it starts everything, stays in front, and deletes what was written."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from inferdash.demo.box import SimulatedBox, make_boxes
from inferdash.up import plan, ports, redis
from inferdash.up.__main__ import StartError, make_plan
from inferdash.up.plan import Program

ROOT = Path(__file__).resolve().parent.parent.parent
DRIVER = Path(__file__).with_name("driver")
FIRST_PORT, LAST_PORT = 8470, 8499
ENGINES = 100  # ports for engines
# What a person has set for the real installation, and the demo must not take up.
_NOT_OURS = ("DATABASE_URL", "REDIS_URL", "TLS", "TLS_CERT", "TLS_KEY", "SECRET_KEY",
             "INFERDASH_EMAIL_URL", "INFERDASH_URL", "INFERDASH_RECIPES", "INFERDASH_TLS")  # fmt: skip


def main() -> int:
    # Short, because Redis' socket lies in it.
    folder = Path(tempfile.mkdtemp(prefix="inferdash-demo-"))
    # The first process of a container is not ended by a signal that it has no answer to.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return _run(folder)
    except (StartError, ports.PortError, redis.RedisError) as error:
        sys.stderr.write(f"inferdash: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(folder: Path) -> int:
    names = os.environ.get("BOXES") or "rtx8 spark"
    first = _engine_ports()
    boxes = make_boxes(folder, port=first, names=names)
    for box in boxes:
        box.build()
    os.environ.update(_environment(folder, boxes, first, names))
    _make_visitor()
    story = [sys.executable, "-m", "inferdash.demo.story"]
    simulation = [sys.executable, "-m", "inferdash.demo.docker", str(folder), str(first), names]
    more = [Program(name="simulation", command=[*simulation, *story], descriptors=[])]
    for box in boxes[1:]:
        more += _programs_of(box)
    usual, inherited = make_plan()
    whole = replace(
        usual,
        # In a container it listens for all, and is opened by what is published: this.
        address=usual.loopback,
        # They are about passwords and the names of a real installation.
        warnings=[],
        notes=["simulated: no GPU, no Docker and no model is used"],
        farewell="all that the demo has written is deleted",
        programs=[*usual.programs, *more],
    )
    descriptor = plan.write(whole, keep_open=inherited)
    supervisor = subprocess.Popen(
        [sys.executable, "-m", "inferdash.up.supervisor", str(descriptor)],
        pass_fds=[descriptor, *inherited],
        # A Ctrl-C reaches it through this process alone, whether a terminal sends it or docker run.
        start_new_session=True,
    )
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: supervisor.terminate())
    return supervisor.wait()


def _environment(
    folder: Path, boxes: list[SimulatedBox], first: int, names: str
) -> Mapping[str, str]:
    port = os.environ.get("PORT") or str(_free_port())
    return {
        **dict.fromkeys(_NOT_OURS, ""),
        **boxes[0].environment(),
        "DJANGO_SETTINGS_MODULE": "inferdash.demo.settings",
        "INFERDASH_DATA": str(folder / "var"),
        "INFERDASH_DEMO": str(folder),
        "INFERDASH_DEMO_PORTS": str(first),
        "INFERDASH_DEMO_BOXES": names,
        "INFERDASH_HUB": "off",
        "LOG_LEVEL": os.environ.get("LOG_LEVEL") or "ERROR",
        # Celery's many lines to root, for a worker that only reaches a simulation.
        "PYTHONWARNINGS": "ignore:You're running the worker with superuser privileges",
        "PORT": port,
        "PYTHONPATH": f"{DRIVER}:{ROOT}",
    }


def _programs_of(box: SimulatedBox) -> list[Program]:
    """Worker and watcher of a further box."""
    env = ["env", *(f"{name}={value}" for name, value in box.environment().items())]
    words = plan.worker_words(f"box.{box.name}", threads=2, level="ERROR")
    worker = [sys.executable, *words]
    watcher = [sys.executable, "-m", "django", "watch"]
    return [
        Program(name=f"worker of {box.name}", command=[*env, *worker], descriptors=[]),
        Program(name=f"watcher of {box.name}", command=[*env, *watcher], descriptors=[]),
    ]


def _make_visitor() -> None:
    """The database, and who everybody is that comes."""
    import django

    django.setup()
    from django.core.management import call_command

    from inferdash.demo.settings import VISITOR
    from servers.models import Role, User

    call_command("migrate", interactive=False, verbosity=0)
    User.objects.create_user(VISITOR, password=None, role=Role.ADMIN)


def _free_port() -> int:
    """The first one that nobody has: beside a real installation the demo takes the next."""
    ports = range(FIRST_PORT, LAST_PORT)
    return next(filter(_is_free, ports), FIRST_PORT)


def _engine_ports() -> int:
    """The first of a hundred that are free now, away from those of real engines."""
    for first in range(28000, 32000, ENGINES):
        if all(_is_free(first + offset) for offset in (0, 1, 2, 50, 51)):
            return first
    return 28000


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


if __name__ == "__main__":
    sys.exit(main())
