import logging
from typing import Any

import pytest
import redis

from servers.watcher.loop import Watcher


@pytest.mark.django_db(transaction=True)
def test_a_watcher_with_a_broken_loop_ends_instead_of_looking_alive(
    own_redis: redis.Redis,
    settings: Any,
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings.BOX_FILE = tmp_path / "box.toml"
    watcher = Watcher()

    def broken() -> None:
        raise KeyError("a fault of ours")

    def idle() -> None:
        watcher.stopping.wait()

    for loop in ("_asking", "_sampling", "_docker_events", "_wakes"):
        monkeypatch.setattr(watcher, loop, idle)
    broken.__name__ = idle.__name__ = "_loop"
    monkeypatch.setattr(watcher, "_reconciling", broken)

    with caplog.at_level(logging.ERROR):
        assert not watcher.run()
    assert "one of its loops broke" in caplog.text
