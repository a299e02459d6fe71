"""Memory, processes and NVIDIA's driver as /proc and /sys show them."""

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")

# The inode number that the kernel gives the pid namespace it boots with (PROC_PID_INIT_INO).
_INITIAL_PID_NAMESPACE = "pid:[4026531836]"

# docker, podman, containerd and CRI-O, with cgroup v1 or v2, systemd's names or plain folders.
_CONTAINER = re.compile(r"(?:^|[/:-])([0-9a-f]{64})(?:\.scope)?(?=$|/)", re.MULTILINE)
_ARC_SIZE = re.compile(r"^size\s+\d+\s+(\d+)$", re.MULTILINE)
_DRIVER_VERSION = re.compile(r"^NVRM version:.*?\s(\d+\.\d+(?:\.\d+)?)\s", re.MULTILINE)
_RSS_ANON = re.compile(r"^RssAnon:\s+(\d+) kB$", re.MULTILINE)
_UID = re.compile(r"^Uid:\s+(\d+)", re.MULTILINE)
_SECRET_NAME = re.compile(r"(?:key|token|secret|password|passwd)$", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"\b(?:hf_|sk-|Bearer\s+)\S+")

_TITLE_LENGTH = 300
_MASK = "•••"


class KernelError(Exception):
    """The kernel's files cannot be read, with a sentence for the person who looks after the box."""


@dataclass(frozen=True, kw_only=True)
class Process:
    """One process at one moment. None means that the kernel does not tell."""

    pid: int
    start: int  # clock ticks after boot; with pid and boot id this names a process for good
    started_at: float | None  # unix seconds
    ppid: int
    name: str
    title: str  # the command line with secrets masked; the name where there is none
    state: str  # R running, S sleeping, D waiting in the kernel (cannot be killed), Z zombie, ...
    user: str | None  # login name, or the number where /etc/passwd has no such user
    container: str | None  # 64 hexadecimal digits
    own: int | None = None  # bytes of RssAnon: heap and stacks, nothing of the GPU's


@dataclass(frozen=True, kw_only=True)
class ProcessSummary:
    """What every process tells of itself, whoever asks."""

    name: str
    start: int  # clock ticks after boot
    ppid: int
    state: str


