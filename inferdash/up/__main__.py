"""The start of `make up`, which becomes the supervisor."""

import os
import sys
from typing import TYPE_CHECKING, NoReturn

from inferdash.up import claim, plan, ports, redis

if TYPE_CHECKING:
    from types import ModuleType

    from inferdash.tls.chosen import Certificates


class StartError(Exception):
    """Why nothing was started, and what to do about it."""


def main() -> NoReturn:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "inferdash.settings")
    try:
        descriptor = prepare()
    except claim.AlreadyRunningError as running:
        print(f"inferdash: {running}")
        sys.exit(0 if running.is_same else 1)
    except (StartError, ports.PortError, redis.RedisError) as error:
        sys.exit(f"inferdash: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
    # Django and psutil have done their work: the program that now stays for weeks does
    # without their memory. Lock, sockets and plan go along as open descriptors.
    supervisor = [sys.executable, "-m", "inferdash.up.supervisor", str(descriptor)]
    os.execv(sys.executable, supervisor)  # noqa: S606 - our own program, no shell wanted


def prepare() -> int:
    """Do all that can fail with a sentence; return the descriptor that the plan is written to."""
    whole, inherited = make_plan()
    return plan.write(whole, keep_open=inherited)


def make_plan() -> tuple[plan.SupervisorPlan, list[int]]:
    """The plan, and the descriptors that its programs need to inherit."""
    from django.core.exceptions import ImproperlyConfigured

    try:
        from inferdash import settings
    except ImproperlyConfigured as error:
        raise StartError(str(error)) from error
    except OSError as error:
        raise StartError(
            f"the data folder cannot be made or written ({error}). "
            "Name another one: INFERDASH_DATA=/path make up."
        ) from error

    is_tls = settings.SERVES_TLS
    address = plan.address(settings.HOST, settings.PORT, is_tls=is_tls)
    lock = claim.take(settings.DATA, address)
    certificates = _certificates(settings) if is_tls else None
    sockets = ports.listen(settings.HOST, settings.PORT)
    own_redis = redis.choose(settings.REDIS_URL, settings.DATA, chosen=redis.is_chosen())

    from inferdash.up import database

    try:
        link = database.migrate_and_invite(_where_to_begin(settings))
    except database.DatabaseError as error:
        raise StartError(str(error)) from error

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
        notes=certificates.list_notes() if certificates else [],
        programs=plan.programs(
            python=sys.executable,
            root=settings.FILES,
            queue=settings.CELERY_TASK_DEFAULT_QUEUE,
            sockets=inherited,
            behind_tls=settings.BEHIND_TLS,
            redis=own_redis,
        ),
    )
    return whole, [lock, *inherited]


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
