"""The limits that a box sets to containers, whatever a profile asks for, and the rights that none has.

The limits stand in the worker's own file, which the web process cannot write: whoever
takes over the web still cannot mount / into a container.
"""

import re
import shlex
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from servers.host.files import paths
from servers.judge.messages import say
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


def drop_rights(spec: Spec, *, pids: int, without: Collection[str] = ()) -> Spec:
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


# What a new box lets profiles mount, whether it is there yet or not. Never a whole home: who may
# write to ~/.ssh or ~/.bashrc has the account.
MODEL_FOLDERS = ("models", ".cache/huggingface", ".cache/modelscope", ".cache/llama.cpp")
KERNEL_FOLDERS = (".cache/vllm", ".cache/sglang", ".cache/flashinfer", ".triton")
HOME_FOLDERS = (*MODEL_FOLDERS, *KERNEL_FOLDERS)
FOLDERS = ("/models", "/data", "/mnt", "/srv", "/raid")
# What makes an account its person's: keys, programs of one's own, and what a shell runs first.
OF_ACCOUNT = (
    *(".ssh", ".config", ".local", ".gnupg", ".docker", ".pam_environment", ".xprofile"),
    *(".profile", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases"),
    *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".xsessionrc"),
)
# What a file that does not say counts as, where that is not what a new file says: it was written
# when this was so, and engines run by it.
_UNSAID: dict[str, Any] = {"host_network": True}
_NAMED_ROOTS = 4  # in a refusal
MANAGE = "inferdash-manage"

_ORIGIN = re.compile(r"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?/?")


@dataclass(frozen=True, kw_only=True)
class Limits:
    # Bind mounts must lie below one of these after symbolic links are followed.
    mount_roots: tuple[str, ...] = ()
    # Docker volumes beside those that inferdash made: another program's may hold anything.
    volumes: tuple[str, ...] = ()
    privileged: bool = False
    host_network: bool = False
    host_ipc: bool = True
    host_pid: bool = False
    devices: tuple[str, ...] = ("/dev/infiniband",)
    cap_add: tuple[str, ...] = ("SYS_NICE", "IPC_LOCK")
    security_opt: tuple[str, ...] = ()
    reclaim: bool = False  # may caches of the kernel be dropped, which takes root's rights
    # Where a registry may send for a token beside what servers.host.images.registry allows.
    token_realms: tuple[str, ...] = ()
    open_ports: bool = True  # may engine ports bind beyond 127.0.0.1
    pids_limit: int = PIDS  # processes and threads of a container; 0: any number


@dataclass(frozen=True, kw_only=True)
class OwnLimits:
    """Paths on the box that are no container's."""

    # Whoever has one of these has the box: nothing at them, below them, or around them.
    box: tuple[str, ...] = ()
    # And the account: nothing at them or below them. What is around them is for mount_roots to say.
    account: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[str]:
        return iter(self.box + self.account)


class LimitsError(Exception):
    """The limits file cannot be used; the text says which line and what to write."""


def default_roots(home: str) -> tuple[str, ...]:
    """What a new box lets profiles mount."""
    return (*of_home(home), *FOLDERS)


def of_home(home: str, folders: Iterable[str] = HOME_FOLDERS) -> tuple[str, ...]:
    """What of a home it lets them mount, or those of it with models or with kernels."""
    return tuple(f"{home.rstrip('/')}/{folder}" for folder in folders)


def default_text(home: str) -> str:
    """The limits file that a new worker writes, with every limit and what it opens."""
    roots = "".join(f"    {toml(folder)},\n" for folder in default_roots(home))
    template = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return template.format(roots=roots, pids=PIDS, dropped=", ".join(DROPPED))


