"""Prints what the installer must know of the settings: address, loopback, queue, whose Redis.

With --is-free it ends with a sentence where somebody else listens there already.
"""

import os
import sys

from inferdash.up import plan, ports, redis


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "inferdash.settings")
    from django.conf import settings

    if "--is-free" in sys.argv:
        try:
            sockets = ports.listen(settings.HOST, settings.PORT)
        except ports.PortError as error:
            sys.exit(f"inferdash: {error}")
        for each in sockets:
            each.close()
    whose = "chosen" if redis.is_chosen() else "own"
    here = (settings.HOST, settings.PORT)
    print(plan.address(*here), plan.loopback(*here), settings.CELERY_TASK_DEFAULT_QUEUE, whose)


if __name__ == "__main__":
    main()
