"""The private Redis as a program for systemd."""

import os
import sys

from inferdash.up import redis


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "inferdash.settings")
    from django.conf import settings

    try:
        command = redis.choose(settings.REDIS_URL, settings.DATA, chosen=False)
    except redis.RedisError as error:
        sys.exit(f"inferdash: {error}")
    assert command is not None  # it is only asked for one of another's
    os.execv(command[0], command)  # noqa: S606 - the machine's own server, or ours


if __name__ == "__main__":
    main()