def toml(text: str) -> str:
    """A text as TOML writes one. Source: TOML 1.0, basic strings."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in escaped) + '"'


def read(path: Path) -> Limits:
    """The limits in a file. Raises LimitsError, and OSError when it cannot be read."""
    try:
        return parse(path.read_text())
    except UnicodeDecodeError as error:
        raise LimitsError(say("runs.limits-not-utf8", path=path).text) from error
    except LimitsError as error:
        raise LimitsError(f"{path}: {error}") from error


def parse(text: str) -> Limits:
    """The limits that a file of this text sets. Raises LimitsError."""
    try:
        values: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise LimitsError(say("runs.limits-not-toml", error=error).text) from error
    defaults = Limits()
    known = {field.name for field in fields(Limits)}
    for name, value in values.items():
        if name not in known:
            said = say("runs.limits-unknown", name=name, known=", ".join(sorted(known)))
            raise LimitsError(said.text)
        if not _is_like(value, getattr(defaults, name)):
            codes = {bool: "runs.limits-not-a-switch", int: "runs.limits-not-a-number"}
            code = codes.get(type(getattr(defaults, name)), "runs.limits-not-a-list")
            raise LimitsError(say(code, name=name).text)
    for realm in values.get("token_realms", ()):
        if not _ORIGIN.fullmatch(realm):
            raise LimitsError(say("runs.limits-not-a-realm", realm=realm).text)
    allowed: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
    }
    return Limits(**_UNSAID | allowed)


def _is_like(value: object, default: object) -> bool:
    if isinstance(default, tuple):
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if isinstance(default, bool):
        return isinstance(value, bool)
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def refusals(
    spec: Spec,
    limits: Limits,
    *,
    root: Path = Path("/"),
    own: Iterable[str] = (),
    manage: str = MANAGE,
    beside: str = "",
) -> list[str]:
    """Why this box will not run this container: one sentence a reason, empty when it will.

    Each ends with the line to type on the box for whoever wants to allow it; `manage` is how
    inferdash's own commands are called there.

    Checked on the resolved spec, as the last thing before Docker is asked. `root` is where
    this process sees the box's "/". `own` are paths on the box that no container gets,
    whatever the limits say: whoever has inferdash's keys or Docker's socket has the box.
    `beside` is a container of inferdash's own whose network this one may share.
    """
    found = [
        mount_refusal(mount.source, limits, root=root, own=own, manage=manage)
        for mount in spec.mounts
        if mount.kind == "bind"
    ]
    found += [
        _of_device(device.split(":")[0], limits, root, manage=manage) for device in spec.devices
    ]
    asked_and_allowed = [
        (spec.privileged, limits.privileged, "runs.limit-privileged", "privileged"),
        (spec.network == "host", limits.host_network, "runs.limit-host-network", "host_network"),
        (spec.ipc == "host", limits.host_ipc, "runs.limit-host-ipc", "host_ipc"),
        (spec.pid == "host", limits.host_pid, "runs.limit-host-pid", "host_pid"),
        (
            any(not _is_loopback(port.host_ip) for port in spec.ports),
            limits.open_ports,
            "runs.limit-open-ports",
            "open_ports",
        ),
    ]
    found += [
        f"{say(code)} {granted_by(manage, name)}"
        for asked, allowed, code, name in asked_and_allowed
        if asked and not allowed
    ]
    for name in ("network", "ipc", "pid"):
        is_beside = name == "network" and beside and spec.network == f"container:{beside}"
        if getattr(spec, name).startswith("container:") and not is_beside:
            found.append(say("runs.limit-namespace", name=name).text)
    found += [
        f"{say(code, item=item)} {granted_by(manage, word, item)}"
        for code, word, items, allowed in (
            ("runs.limit-capability", "capability", spec.cap_add, limits.cap_add),
            ("runs.limit-security-option", "security_opt", spec.security_opt, limits.security_opt),
        )
        for item in items
        if item not in allowed and not takes_privileges(item)
    ]
    return [sentence for sentence in found if sentence]


def granted_by(manage: str, *words: str) -> str:
    """The sentence with the line that allows something on the box. `manage` is a shell's words."""
    return say("runs.limit-allowed-by", line=line(manage, "allow", *words)).text


def line(manage: str, *words: str) -> str:
    return f"{manage} {shlex.join(words)}"


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


def mount_refusal(
    source: str,
    limits: Limits,
    *,
    root: Path = Path("/"),
    own: Iterable[str] = (),
    manage: str = MANAGE,
) -> str:
    """Why this box does not let a container have this path; "" when it does.

    `root`, `own` and `manage` as for refusals().
    """
    # Followed to the end: a link below an allowed folder may lead to /etc.
    try:
        real = paths.resolve(source, root=root)
        allowed = [paths.resolve(folder, root=root) for folder in limits.mount_roots]
        if kept := _kept_from(real, source, own, root):
            return kept
    except paths.PathError as error:
        return str(error)
    if any(real.is_relative_to(folder) for folder in allowed):
        return ""
    roots = _name_roots(limits.mount_roots) or say("runs.limit-no-folders").text
    if str(real) == source:
        says = say("runs.limit-mount", path=source, roots=roots)
    else:
        says = say("runs.limit-mount-elsewhere", path=source, real=real, roots=roots)
    if held := held_in(str(real), account_places(own, root=root), root=root):
        return f"{says} {whole_home(held)}"
    return f"{says} {granted_by(manage, 'mount', str(real))}"


def _name_roots(roots: tuple[str, ...]) -> str:
    """A few of them: a box's page and its file have all."""
    named = ", ".join(roots[:_NAMED_ROOTS])
    return f"{named} and {len(roots) - _NAMED_ROOTS} more" if len(roots) > _NAMED_ROOTS else named


def account_places(own: Iterable[str], *, root: Path = Path("/")) -> dict[str, PurePosixPath]:
    """The parts of an account and where each leads, for held_in(). Raises PathError."""
    account = own.account if isinstance(own, OwnLimits) else ()
    return {each: paths.follow_links(each, root=root) for each in account}


def held_in(
    folder: str, account: Mapping[str, PurePosixPath], *, root: Path = Path("/")
) -> tuple[str, ...]:
    """Which parts of an account a folder holds. Raises PathError."""
    real = paths.resolve(folder, root=root)
    return tuple(each for each, place in account.items() if place.is_relative_to(real))


def whole_home(held: tuple[str, ...]) -> str:
    """Why a folder that holds these is not to be mounted, and what is."""
    folders = ", ".join(f"~/{each}" for each in HOME_FOLDERS)
    return say("runs.limit-whole-home", held=held[0], folders=folders).text


def _kept_from(real: PurePosixPath, source: str, own: Iterable[str], root: Path) -> str:
    """Why no container gets this, whatever is allowed. Raises PathError."""
    account = own.account if isinstance(own, OwnLimits) else ()
    for path in own.box if isinstance(own, OwnLimits) else own:
        kept = paths.resolve(path, root=root)
        if kept.is_relative_to(real) or real.is_relative_to(kept):
            return say("runs.limit-own", path=source, kept=kept).text
    for path in account:
        if real.is_relative_to(paths.follow_links(path, root=root)):
            return say("runs.limit-account", path=source, kept=path).text
    return ""


def _of_device(device: str, limits: Limits, root: Path, *, manage: str) -> str:
    # Docker follows links and ".." here too.
    try:
        real = paths.resolve(device, root=root)
        allowed = [paths.resolve(path, root=root) for path in limits.devices]
    except paths.PathError as error:
        return str(error)
    if device.startswith("/") and any(real.is_relative_to(path) for path in allowed):
        return ""
    grant = granted_by(manage, "device", str(real)) if device.startswith("/") else ""
    return f"{say('runs.limit-device', device=device)} {grant}".rstrip()
