"""Permits of a box for containers: box.toml, changed on the box itself."""

import difflib
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from django.conf import settings
from django.db import transaction

from servers.host.files import paths
from servers.judge.runs import limits, open_limits
from servers.lifecycle.runs.creation import own_paths
from servers.models import AuditEntry

type Verb = Literal["allow", "forbid"]

# Source: capabilities(7).
CAPABILITIES = frozenset(
    [
        "AUDIT_CONTROL",
        "AUDIT_READ",
        "AUDIT_WRITE",
        "BLOCK_SUSPEND",
        "BPF",
        "CHECKPOINT_RESTORE",
        "CHOWN",
        "DAC_OVERRIDE",
        "DAC_READ_SEARCH",
        "FOWNER",
        "FSETID",
        "IPC_LOCK",
        "IPC_OWNER",
        "KILL",
        "LEASE",
        "LINUX_IMMUTABLE",
        "MAC_ADMIN",
        "MAC_OVERRIDE",
        "MKNOD",
        "NET_ADMIN",
        "NET_BIND_SERVICE",
        "NET_BROADCAST",
        "NET_RAW",
        "PERFMON",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYSLOG",
        "SYS_ADMIN",
        "SYS_BOOT",
        "SYS_CHROOT",
        "SYS_MODULE",
        "SYS_NICE",
        "SYS_PACCT",
        "SYS_PTRACE",
        "SYS_RAWIO",
        "SYS_RESOURCE",
        "SYS_TIME",
        "SYS_TTY_CONFIG",
        "WAKE_ALARM",
    ]
)
_VOLUME = re.compile(r"[A-Za-z0-9][\w.-]*")


class PermitError(Exception):
    """box.toml is not changed; the text says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class PermitChange:
    verb: Verb
    what: str  # one of boxfile's
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join((self.what, *self.values))


def change(verb: Verb, words: Sequence[str]) -> PermitChange:
    """What was typed behind allow or forbid. Raises PermitError."""
    what, values = words[0], tuple(words[1:])
    known = (*open_limits.SWITCHES, *open_limits.LISTS)
    if what not in known:
        near = difflib.get_close_matches(what, known, 1)
        hint = f" Is {near[0]} meant?" if near else ""
        raise PermitError(f"{what} is nothing that a box allows: {', '.join(known)}.{hint}")
    if what in open_limits.SWITCHES and values:
        raise PermitError(f"{what} takes nothing behind it. One line a permission.")
    if what in open_limits.LISTS and not values:
        raise PermitError(f"Say which: {what} and its name or path.")
    if what == "capability":
        values = tuple(each.upper().removeprefix("CAP_") for each in values)
    asked = PermitChange(verb=verb, what=what, values=values)
    if verb == "allow":
        for value in values:
            _CHECKS[what](value)
    return asked


def text_with(asked: PermitChange) -> str:
    """What box.toml is to say. Raises PermitError."""
    try:
        text = settings.BOX_FILE.read_text()
        edit = open_limits.allow_in_file if asked.verb == "allow" else open_limits.forbid_in_file
        made: str = edit(text, asked.what, asked.values)
    except limits.LimitsError as error:
        raise PermitError(f"{settings.BOX_FILE}: {error} Change it by hand.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise PermitError(f"{settings.BOX_FILE} cannot be read: {error}.") from error
    return made


def note(asked: PermitChange) -> None:
    """That it was done, for the activity."""
    AuditEntry.note(None, asked.verb, settings.BOX, limit=str(asked), **{"from": "command line"})


def do(asked: PermitChange) -> bool:
    """Change box.toml and note it, both or none; whether it did not say so already.

    Raises PermitError.
    """
    text = text_with(asked)
    if text == settings.BOX_FILE.read_text():
        return False
    try:
        with transaction.atomic():
            note(asked)
            _write(settings.BOX_FILE, text)
    except PermissionError as error:
        raise PermitError(
            f"{error.filename} is not to be written by this user. Type the same as root, or as whom "
            "inferdash runs."
        ) from error
    except OSError as error:
        raise PermitError(f"{settings.BOX_FILE} cannot be written: {error.strerror}.") from error
    return True


def _write(path: Path, text: str) -> None:
    """At once or not at all, with the rights that it has."""
    real = path.resolve()
    descriptor, draft = tempfile.mkstemp(prefix=f".{real.name}.", dir=real.parent)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        was = real.stat()
        shutil.copymode(real, draft)
        if (was.st_uid, was.st_gid) != (os.geteuid(), os.getegid()):
            os.chown(draft, was.st_uid, was.st_gid)
        Path(draft).replace(real)
    finally:
        Path(draft).unlink(missing_ok=True)


def _mount(value: str) -> None:
    own = own_paths()
    if not value.startswith("/") or ".." in PurePosixPath(value).parts:
        raise PermitError(f"{value} is no whole path: write it from the / on, without “..”.")
    # What would be refused with everything allowed is of no use in the list.
    everything = limits.Limits(mount_roots=("/",))
    if refused := limits.mount_refusal(value, everything, root=settings.HOST_ROOT, own=own):
        raise PermitError(refused)
    try:
        account = limits.account_places(own, root=settings.HOST_ROOT)
        held = limits.held_in(value, account, root=settings.HOST_ROOT)
    except paths.PathError as error:
        raise PermitError(str(error)) from error
    if held:
        raise PermitError(f"{value} is not allowed as a whole. {limits.whole_home(held)}")


def _device(value: str) -> None:
    parts = PurePosixPath(value).parts
    if parts[:2] != ("/", "dev") or len(parts) < 3 or ".." in parts:
        raise PermitError(f"{value} is no device: write its path below /dev, such as /dev/kvm.")


def _capability(value: str) -> None:
    if value not in CAPABILITIES:
        near = difflib.get_close_matches(value, CAPABILITIES, 1)
        hint = f" Is {near[0]} meant?" if near else ""
        raise PermitError(f"The kernel has no capability {value}.{hint}")


def _volume(value: str) -> None:
    if not _VOLUME.fullmatch(value):
        raise PermitError(f"{value} is not a name of a Docker volume.")


def _security_opt(value: str) -> None:
    name = value.replace("=", ":").partition(":")[0]
    known = ("apparmor", "label", "no-new-privileges", "seccomp", "systempaths", "writable-cgroups")
    if name not in known:
        raise PermitError(f"Docker has no security option {name}: {', '.join(known)}.")


_CHECKS = {
    "mount": _mount,
    "device": _device,
    "capability": _capability,
    "volume": _volume,
    "security_opt": _security_opt,
}
