"""A network and a mount namespace of the tests' own, entered by whoever runs them as root.

Their Docker Engines make bridges and rules, their programs take ports and mount file systems:
all of that is in here, none of it on the machine, and it is gone with the last process inside.
Packages are still reached: slirp4netns passes connections on as an ordinary program does.

Sessions that run at once share it, as they share the Docker Engine. By hand, with what
`python -m tests.docker_engine up` started: `python -m tests.namespace COMMAND`.
"""

import errno
import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

# Kept between runs, so that images are built once.
FOLDER = Path(os.environ.get("INFERDASH_TEST_CACHE", Path.home() / ".cache/inferdash-tests"))
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
# Ports for connections that go out. Below them lie those that tests listen on (tests.ports).
EPHEMERAL = "40000 60999"
RESOLVER = "10.0.2.3"  # slirp4netns's own, which asks whom the machine asks
# Says to the processes of a session that they are inside, and in which.
VARIABLE = "INFERDASH_TEST_NAMESPACE"
_sessions: list[int] = []  # the open ends of the pipe that keep it


class NamespaceError(Exception):
    """It cannot be made or entered; the text says why."""


def enter() -> None:
    """From here on this process and its children are inside. Without root: nothing happens.

    Raises NamespaceError. For a process of one thread: the kernel moves threads, not processes.
    """
    if os.geteuid() != 0 or os.environ.get(VARIABLE) == _name("self"):
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "namespace.lock").open("w") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)
        try:
            if not _join():
                _make()
        except OSError as error:
            raise NamespaceError(
                f"This machine gives the tests no network of their own: {error}"
            ) from error
    os.environ[VARIABLE] = _name("self")


def keep(seconds: str = "infinity") -> int:
    """The number of a process that keeps it, for Docker Engines that outlive their session."""
    program = subprocess.Popen(
        ["sleep", seconds], pass_fds=_sessions, start_new_session=True, stdin=subprocess.DEVNULL
    )
    return program.pid


def holds(process: int) -> bool:
    """Whether this process is where the caller is."""
    try:
        return _name(str(process)) == _name("self")
    except OSError:
        return False


def _name(process: str) -> str:
    return str(Path(f"/proc/{process}/ns/net").readlink())


def _pipe() -> Path:
    return FOLDER / "namespace.pipe"


def _holder() -> int | None:
    """The process that keeps it while any session is there; None: it has to be made."""
    kept = FOLDER / "namespace.pid"
    pid, _space, name = kept.read_text().partition(" ") if kept.exists() else ("", "", "")
    try:
        return int(pid) if pid and _name(pid) == name else None
    except OSError:  # it has ended
        return None


def _make() -> None:
    """Its holder and slirp4netns read a pipe that each session holds open, and end with the last."""
    pipe = _pipe()
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe, 0o600)
    outside = os.open("/proc/self/ns/net", os.O_RDONLY)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    _sessions.append(os.open(pipe, os.O_WRONLY))
    os.set_blocking(reading, True)
    folder = Path.cwd()
    os.unshare(os.CLONE_NEWNET | os.CLONE_NEWNS)
    os.chdir(folder)
    # What is mounted outside comes in, as before; nothing that is mounted here gets out.
    _run("mount", "--make-rslave", "/")
    _run("ip", "link", "set", "lo", "up")
    _set("ipv4/ip_local_port_range", EPHEMERAL)
    # Neither is a child of this session, as other sessions may outlive it.
    holder = int(_run("setsid", "--fork", "sh", "-c", "echo $$; exec cat >/dev/null", use=reading))
    _reach_out(outside, reading, holder)
    os.close(outside)
    os.close(reading)
    _resolve()
    (FOLDER / "namespace.pid").write_text(f"{holder} {_name('self')}")


def _join() -> bool:
    """Whether there is one: the last session may have ended this moment, and it with that."""
    try:
        session = os.open(_pipe(), os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENXIO):  # no pipe, or nobody who reads it
            return False
        raise
    if (holder := _holder()) is None:
        os.close(session)
        return False
    _sessions.append(session)
    folder = Path.cwd()
    for kind, flag in (("net", os.CLONE_NEWNET), ("mnt", os.CLONE_NEWNS)):
        namespace = os.open(f"/proc/{holder}/ns/{kind}", os.O_RDONLY)
        os.setns(namespace, flag)
        os.close(namespace)
    os.chdir(folder)
    return True


def _reach_out(outside: int, reading: int, holder: int) -> None:
    """Let slirp4netns, which stays outside, give the namespace a way to the packages."""
    program = shutil.which("slirp4netns", path=PATH)
    if program is None:
        return  # tests.parts names what cannot be run without it
    ready, told = os.pipe()
    log = FOLDER / "slirp4netns.log"
    with log.open("wb") as output:
        subprocess.run(
            [
                *("setsid", "--fork", "nsenter", f"--net=/proc/self/fd/{outside}"),
                # The machine's own loopback is none of the tests' business.
                *(program, "--configure", "--mtu=65520", "--disable-host-loopback"),
                *(f"--ready-fd={told}", f"--exit-fd={reading}", str(holder), "tap0"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(outside, reading, told),
            check=True,
        )
    os.close(told)
    is_ready = os.read(ready, 1) == b"1"  # nothing, where it ends first
    os.close(ready)
    if not is_ready:
        raise NamespaceError(f"slirp4netns did not start:\n{log.read_text(errors='replace')}")


def _resolve() -> None:
    """A resolver on the machine's loopback, as systemd's is, cannot be asked from in here."""
    used = Path("/etc/resolv.conf")
    if not used.exists():
        return
    text = used.read_text()
    servers = [line.split()[1] for line in text.splitlines() if line.startswith("nameserver ")]
    if servers and not servers[0].startswith("127."):
        return
    own = FOLDER / "resolv.conf"
    own.write_text(f"nameserver {RESOLVER}\n")
    _run("mount", "--bind", str(own), str(used.resolve()))


def _set(name: str, value: str) -> None:
    setting = Path("/proc/sys/net") / name
    if setting.exists():  # a kernel without IPv6 lacks its settings
        setting.write_text(value)


def _run(*words: str, use: int = subprocess.DEVNULL) -> str:
    """What it prints first."""
    program = subprocess.Popen(
        words,
        env=os.environ | {"PATH": PATH},
        stdin=use,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert program.stdout is not None
    said = program.stdout.readline()
    program.stdout.close()
    if program.wait():
        raise NamespaceError(f"`{' '.join(words)}` failed: {said.strip()}")
    return said


def main(words: list[str]) -> None:
    if not words:
        sys.exit("python -m tests.namespace COMMAND: runs it where the tests' Docker Engine is")
    enter()
    # Between the two nobody may be there: the pipe stays open for the command.
    for session in _sessions:
        os.set_inheritable(session, True)
    os.execvp(words[0], words)  # noqa: S606 - no shell wanted


if __name__ == "__main__":
    main(sys.argv[1:])
