"""Makes a bare machine, and lets an ordinary user there say `make up`, and `make lint` after it.

The machine is a folder: a minimal Debian 13 (Ubuntu 24.04 where this machine has Ubuntu's mirror)
with Python, make and git, entered by chroot with processes of its own and this machine's network.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from tests.fresh import bare
from tests.ports import free_port
from tests.terminal import TerminalProgram
from tests.waiting import PATIENCE, wait_until

ROOT = Path(__file__).resolve().parent.parent.parent
HOME = Path("home/person")
CHECKOUT = HOME / "inferdash"
INSTALLS_WITHIN = 900.0  # seconds, on two cores and a slow mirror


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fresh", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the machine's folder behind")
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("make test-fresh builds a bare machine, and needs root for it.", file=sys.stderr)
        return 1
    with machine(keep=options.keep) as root:
        port = free_port()
        comes_up(root, port, "first make up")
        comes_up(root, port, "second make up")
        lints(root)
    return 0


@contextmanager
def machine(*, keep: bool) -> Iterator[Path]:
    """A fresh machine with this checkout in its user's home."""
    root = Path(tempfile.mkdtemp(prefix="inferdash-fresh-"))
    try:
        bare.unpack(root)
        bare.pass_on_configuration(root, HOME)
        copy_checkout(root / CHECKOUT)
        subprocess.run(["chown", "-R", "1000:1000", root / HOME], check=True)
        yield root
    finally:
        if keep:
            print(f"kept: {root}")
        else:
            shutil.rmtree(root)


def copy_checkout(target: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def inside(root: Path, command: str, **settings: str) -> list[str]:
    """The command as the ordinary user of the machine; all of it ends with what starts it."""
    enter = f"mount -t proc proc {root}/proc && mount --rbind /dev {root}/dev && exec chroot"
    variables = bare.environment() | {"HOME": f"/{HOME}", **settings}
    return [
        *("env", "-i", *(f"{name}={value}" for name, value in variables.items())),
        *("unshare", "--mount", "--pid", "--fork", "--kill-child=SIGKILL", "--"),
        *("sh", "-c", f'{enter} --userspec=1000:1000 {root} "$@"', "sh"),
        *("sh", "-c", f"cd /{CHECKOUT} && {command}"),
    ]


def comes_up(root: Path, port: int, title: str) -> None:
    started_at = time.monotonic()
    # The shell waits for make: as the first process of its own it would ignore Ctrl-C.
    up = TerminalProgram(
        inside(root, "make up; true", PORT=str(port)), {}, patience=INSTALLS_WITHIN
    )
    try:
        up.waits_for(f"ready at http://127.0.0.1:{port}")
        took = time.monotonic() - started_at
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/login/", timeout=PATIENCE) as answer:
            assert answer.status == 200
        wait_for_worker(root, up)
        assert "starting it again" not in up.said, up.said
    finally:
        stopped_at = time.monotonic()
        if up.process.poll() is None:
            up.press_ctrl_c()
        up.ends()
    assert "did not stop by itself" not in up.said, up.said
    print(up.said.replace("\r", ""))
    stop = time.monotonic() - stopped_at
    print(f"{title}: ready after {took:.1f} s; Ctrl-C ended it in {stop:.1f} s", flush=True)


def wait_for_worker(root: Path, up: TerminalProgram) -> None:
    """A worker that lacks a package dies after web is ready: it is there when its queue is."""
    queues = redis.Redis(unix_socket_path=str(root / CHECKOUT / "var/redis/redis.sock"))
    wait_until(lambda: queues.keys("_kombu.binding.box.*"), lambda: f"a worker listens:\n{up.said}")
    queues.close()


def lints(root: Path) -> None:
    result = subprocess.run(inside(root, "make lint"), capture_output=True, text=True, check=False)
    if result.returncode:
        print(result.stdout, result.stderr)
        sys.exit(f"make lint failed on the fresh machine with exit code {result.returncode}")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
