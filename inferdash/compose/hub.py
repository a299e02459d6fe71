"""The users of Redis, and the settings of a hub where COMPOSE_PROFILES names it: `… FOLDER`.

Without it Redis asks nobody for a password: only these containers mount its socket.
"""

import os
import re
import secrets
import sys
from pathlib import Path

from servers.host.links import redis_users
from servers.host.links.files import WireFiles
from servers.host.links.keys import keep_key, keep_text

PROFILE = "hub"
ONE_BOX = "user default on nopass ~* &* +@all\n"


class PartError(Exception):
    """Why this project cannot be what its settings ask for, and what to do about it."""


def main() -> None:
    try:
        users = set_up(WireFiles(Path(os.environ["INFERDASH_DATA"])), os.environ)
    except PartError as error:
        sys.exit(f"inferdash: {error}")
    # Redis has an account of its own, and saves the users of boxes there; of passwords it is told
    # hashes.
    folder = Path(sys.argv[1]) / "redis"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    path = folder / "users.acl"
    hashed = re.search("#[0-9a-f]{64}", users)
    if hashed and path.exists() and hashed[0] in path.read_text():
        return  # with the boxes that were let in since
    keep_text(path, users)
    path.chmod(0o644)


def set_up(files: WireFiles, settings: "os._Environ[str] | dict[str, str]") -> str:
    """The text of Redis' aclfile. Raises PartError."""
    before = files.env.read_text() if files.env.exists() else ""
    if "INFERDASH_WIRE=box" in before:
        raise PartError(
            "this machine has joined a hub as a box, where only the service box runs: docker compose "
            "up -d box. To make it an inferdash of its own, delete the folder wire in the volume "
            "data first."
        )
    if PROFILE not in settings.get("COMPOSE_PROFILES", "").split(","):
        # Whoever is no hub any more keeps its keys, should it become one again.
        files.env.unlink(missing_ok=True)
        return ONE_BOX
    found = re.search(r"^REDIS_URL=unix://\w+:([\w-]+)@", before, re.MULTILINE)
    password = found[1] if found else secrets.token_urlsafe(24)
    keep_key(files.host_key)
    lines = [
        f"# Made for COMPOSE_PROFILES={PROFILE}; docs/boxes.md says how to go back to one box.",
        "INFERDASH_WIRE=hub",
        # sshd runs what takes in a box with these settings and no others.
        f"DATABASE_URL={settings['DATABASE_URL']}",
        f"REDIS_URL=unix://{redis_users.HUB}:{password}@{settings['INFERDASH_REDIS_SOCKET']}",
    ]
    keep_text(files.env, "".join(f"{line}\n" for line in lines))
    return redis_users.write_file([(redis_users.HUB, redis_users.make_hub_rules(password))])


if __name__ == "__main__":
    main()
