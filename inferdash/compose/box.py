"""The start of a further box in a container: its join at the first one, then all that a box runs."""

import os
import sys
from typing import NoReturn

from servers.host.links.keys import KeyFileError
from servers.host.links.ssh import SshError


def main() -> NoReturn:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "inferdash.settings")
    from inferdash import settings
    from inferdash.wire.join import JoinError, join

    token, name = os.environ.pop("JOIN", ""), os.environ.pop("NAME", "")
    if settings.WIRE == "hub":
        sys.exit("inferdash: this project is a hub, and its worker and watcher are its own box.")
    if settings.WIRE != "box":
        if not token:
            sys.exit(
                "inferdash: this box has joined no hub yet. Settings, Boxes, Add a box on the hub "
                "makes a token: JOIN=ifj1_… docker compose up -d box."
            )
        try:
            join(token, name=name)
        except (JoinError, KeyFileError, SshError) as error:
            sys.exit(f"inferdash: {error}")
    os.execv(sys.executable, [sys.executable, "-m", "inferdash.up"])  # noqa: S606 - no shell wanted


if __name__ == "__main__":
    main()
