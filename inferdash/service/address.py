"""Settings that the installer needs: address, loopback, queue, Redis.

With --is-free it ends with a sentence where somebody else listens there already, and with
--can-encrypt where the certificate cannot be served; that prints what people should know of it.
A rollback runs it, and `snapshot`, of the release before: their names stay.
"""

import os
import sys

from inferdash.tls.chosen import Certificates
from inferdash.tls.pair import CertificateError
from inferdash.up import plan, ports, redis


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "inferdash.settings")
    from django.conf import settings

    if "--can-encrypt" in sys.argv and settings.SERVES_TLS:
        try:
            print(*Certificates(settings).list_notes(), sep="\n")
        except CertificateError as error:
            sys.exit(f"inferdash: {error}")
    if "--can-encrypt" in sys.argv:
        return
    if "--is-free" in sys.argv:
        try:
            sockets = ports.listen(settings.HOST, settings.PORT)
        except ports.PortError as error:
            sys.exit(f"inferdash: {error}")
        for each in sockets:
            each.close()
    whose = "chosen" if redis.is_chosen() else "own"
    here = (settings.HOST, settings.PORT)
    is_tls = settings.SERVES_TLS
    address, loopback = (make(*here, is_tls=is_tls) for make in (plan.address, plan.loopback))
    print(address, loopback, settings.CELERY_TASK_DEFAULT_QUEUE, whose)


if __name__ == "__main__":
    main()