@dataclass(frozen=True, kw_only=True)
class PressureStall:
    """Shares of the last 10 s in which some, or all, tasks waited for memory. Percent."""

    some: float
    full: float


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """The kernel's files under a root, which is `/` except in tests."""

    root: Path = Path("/")

    def meminfo(self) -> dict[str, int]:
        """Every line of /proc/meminfo, in bytes; HugePages_* lines are counts of pages.

        Raises KernelError: without this file nothing can be said about the box.
        """
        path = self.root / "proc/meminfo"
        try:
            text = path.read_text()
        except OSError as error:
            raise KernelError(
                f"{path} cannot be read ({error.strerror}), so the memory of this box is unknown: "
                "mount /proc where the worker runs."
            ) from error
        return _sizes(text)

    def outside_meminfo(self) -> dict[str, int]:
        """Bytes that no line of meminfo counts: of swap that is compressed, and of ZFS's cache."""
        devices = sorted((self.root / "sys/block").glob("zram*"))
        swaps = (self.text(f"sys/block/{each.name}/mm_stat") for each in devices)
        # Its third number: all that it takes, compressed.
        zram = sum(int(words[2]) for text in swaps if len(words := text.split()) > 2)
        arc = _ARC_SIZE.search(self.text("proc/spl/kstat/zfs/arcstats"))
        found = {"Zram": zram, "ZfsArc": int(arc[1]) if arc else 0}
        return {name: size for name, size in found.items() if size}

    def node_meminfo(self, node: int) -> dict[str, int] | None:
        """The same lines for one NUMA node, in bytes; None when the kernel has no such node."""
        text = self.text(f"sys/devices/system/node/node{node}/meminfo")
        return _sizes(re.sub(r"^Node \d+ ", "", text, flags=re.MULTILINE)) or None

    def boot_id(self) -> str | None:
        """A UUID that is new at each boot."""
        return self.text("proc/sys/kernel/random/boot_id").strip() or None

    def release(self) -> str | None:
        """Its version, such as 6.8.0-88-generic."""
        return self.text("proc/sys/kernel/osrelease").strip() or None

    def uptime(self) -> float | None:
        """Seconds since the boot."""
        text = self.text("proc/uptime")
        return float(text.split()[0]) if text else None

    def booted_at(self) -> float | None:
        """Unix seconds of the boot."""
        found = re.search(r"^btime (\d+)", self.text("proc/stat"), re.MULTILINE)
        return float(found[1]) if found else None

    def sees_host_pids(self) -> bool:
        """Whether this process lives in the pid namespace the machine booted with.

        Elsewhere NVML leaves out, without a word, every process that is not in the namespace.
        """
        try:
            return str((self.root / "proc/self/ns/pid").readlink()) == _INITIAL_PID_NAMESPACE
        except OSError:
            return False

    def driver_version(self) -> str | None:
        """The version of the NVIDIA kernel module that is loaded; None when none is."""
        found = _DRIVER_VERSION.search(self.text("proc/driver/nvidia/version"))
        return found[1] if found else None

    def driver_params(self) -> dict[str, int]:
        """The NVIDIA module's numeric parameters in force; empty when the module is not loaded."""
        text = self.text("proc/driver/nvidia/params")
        pairs = re.findall(r"^(\w+): (\d+)$", text, re.MULTILINE)
        return {name: int(value) for name, value in pairs}

    def memory_pressure(self) -> PressureStall | None:
        """None where the kernel was built or booted without pressure stall information."""
        text = self.text("proc/pressure/memory")
        shares = dict(re.findall(r"^(some|full) avg10=([\d.]+)", text, re.MULTILINE))
        if "some" not in shares or "full" not in shares:
            return None
        return PressureStall(some=float(shares["some"]), full=float(shares["full"]))

    def read_swapped(self) -> tuple[int, int] | None:
        """Bytes read from and written to swap since the boot."""
        found = dict(re.findall(r"^(pswpin|pswpout) (\d+)$", self.text("proc/vmstat"), re.M))
        if len(found) != 2:
            return None
        return int(found["pswpin"]) * PAGE, int(found["pswpout"]) * PAGE

    def oom_kills(self) -> int | None:
        """Processes that were killed for want of memory since the boot, anybody's; None before
        Linux 4.13, which does not count them in /proc/vmstat."""
        found = re.search(r"^oom_kill (\d+)$", self.text("proc/vmstat"), re.MULTILINE)
        return int(found[1]) if found else None

    def users(self) -> dict[int, str]:
        """Login names of /etc/passwd. The name service is not asked: it can hang on a network."""
        names: dict[int, str] = {}
        for line in self.text("etc/passwd").splitlines():
            fields = line.split(":")
            if len(fields) > 2 and fields[2].isdigit():
                names.setdefault(int(fields[2]), fields[0])
        return names

    def own_memory(self, pid: int) -> int | None:
        """Bytes of RssAnon of a process; None when it is gone, or a thread of the kernel's."""
        found = _RSS_ANON.search(self.text(f"proc/{pid}/status"))
        return int(found[1]) * 1024 if found else None

    def life(self, pid: int) -> ProcessSummary | None:
        """None when there is no such process."""
        stat = self.text(f"proc/{pid}/stat")
        if not stat:
            return None
        # The name stands in brackets and may itself hold brackets and spaces.
        name = stat[stat.index("(") + 1 : stat.rindex(")")]
        state, ppid, *fields = stat[stat.rindex(")") + 2 :].split()
        return ProcessSummary(name=name, state=state, ppid=int(ppid), start=int(fields[17]))

    def uid(self, pid: int) -> int | None:
        """The real user's number; None when it is gone."""
        found = _UID.search(self.text(f"proc/{pid}/status"))
        return int(found[1]) if found else None

    def cgroup(self, pid: int) -> str:
        """The lines of its cgroups; "" when it is gone."""
        return self.text(f"proc/{pid}/cgroup")

    def pids(self) -> list[int]:
        """Every process there is; nothing where /proc cannot be listed."""
        try:
            return [
                int(each.name) for each in (self.root / "proc").iterdir() if each.name.isdigit()
            ]
        except OSError:
            return []

    def text(self, path: str) -> str:
        """A file below the root; "" where it is not there, or may not be read."""
        # A process that ends while its files are read answers ESRCH, one of another
        # user EACCES, a machine without the feature ENOENT: each time the fact is absent.
        try:
            return (self.root / path).read_text(errors="replace")
        except OSError:
            return ""


