import socket
import urllib.request
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


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
    _gone, left = psutil.wait_procs(processes, timeout=0.5)
    return [each for each in left if each.status() != psutil.STATUS_ZOMBIE]


def status(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/login/", timeout=20) as answer:
        return int(answer.status)
