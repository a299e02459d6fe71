"""Runs a command on a machine with a Docker Engine of somebody else, and tells what it changed there.

`python -m tests.untouched COMMAND`. The machine is a network and a mount namespace, with the
ordinary Docker Engine of such a machine and a container that runs: whatever the command's own
daemons do beside it is seen here. The exit code is 1 where anything differs afterwards.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests import namespace
from tests.waiting import PATIENCE, wait_until

CHANGED = 9  # the exit code; none of pytest's
ENDS_WITHIN = 20.0  # seconds, for processes that are about to end
BRIDGE = "172.29.250.1/24"
SLEEPER = "#include <unistd.h>\nint main(void) { for (;;) pause(); }\n"
# Whose entries are looked at. What a run leaves in its own cache is what a cache is for.
FOLDERS = (
    *("/etc", "/etc/apt", "/etc/docker", "/etc/systemd/system", "/opt", "/run"),
    *("/srv", "/usr/lib/systemd/system", "/usr/local/bin", "/usr/sbin", "/var/lib"),
)
# Where libmount keeps its notes: it makes it when it first needs it, whoever mounts.
LIBMOUNTS = Path("/run/mount")
MARK = "INFERDASH_TEST_MARK"  # in the environment of every process of the command

State = dict[str, list[str]]


def main(words: list[str]) -> int:
    if not words:
        sys.exit("python -m tests.untouched COMMAND")
    # Short, as sockets lie in it, and open to those whom root runs programs as.
    with tempfile.TemporaryDirectory(prefix="m-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        others = (namespace.FOLDER, Path(tempfile.gettempdir()))
        # A namespace of its own, beside the one that the command's tests make for themselves.
        namespace.FOLDER = folder / "namespace"
        os.environ.pop(namespace.VARIABLE, None)
        namespace.enter()
        os.environ.pop(namespace.VARIABLE)
        # What is mounted elsewhere meanwhile is not the command's doing.
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        with foreign_docker(folder) as host:
            temporary = folder / "t"
            temporary.mkdir()
            temporary.chmod(0o1777)
            environment = os.environ | {MARK: name, "TMPDIR": str(temporary)}
            before = look(host, temporary, name)
            done = subprocess.run(words, env=environment, check=False).returncode
            # What kept the command's namespace ends when it hears that the command has.
            with suppress(AssertionError):  # told below, with what each of them is
                wait_until(
                    lambda: not list(_processes(name)), "all has ended", patience=ENDS_WITHIN
                )
            after = look(host, temporary, name)
            # A folder that other tests remove meanwhile takes its mount away here, too.
            before["mounts"] = [
                each
                for each in before["mounts"]
                if each in after["mounts"] or not _below(each, others)
            ]
            changes = list(compare(before, after))
    for each in changes:
        print(f"the machine changed: {each}", flush=True)
    return CHANGED if changes else done


@contextmanager
def foreign_docker(folder: Path) -> Iterator[str]:
    """Its DOCKER_HOST; with a container, an image, a volume and a network beside the usual ones."""
    host = f"unix://{folder / 'docker.sock'}"
    log = folder / "dockerd.log"
    with log.open("wb") as output:
        dockerd = subprocess.Popen(
            [
                *("dockerd", f"--host={host}", f"--bip={BRIDGE}"),
                *(f"--data-root={folder / 'data'}", f"--exec-root={folder / 'exec'}"),
                f"--pidfile={folder / 'docker.pid'}",
            ],
            env=os.environ | {"PATH": namespace.PATH},
            stdout=output,
            stderr=output,
        )
    try:
        wait_until(
            lambda: docker(host, "version", fails=True) or dockerd.poll() is not None,
            lambda: f"dockerd answers:\n{log.read_text()[-3000:]}",
        )
        if dockerd.poll() is not None:
            raise RuntimeError(f"dockerd did not start:\n{log.read_text()[-3000:]}")
        _furnish(host, folder)
        yield host
        docker(host, "rm", "--force", "theirs")
    finally:
        dockerd.terminate()
        dockerd.wait(PATIENCE)


def _furnish(host: str, folder: Path) -> None:
    source, root = folder / "sleeper.c", folder / "root"
    root.mkdir()
    source.write_text(SLEEPER)
    subprocess.run(["gcc", "-static", "-o", root / "sleeper", source], check=True)
    archive = folder / "root.tar"
    subprocess.run(["tar", "-C", root, "-cf", archive, "."], check=True)
    docker(host, "import", str(archive), "theirs:1")
    docker(host, "volume", "create", "theirs")
    docker(host, "network", "create", "--subnet=172.29.251.0/24", "theirs")
    words = ["--name", "theirs", "--volume", "theirs:/data", "--publish", "127.0.0.1:8999:80"]
    docker(host, "run", "--detach", *words, "theirs:1", "/sleeper")
    wait_until(lambda: "LOWER_UP" in _flags("docker0"), "the bridge has heard of its first port")


def docker(host: str, *words: str, fails: bool = False) -> str:
    """What it prints; nothing where it fails and that is no surprise."""
    done = subprocess.run(
        ["docker", "-H", host, *words], capture_output=True, text=True, check=False
    )
    if done.returncode and not fails:
        raise RuntimeError(f"docker {' '.join(words)}: {done.stderr}")
    return "" if done.returncode else done.stdout


def look(host: str, temporary: Path, mark: str) -> State:
    """All that the tests of this project ever changed on a machine, and its siblings."""
    wait_until(_has_addresses, lambda: f"each interface has an address: {_addresses()}")
    found = {
        "interfaces": _interfaces(),
        "routes": _lines("ip", "route", "show", "table", "all"),
        "settings": list(_settings()),
        "mounts": _mounts(),
        "containers": docker(host, "ps", "-a", "--format={{.ID}} {{.State}}").splitlines(),
        "images": docker(host, "images", "-a", "--no-trunc", "--format={{.ID}}").splitlines(),
        "volumes": docker(host, "volume", "ls", "-q").splitlines(),
        "networks": docker(host, "network", "ls", "--no-trunc", "-q").splitlines(),
        "processes": list(_processes(mark)),
        "temporary files": sorted(each.name for each in temporary.iterdir()),
    }
    for program in ("iptables-save", "ip6tables-save"):
        found[program] = _lines(program)
    for folder in FOLDERS:
        if Path(folder).is_dir():
            entries = sorted(Path(folder).iterdir())
            found[folder] = [each.name for each in entries if each != LIBMOUNTS]
    return found


def compare(before: Mapping[str, list[str]], after: Mapping[str, list[str]]) -> Iterator[str]:
    for kind in {**before, **after}:
        had, has = before.get(kind, []), after.get(kind, [])
        yield from (f"{kind}: gone: {each}" for each in had if each not in has)
        yield from (f"{kind}: new: {each}" for each in has if each not in had)


def _addresses() -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads("".join(_lines("ip", "-json", "address")))
    return listed


def _flags(interface: str) -> list[str]:
    return next(each["flags"] for each in _addresses() if each["ifname"] == interface)


def _has_addresses() -> bool:
    """The kernel gives one that has come up its local address, and the route to it, seconds later."""
    if not Path("/proc/sys/net/ipv6").exists():
        return True
    up = [
        each for each in _addresses() if {"LOWER_UP", "LOOPBACK"} & {*each["flags"]} == {"LOWER_UP"}
    ]
    return all(
        any(a["scope"] == "link" and not a.get("tentative") for a in each["addr_info"])
        for each in up
    )


def _interfaces() -> list[str]:
    kept = ("ifname", "flags", "mtu", "master", "operstate", "address")
    return [
        json.dumps(
            {name: each.get(name) for name in kept}
            | {"addresses": [(a["local"], a["prefixlen"]) for a in each["addr_info"]]}
        )
        for each in _addresses()
    ]


def _settings() -> Iterator[str]:
    """What interfaces get that are made later, and what is forwarded."""
    for path in sorted(Path("/proc/sys/net").glob("ipv[46]/conf/*/*")):
        if path.parent.name in ("all", "default") and os.access(path, os.R_OK):
            try:
                yield f"{path} {path.read_text().strip()}"
            except OSError:  # some may only be written, whatever their mode says
                continue


def _mounts() -> list[str]:
    """Where, and of what kind; the numbers of mounts are the kernel's."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [f"{line.split()[4]} {line.partition(' - ')[2].split()[0]}" for line in lines]


def _below(mount: str, folders: Iterable[Path]) -> bool:
    path = Path(mount.split()[0])
    return any(folder in path.parents for folder in folders)


def _processes(mark: str) -> Iterator[str]:
    """Those of the command that are left."""
    wanted = f"{MARK}={mark}".encode()
    for each in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (each / "environ").read_bytes().split(b"\0"):
                yield f"{each.name} {(each / 'cmdline').read_bytes().replace(b'\0', b' ').decode()}"
        except OSError:  # it has just ended
            continue


def _lines(*words: str) -> list[str]:
    """Without comments, and without what counts up by itself."""
    done = subprocess.run(
        words,
        env=os.environ | {"PATH": namespace.PATH},
        check=True,
        capture_output=True,
        text=True,
    )
    lines = [line.partition(" [")[0] for line in done.stdout.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
