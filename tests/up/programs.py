import urllib.request
from pathlib import Path

import psutil

from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


def settings(data: Path, port: int, **more: str) -> dict[str, str]:
    return {
        "INFERDASH_DATA": str(data),
        "PORT": str(port),
        "HOST": "127.0.0.1",
        "REDIS_URL": "",
        "DATABASE_URL": "",
        "INFERDASH_BOX": f"test-{port}",
        "SSH_CONNECTION": "",
        "NO_COLOR": "",
        **more,
    }


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that a signal can still reach; one may be a zombie until init has looked."""
    _gone, left = psutil.wait_procs(processes, timeout=0)
    return [each for each in left if not _has_ended(each)]


def _has_ended(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:  # since the others were looked at
        return True


def status(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/login/", timeout=PATIENCE) as answer:
        return int(answer.status)
