"""The join of this machine to a hub, as a box: `make join TOKEN=…`."""

import fcntl
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn
from urllib.parse import quote

from servers.host.links.files import WireFiles
from servers.host.links.keys import (
    KeyFileError,
    keep_key,
    keep_private,
    keep_seal_key,
    keep_text,
    make_key,
    write_public_line,
)
from servers.host.links.ssh import HubAddress, SshError, make_enrol_command, pin_host_key
from servers.judge.links.token import JoinToken, read_token
from servers.judge.links.words import make_words

# What the settings have read of it, which would stand before what the new one says.
_OF_OLD_WIRE = ("INFERDASH_WIRE", "INFERDASH_BOX", "DATABASE_URL", "REDIS_URL")


class JoinError(Exception):
    """Why this machine has not joined, and what to do about it."""


def main() -> NoReturn:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "inferdash.settings")
    try:
        is_anew = os.environ.pop("NEW_KEY", "") == "1"
        join(os.environ.pop("TOKEN", ""), name=os.environ.pop("NAME", ""), is_anew=is_anew)
    except (JoinError, KeyFileError, SshError) as error:
        sys.exit(f"inferdash: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
    if "--only" in sys.argv:
        sys.exit(0)
    os.execv(sys.executable, [sys.executable, "-m", "inferdash.up"])  # noqa: S606 - no shell wanted


def join(text: str, *, name: str, is_anew: bool = False) -> None:
    """`is_anew`: with a new key, where it has joined already. Raises JoinError, KeyFileError and SshError."""
    if not text:
        raise JoinError(
            "make join wants a token: an admin of the hub finds one under Settings, Boxes, Add a box."
        )
    try:
        token = read_token(text)
    except ValueError as error:
        raise JoinError(str(error)) from error
    from inferdash import settings

    files = final = WireFiles(settings.DATA)
    if is_anew and settings.WIRE == "box":
        _refuse_while_it_runs(settings.DATA)
        # Beside the old one, which stays what it is until this is let in.
        files = WireFiles(settings.DATA / "joining")
        shutil.rmtree(files.data, ignore_errors=True)
        name = name or settings.BOX
        for each in _OF_OLD_WIRE:
            os.environ.pop(each, None)
    else:
        _refuse_other_use(settings, files)
    account, _, host = token.address.rpartition("@")
    hub = HubAddress(host=host, port=token.port)
    host_line = pin_host_key(hub, token.host_key, files.known_hosts)
    key = keep_key(files.key)
    public_line = write_public_line(key)
    said = {
        "name": name or _make_name(),
        "public_key": public_line,
        "seal_key": keep_seal_key(files.seal_key),
        "hostname": socket.gethostname(),
        "machine_id": _read_machine_id(),
        "version": settings.VERSION,
        "schema": find_schema(),
    }
    words = make_words(host_line.encode(), public_line.encode(), token.ident.encode())
    answer = _enrol(hub, account, token, files, said, words)
    _keep(files, final, hub, answer)
    if files != final:
        shutil.rmtree(final.folder)
        files.folder.rename(final.folder)
        files.data.rmdir()
    _say(f"let in as {answer['slug']}")


def _enrol(
    hub: HubAddress,
    account: str,
    token: JoinToken,
    files: WireFiles,
    said: dict[str, Any],
    words: str,
) -> dict[str, Any]:
    """What the hub gives a box that was let in. Raises JoinError."""
    with tempfile.TemporaryDirectory(prefix="inferdash-join-") as scratch:
        once = Path(scratch) / "key"
        keep_private(once, make_key(token.seed))
        command = make_enrol_command(hub, account, key=once, known_hosts=files.known_hosts)
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as ssh:
            assert ssh.stdin is not None
            assert ssh.stdout is not None
            assert ssh.stderr is not None
            for line in ssh.stdout:
                heard = json.loads(line)
                if "ready" in heard:
                    ssh.stdin.write(json.dumps(said | {"time": time.time()}) + "\n")
                    ssh.stdin.flush()
                if "error" in heard:
                    raise JoinError(heard["error"])
                if "words" in heard:
                    _compare_words(heard["words"], words)
                if "joined" in heard:
                    return dict(heard["joined"])
            last = ssh.stderr.read().strip().splitlines()[-1:]
    raise JoinError(
        f"the hub hung up before it let this box in ({last[0] if last else 'it said nothing'}). "
        "If its token is older than 30 minutes or was withdrawn, ask for a new one."
    )


def _compare_words(heard: str, own: str) -> None:
    if heard != own:
        raise JoinError(
            "the hub says other words than this box: somebody stands between the two. Nothing was "
            "joined. Tell whoever gave you the token."
        )
    _say("an admin sees this box now under Settings, Boxes; these words must be the same there:")
    _say(f"    {own}")
    _say("waiting to be let in (Ctrl-C to give up)")


def _keep(files: WireFiles, final: WireFiles, hub: HubAddress, answer: dict[str, Any]) -> None:
    port = answer["database_port"]
    keep_text(files.relay_secret, answer["relay_secret"])
    kept = ("account", "database_port", "redis_port", "bulk_port", "box_port", "url")
    facts = {"host": hub.host, "port": hub.port} | {name: answer[name] for name in kept}
    keep_text(files.hub, json.dumps(facts))
    role, password = answer["role"], quote(answer["password"], safe="")
    folder = quote(str(final.database_folder), safe="/")
    lines = [
        "# Made by make join; docs/boxes.md says how a box leaves its hub.",
        "INFERDASH_WIRE=box",
        f"INFERDASH_BOX={answer['slug']}",
        f"DATABASE_URL=postgresql://{role}:{password}@:{port}/{answer['database']}?host={folder}",
        f"REDIS_URL=unix://{role}:{password}@{final.redis_socket}",
    ]
    # The last file: without it this is no box of a hub, and the join is begun anew.
    keep_text(files.env, "".join(f"{line}\n" for line in lines))


def _refuse_while_it_runs(data: Path) -> None:
    """Raises JoinError."""
    with (data / "up.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise JoinError(
                "inferdash runs here: stop it first (Ctrl-C). Engines go on meanwhile."
            ) from error


def _refuse_other_use(settings: ModuleType, files: WireFiles) -> None:
    if settings.WIRE == "hub":
        raise JoinError("this inferdash is a hub itself, and cannot join another one.")
    if settings.WIRE == "box":
        raise JoinError(
            f"this box has joined a hub already. Say make up. For a new key say NEW_KEY=1 besides; "
            f"to join another hub, stop inferdash here and remove {files.folder} first."
        )
    if os.environ.get("DATABASE_URL"):
        raise JoinError("a box has the hub's database: take DATABASE_URL out of its settings.")


def _make_name() -> str:
    return re.sub(r"[^a-z0-9-]+", "-", socket.gethostname().lower()).strip("-")[:63]


def _read_machine_id() -> str:
    try:
        return Path("/etc/machine-id").read_text().strip()
    except OSError:
        return ""


def find_schema() -> str:
    """The last migration that this version brings."""
    folder = Path(__file__).resolve().parents[2] / "servers" / "migrations"
    return max(path.stem for path in folder.glob("[0-9]*.py"))


def _say(sentence: str) -> None:
    print(f"inferdash: {sentence}", flush=True)


if __name__ == "__main__":
    main()
