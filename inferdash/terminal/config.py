"""The address and the key to use: from the environment, then from a file."""

from __future__ import annotations

import json
import os
from pathlib import Path

from inferdash.terminal.api import USAGE, Api, TerminalError


def path() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "inferdash" / "terminal.json"


def api() -> Api:
    """Raises Problem when nobody has said where, or with which key."""
    kept = _read_file()
    url = os.environ.get("INFERDASH_URL") or kept.get("url", "")
    key = os.environ.get("INFERDASH_KEY") or kept.get("key", "")
    if not url or not key:
        raise TerminalError(
            "No inferdash is known here.",
            "Make a key on its page “Keys”, then: inferdash login http://rtx8:8470",
            code=USAGE,
        )
    # It belongs to the address that it was kept with.
    return Api(url, key, kept.get("ca", "") if url == kept.get("url") else "")


def keep(url: str, key: str, authority: str = "") -> Path:
    """For this person's eyes alone."""
    file = path()
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_suffix(".new")
    beside.unlink(missing_ok=True)
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as opened:
        json.dump({"url": url, "key": key} | ({"ca": authority} if authority else {}), opened)
    beside.replace(file)
    return file


def forget() -> bool:
    """Whether there was anything to forget."""
    was_there = path().exists()
    path().unlink(missing_ok=True)
    return was_there


def _read_file() -> dict[str, str]:
    try:
        found = json.loads(path().read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise TerminalError(
            f"{path()} cannot be read: {error}.",
            "Delete it, then log in again: inferdash login http://rtx8:8470",
            code=USAGE,
        ) from error
    return found if isinstance(found, dict) else {}
