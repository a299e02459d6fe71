"""Real processes as engines leave them: renamed, left to nobody, and in a container's cgroup."""

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_CGROUPS = (Path("/sys/fs/cgroup/systemd"), Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup"))
_CODE = """
import os, sys, time
if os.fork():
    os._exit(0)
os.setsid()
open('/proc/self/comm', 'w').write('VLLM::EngineCore')
open(sys.argv[1] + '/cgroup.procs', 'w').write(str(os.getpid()))
print(os.getpid(), flush=True)
os.close(1)
time.sleep(600)
"""
_numbers = itertools.count()


@contextmanager
def orphans() -> Iterator[Callable[[str], int]]:
    """A function that makes one of this container (64 digits), and returns its pid."""
    root = next(path for path in _CGROUPS if (path / "cgroup.procs").exists())
    made: list[tuple[int, Path]] = []

    def make(container: str) -> int:
        folder = root / f"inferdash-test-{os.getpid()}-{next(_numbers)}" / container
        folder.mkdir(parents=True)
        words = [sys.executable, "-c", _CODE, str(folder)]
        pid = int(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)
        made.append((pid, folder))
        return pid

    try:
        yield make
    finally:
        for pid, folder in made:
            processes = folder / "cgroup.procs"
            if processes.read_text().split() == [str(pid)]:
                os.kill(pid, 9)
            while processes.read_text().strip():
                pass
            folder.rmdir()
            folder.parent.rmdir()


def has_ended(pid: int) -> bool:
    """Also one that nobody has buried yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
