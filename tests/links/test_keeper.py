"""The keeper and its sshd."""

import os
import signal
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from servers.host.links.files import WireFiles
from servers.host.links.sshd import HubSshd
from servers.lifecycle.links import keeper
from tests.waiting import wait_until

# As sshd does, it leaves a connection behind that holds its standard error.
SSHD = "sleep 600 & echo $! >> connections; echo $$ >> starts; exec sleep 600"


def read_numbers(path: Path) -> list[int]:
    return [int(each) for each in path.read_text().split()] if path.exists() else []


def test_sshd_is_started_again_though_its_connections_live(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(keeper, "SSHD_PAUSE", 0.01)
    kept = keeper.HubKeeper(HubSshd(files=WireFiles(tmp_path), port=1, owner="ada", account="wire"))
    thread = threading.Thread(target=lambda: kept._run_sshd(["sh", "-c", SSHD]))
    thread.start()

    def read_starts() -> list[int]:
        return read_numbers(tmp_path / "starts")

    try:
        wait_until(read_starts, "it has started")
        os.kill(read_starts()[0], signal.SIGKILL)
        wait_until(lambda: len(read_starts()) == 2, "it is started again")
    finally:
        kept.stop()
        for each in (*read_starts(), *read_numbers(tmp_path / "connections")):
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        thread.join()