class Processes:
    """Reads processes again and again, and what cannot change only once."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._users = kernel.users()
        self._booted_at = kernel.booted_at()
        self._seen: dict[tuple[int, int], Process] = {}
        self._rounds = 0

    def with_own(self, pids: set[int]) -> list[Process]:
        """As read(), and what each holds of the machine's memory: where that is the GPU's, too."""
        return [self._measure(process) for process in self.read(pids)]

    def _measure(self, process: Process) -> Process:
        return replace(process, own=self._kernel.own_memory(process.pid))

    def read(self, pids: set[int]) -> list[Process]:
        """The processes with these pids, in order of pid; those that are gone are left out."""
        self._rounds += 1
        found = [process for pid in sorted(pids) if (process := self._one(pid)) is not None]
        self._seen = {(process.pid, process.start): process for process in found}
        return found

    def _one(self, pid: int) -> Process | None:
        said = self._kernel.life(pid)
        if said is None:
            return None
        known = self._seen.get((pid, said.start))
        return Process(
            pid=pid,
            **vars(said),
            started_at=self._time(said.start),
            title=self._title(pid, said.name, said.state, known),
            user=known.user if known else self._user(pid),
            container=known.container if known else self._container(pid),
        )

    def _time(self, start: int) -> float | None:
        if self._booted_at is None:
            return None
        return round(self._booted_at + start / TICKS_PER_SECOND, 2)

    def _title(self, pid: int, name: str, state: str, known: Process | None) -> str:
        # Reading the command line takes the lock on the process's memory, which a process
        # stuck in the driver may hold for ever: such a one is never asked. Engines rename
        # themselves while they start, so the others are asked again now and then.
        if known and (state in "DZX" or self._rounds % 10):
            return known.title
        if state in "DZX":
            return name
        return mask_command_line(self._kernel.text(f"proc/{pid}/cmdline")) or name

    def _user(self, pid: int) -> str | None:
        uid = self._kernel.uid(pid)
        return None if uid is None else self._users.get(uid, str(uid))

    def _container(self, pid: int) -> str | None:
        ids = _CONTAINER.findall(self._kernel.text(f"proc/{pid}/cgroup"))
        return ids[-1] if ids else None


def mask_command_line(cmdline: str) -> str:
    """A command line (words end with NUL) as one line without the values of secrets."""
    words: list[str] = []
    hide_next = False
    for word in cmdline.rstrip("\0").split("\0"):
        name, equals, _value = word.partition("=")
        if hide_next:
            words.append(_MASK)
        elif equals and _SECRET_NAME.search(name):
            words.append(f"{name}={_MASK}")
        else:
            words.append(_SECRET_VALUE.sub(_MASK, word))
        hide_next = not equals and word.startswith("-") and bool(_SECRET_NAME.search(word))
    return " ".join(" ".join(words).split())[:_TITLE_LENGTH]


def _sizes(text: str) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for line in text.splitlines():
        name, _colon, rest = line.partition(":")
        words = rest.split()
        if words:
            sizes[name] = int(words[0]) * (1024 if words[1:] == ["kB"] else 1)
    return sizes
