"""Rights that engines' containers go without."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Literal

from servers.launch.spec import Spec

type Part = Literal["capabilities", "no-new-privileges", "pids"]

PARTS: tuple[Part, ...] = ("capabilities", "no-new-privileges", "pids")

# Of those that Docker gives by itself. No engine needs them: to read every packet of the network
# that it is in, to make devices, to write to the kernel's audit log, and to leave a program behind
# on a mounted disk that has rights of its own. Source: capabilities(7), moby's oci/caps/defaults.go.
DROPPED = ("NET_RAW", "MKNOD", "SETFCAP", "AUDIT_WRITE", "SYS_CHROOT")
_BITS = dict(zip(DROPPED, (13, 27, 31, 29, 18), strict=True))  # of linux/capability.h
# sudo and its like gain nothing in such a container. Source: kernel documentation, no_new_privs.
NO_NEW_PRIVILEGES = "no-new-privileges"
# Processes and threads together: a loading engine has some 2000 on a large box.
PIDS = 32768


def harden(spec: Spec, *, pids: int, without: Collection[str] = ()) -> Spec:
    """The container with fewer rights than Docker gives by itself.

    `pids` is how many processes and threads it may have, 0: as many as it likes. `without` are
    parts that the box's Docker refuses. What the profile asks for stays: a capability that it
    adds, and “no-new-privileges:false”; whether it may have them is for limits.refusals to say.
    A privileged container has all rights whatever is dropped, so that none is: its processes alone
    are counted.
    """
    limit = spec.pids_limit if "pids" in without or not pids else pids
    if spec.privileged:
        return replace(spec, pids_limit=limit)
    dropped = tuple(name for name in DROPPED if not {name, "ALL"} & set(capabilities(spec)))
    has_said = any(map(is_about_privileges, spec.security_opt))
    option = () if has_said else (NO_NEW_PRIVILEGES,)
    return replace(
        spec,
        cap_drop=spec.cap_drop if "capabilities" in without else dropped,
        security_opt=spec.security_opt + (() if NO_NEW_PRIVILEGES in without else option),
        pids_limit=limit,
    )


def list_kept(status: Mapping[str, str], parts: Collection[str]) -> list[str]:
    """Which of these parts a program has not lost, by its /proc/self/status.

    What the kernel does not tell counts as lost. Rule: proc_pid_status(5), CapBnd and NoNewPrivs.
    """
    found = []
    bounds = int(status.get("CapBnd") or "0", 16)
    if "capabilities" in parts and any(bounds >> bit & 1 for bit in _BITS.values()):
        found.append("capabilities")
    if NO_NEW_PRIVILEGES in parts and status.get("NoNewPrivs", "1") != "1":
        found.append(NO_NEW_PRIVILEGES)
    return found


def capabilities(spec: Spec) -> tuple[str, ...]:
    """Those that are added, spelled as Docker's own list spells them."""
    return tuple(name.upper().removeprefix("CAP_") for name in spec.cap_add)


def is_about_privileges(option: str) -> bool:
    """Whether a --security-opt says whether programs may gain privileges."""
    return option.replace("=", ":").partition(":")[0] == NO_NEW_PRIVILEGES


def takes_privileges(option: str) -> bool:
    """Whether a --security-opt says what every container here is given anyway."""
    said = option.replace("=", ":").partition(":")[2]
    return is_about_privileges(option) and said in ("", "true")
