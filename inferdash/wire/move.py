"""A hub on its way to another machine: `python -m inferdash.wire.move pack|unpack FILE`.

The file holds the whole database, and the keys by which boxes and secrets go on: the hub's host key
and those of its data folder. Boxes keep their keys and are told the new address.
"""

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from types import ModuleType

from inferdash.up.__main__ import AlreadyRunningError, claim_folder
from inferdash.wire import hub
from inferdash.wire.hub import HubSetupError

SNAPSHOT = "database"
# Of the data folder; the first two have to be there.
KEPT = ("wire/host_ed25519", "secrets.key", "django.key", "tls")


class HubMoveError(Exception):
    """Why the hub was not packed or unpacked, and what to do about it."""


def pack(file: Path) -> None:
    """While inferdash is stopped, so that nothing of it is left behind. Raises HubMoveError, HubSetupError."""
    settings = _load_settings()
    if settings.WIRE != "hub":
        raise HubMoveError(
            "This inferdash is no hub. One box moves by manage.py backup and restore."
        )
    with tempfile.TemporaryDirectory(dir=settings.DATA, prefix="move-") as scratch:
        snapshot = Path(scratch) / SNAPSHOT
        with hub.run_database(settings):
            _run("inferdash.service.snapshot", "take", str(snapshot))
        draft = file.with_name(f".{file.name}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as raw, tarfile.open(fileobj=raw, mode="w") as archive:
            archive.add(snapshot, SNAPSHOT)
            for name in KEPT:
                if (settings.DATA / name).exists():
                    archive.add(settings.DATA / name, name)
        draft.replace(file)
    _say(f"{file}: the whole hub, with its keys. Whoever has it is the hub; keep it as such.")
    _say("do not start inferdash here again: make up on the new machine, after unpack")


def unpack(file: Path) -> None:
    """Into an installation where nobody has been yet. Raises HubMoveError, HubSetupError."""
    settings = _load_settings()
    if settings.WIRE or (settings.DATA / "inferdash.sqlite3").exists():
        raise HubMoveError(
            f"{settings.DATA} holds an inferdash already. Name an empty folder: INFERDASH_DATA=/path."
        )
    with tempfile.TemporaryDirectory(dir=settings.DATA, prefix="move-") as scratch:
        try:
            with tarfile.open(file) as archive:
                archive.extractall(scratch, filter="data")
        except (OSError, tarfile.TarError) as error:
            raise HubMoveError(f"{file} cannot be unpacked: {error}.") from error
        for name in KEPT:
            if (found := Path(scratch) / name).exists():
                (settings.DATA / name).parent.mkdir(mode=0o700, exist_ok=True)
                found.rename(settings.DATA / name)
            elif name in KEPT[:2]:
                raise HubMoveError(f"{file} has no {name}: it is no file of move pack.")
        hub.set_up(settings)
        # By the settings of the hub that it is now.
        _run("inferdash.wire.move", "bring", str(Path(scratch) / SNAPSHOT))
    _say("say make up here; then, on each box, in its folder of inferdash:")
    _say("    .venv/bin/python manage.py hub_moved ADDRESS-OF-THIS-MACHINE")


def bring(snapshot: Path) -> None:
    """Raises HubMoveError, HubSetupError."""
    with hub.run_database(_load_settings()):
        _run("inferdash.service.snapshot", "bring-back", str(snapshot))


def _load_settings() -> ModuleType:
    from inferdash import settings

    return settings


def _run(module: str, *words: str) -> None:
    """Raises HubMoveError."""
    if subprocess.run([sys.executable, "-m", module, *words], check=False).returncode:
        raise HubMoveError("The database was not copied; the lines above say why.")


def _say(sentence: str) -> None:
    print(f"inferdash: {sentence}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m inferdash.wire.move", description=__doc__)
    parser.add_argument("verb", choices=("pack", "unpack", "bring"))
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "inferdash.settings")
    work = {"pack": pack, "unpack": unpack, "bring": bring}[options.verb]
    try:
        if options.verb == "bring":  # whoever started it has the folder
            work(options.file)
        else:
            lock = claim_folder(_load_settings().DATA, "a move of this hub")
            work(options.file.resolve())
            os.close(lock)
    except (HubMoveError, HubSetupError, AlreadyRunningError) as error:
        print(f"inferdash: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
