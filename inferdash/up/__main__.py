"""The start of `make up`, which becomes the supervisor."""

import fcntl
import io
import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import django
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import Error

from inferdash.up import plan, ports, redis
from inferdash.wire import hub, releases
from inferdash.wire.box import BoxError, make_box_plan
from inferdash.wire.hub import HubSetupError
from inferdash.wire.releases import ReleaseError
from servers.host.links.files import WireFiles
from servers.management.database import count_migrations, name_database

if TYPE_CHECKING:
    from types import ModuleType

    from inferdash.tls.chosen import Certificates


class StartError(Exception):
    """Why nothing was started, and what to do about it."""


class AlreadyRunningError(Exception):
    def __init__(self, *, pid: int, address: str, wanted: str) -> None:
        self.is_same = address == wanted
        super().__init__(
            f"already running at {address} (pid {pid})"
            if self.is_same
            else f"this data folder is in use: already running at {address} (pid {pid}). "
            f"Stop it there (Ctrl-C, or kill {pid}) to run at {wanted} instead, or name another "
            "data folder: INFERDASH_DATA=/path make up."
        )


def claim_folder(data: Path, address: str) -> int:
    """Hold the data folder until the returned descriptor is closed."""
    # The lock is the kernel's, so that no crash leaves one behind; the text is for people.
    descriptor = os.open(data / "up.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with os.fdopen(descriptor) as file:
            holder = json.loads(file.read() or "{}")
        raise AlreadyRunningError(
            pid=holder.get("pid", 0),
            address=holder.get("address", "an address that it has not told yet"),
            wanted=address,
        ) from None
    os.truncate(descriptor, 0)
    os.write(descriptor, json.dumps({"pid": os.getpid(), "address": address}).encode())
    return descriptor


def migrate_and_invite(base_url: str) -> str:
    """The one-time link of the first admin; empty where there is one already. Raises StartError."""
    django.setup()
    try:
        if count_migrations()[0]:
            print("inferdash: bringing the database up to date", flush=True)
            call_command("migrate", interactive=False, verbosity=0)
        said = io.StringIO()
        call_command("invite", first_admin=True, base_url=base_url, stdout=said)
    except Error as error:
        raise StartError(f"{name_database()} cannot be used: {str(error).strip()}") from error
    except CommandError as error:
        raise StartError(str(error)) from error
    return said.getvalue().strip()


def main() -> NoReturn:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "inferdash.settings")
    try:
        descriptor = prepare()
    except AlreadyRunningError as running:
        print(f"inferdash: {running}")
        sys.exit(0 if running.is_same else 1)
    except (
        StartError,
        ports.PortError,
        redis.RedisError,
        HubSetupError,
        BoxError,
        ReleaseError,
    ) as error:
        sys.exit(f"inferdash: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
    # Django and psutil have done their work: the program that now stays for weeks does
    # without their memory. Lock, sockets and plan go along as open descriptors.
    supervisor = [sys.executable, "-m", "inferdash.up.supervisor", str(descriptor)]
    os.execv(sys.executable, supervisor)  # noqa: S606 - our own program, no shell wanted


def prepare() -> int:
    """Do all that can fail with a sentence; return the descriptor that the plan is written to."""
    if os.environ.pop("BOXES", "") == "1":
        _become_hub()
    _follow_hub()
    whole, inherited = make_plan()
    return plan.write(whole, keep_open=inherited)


def _become_hub() -> None:
    """The settings of a hub are other ones, so that all begins anew where it became one."""
    settings = _load_settings()
    if settings.WIRE == "hub":
        return
    lock = claim_folder(settings.DATA, "an address that it has not told yet")
    hub.set_up(settings)
    os.close(lock)
    os.environ[_FIRST_BOX] = "1"
    os.execv(sys.executable, [sys.executable, "-m", "inferdash.up"])  # noqa: S606 - no shell wanted


def _follow_hub() -> None:
    """A box that its hub has brought up starts what it was brought to."""
    settings = _load_settings()
    if settings.WIRE != "box":
        return
    if command := releases.find_start(WireFiles(settings.DATA), settings.FILES):
        os.environ["INFERDASH_DATA"] = str(settings.DATA)
        os.execv(command[0], command)  # noqa: S606 - no shell wanted


def _load_settings() -> "ModuleType":
    """Raises StartError."""
    try:
        from inferdash import settings
    except ImproperlyConfigured as error:
        raise StartError(str(error)) from error
    except OSError as error:
        raise StartError(
            f"the data folder cannot be made or written ({error}). "
            "Name another one: INFERDASH_DATA=/path make up."
        ) from error
    return settings


def make_plan() -> tuple[plan.SupervisorPlan, list[int]]:
    """The plan, and the descriptors that its programs need to inherit."""
    settings = _load_settings()
    if settings.WIRE == "box":
        lock = claim_folder(settings.DATA, f"box {settings.BOX}")
        return make_box_plan(settings), [lock]
    is_tls = settings.SERVES_TLS
    address = plan.address(settings.HOST, settings.PORT, is_tls=is_tls)
    lock = claim_folder(settings.DATA, address)
    certificates = _certificates(settings) if is_tls else None
    sockets = ports.listen(settings.HOST, settings.PORT)
    is_hub = settings.WIRE == "hub"
    own_redis = (
        None
        if is_hub
        else redis.choose(settings.REDIS_URL, settings.DATA, chosen=redis.is_chosen())
    )
    with hub.run_database(settings) if is_hub else nullcontext():
        link = migrate_and_invite(_where_to_begin(settings))
        next_steps = _invite_first_box() if os.environ.pop(_FIRST_BOX, "") else []
    more = hub.list_programs(settings) if is_hub else []
    if is_hub:
        hub.write_enrol_program(settings)

    inherited = [listening.detach() for listening in sockets]
    whole = plan.SupervisorPlan(
        address=address,
        loopback=plan.loopback(settings.HOST, settings.PORT, is_tls=is_tls),
        admin_link=link,
        warnings=[
            *plan.warnings(
                settings.HOST, settings.PORT, is_encrypted=is_tls or settings.BEHIND_TLS
            ),
            *(certificates.warnings() if certificates else []),
        ],
        notes=[*(certificates.list_notes() if certificates else []), *next_steps],
        programs=[
            *more,
            *plan.programs(
                python=sys.executable,
                root=settings.FILES,
                queue=settings.CELERY_TASK_DEFAULT_QUEUE,
                sockets=inherited,
                behind_tls=settings.BEHIND_TLS,
                redis=own_redis,
            ),
        ],
    )
    return whole, [lock, *inherited]


# Of the start that has made a hub: whoever asked for that wants to add a box.
_FIRST_BOX = "INFERDASH_FIRST_BOX"


def _invite_first_box() -> list[str]:
    """What is told of the token for it."""
    from django.utils import timezone

    from servers.lifecycle.links.invitations import LinkError, invite_box

    try:
        _invitation, token = invite_box(None, now=timezone.now())
    except LinkError as error:
        return [f"no token for a further box yet: {error}"]
    return [
        f"the further box runs this, within 30 minutes: make join TOKEN={token.write()}",
        "then let it in: Settings, Boxes",
    ]


def _certificates(settings: "ModuleType") -> "Certificates":
    from inferdash.tls.chosen import Certificates
    from inferdash.tls.pair import CertificateError

    try:
        return Certificates(settings)
    except CertificateError as error:
        raise StartError(str(error)) from error


def _where_to_begin(settings: "ModuleType") -> str:
    """The address of the first admin's link: on this machine, unless its certificate is for a name."""
    if settings.TLS_CERT and not ports.is_loopback(settings.HOST):
        return str(settings.PUBLIC_URL)
    return plan.loopback(settings.HOST, settings.PORT, is_tls=settings.SERVES_TLS)


if __name__ == "__main__":
    main()
