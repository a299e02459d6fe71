"""Celery's worker and whatever somebody pushes into its Redis; and which Redis it may be."""

import base64
import json
import os
import re
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
import redis
from kombu.exceptions import OperationalError
from kombu.utils import functional

from inferdash import environment
from inferdash.celery import app
from servers import tasks
from servers.models import Box
from servers.state import store
from servers.watcher.box_row import hung_worker
from tests.cases import table
from tests.terminal import TerminalProgram
from tests.waiting import wait_until


def message(**changes: Any) -> dict[str, Any]:
    """One of Celery's own that nobody has sent, with these parts of it otherwise."""
    properties = {
        "correlation_id": "1", "delivery_mode": 2, "delivery_tag": str(uuid.uuid4()), "priority": 0,
        "delivery_info": {"exchange": "", "routing_key": "box.x"}, "body_encoding": "base64",
    }  # fmt: skip
    body = base64.b64encode(b"[[1], {}, {}]").decode()
    made = {
        "body": body, "content-encoding": "utf-8", "content-type": "application/json",
        "headers": {"lang": "py", "task": "servers.advance", "id": "1"}, "properties": properties,
    }  # fmt: skip
    return made | changes


def harmful() -> list[bytes]:
    properties = message()["properties"]
    texts = [
        "x", "", "5", "null", "[]", "{}", '{"properties": {}}', "[" * 100_000, '"' + "x" * 1000,
        '{"__type__": "datetime", "__value__": "x"}', '{"__type__": "uuid", "__value__": {}}',
    ]  # fmt: skip
    parts: list[dict[str, Any]] = [
        {"body": 5}, {"body": "=" * 7}, {"body": "é"}, {"body": base64.b64encode(b"x").decode()},
        {"content-type": "application/x-python-serialize"}, {"content-encoding": "nothing"},
        {"headers": None}, {"headers": []}, {"headers": {}}, {"headers": {"task": []}},
        {"headers": {"task": "servers.advance"}}, {"headers": {"task": "servers.advance", "id": {}}},
        {"headers": {"task": "servers.advance", "id": "1", "eta": 5}},
        {"headers": {"task": "servers.advance", "id": "1", "expires": "x"}},
        {"headers": {"task": "servers.advance", "id": "1", "timelimit": 5}},
        {"headers": {"task": "nobody", "id": "1"}},
        {"properties": []}, {"properties": properties | {"delivery_tag": {}}},
        {"properties": properties | {"delivery_info": None}},
        {"properties": properties | {"priority": "x"}},
        {"properties": properties | {"reply_to": []}},
    ]  # fmt: skip
    made = [message(**part) for part in parts]
    return [
        *(text.encode() for text in texts),
        b"\xff\xfe",
        *(json.dumps(e).encode() for e in made),
    ]


def test_a_worker_outlives_whatever_stands_in_its_queue(
    own_redis: redis.Redis, redis_url: str, tmp_path: Path
) -> None:
    queue, asked = "box.x", 4711
    environment = {
        "INFERDASH_DATA": str(tmp_path), "INFERDASH_BOX": "x", "REDIS_URL": redis_url,
        "DATABASE_URL": "", "LOG_LEVEL": "INFO",
    }  # fmt: skip
    command = [sys.executable, "-m", "celery", "-A", "inferdash", "worker", "-Q", queue]
    # As it is run for people: a database that is away is a line of this level.
    command += ["--loglevel", "INFO"]
    worker = TerminalProgram([*command, "--pool", "threads", "-c", "2"], environment)
    try:
        for each in harmful():
            own_redis.lpush(queue, each)
        body = base64.b64encode(json.dumps([[asked], {}, {}]).encode()).decode()
        headers = {"lang": "py", "task": "servers.advance", "id": "after-all"}
        own_redis.lpush(queue, json.dumps(message(body=body, headers=headers)))
        # It has no database here: that it was begun is enough.
        worker.waits_for(r"servers\.advance\[after-all\]|run 4711 is gone")
        assert worker.process.poll() is None
        assert not own_redis.llen(queue)
        # The one that was begun counts as taken a moment later.
        wait_until(lambda: not own_redis.hlen("unacked"), "all messages are done with")
    finally:
        worker.process.terminate()
        worker.ends()
        os.close(worker.terminal)
    told = re.findall(r"A message in Redis is none of inferdash's.*", worker.said)
    assert len(told) >= 15, worker.said
    assert max(map(len, told)) < 400


def test_a_worker_that_takes_no_requests_is_told_of(
    own_redis: redis.Redis, redis_url: str, tmp_path: Path
) -> None:
    box = Box(slug="x")
    environment = {
        "INFERDASH_DATA": str(tmp_path), "INFERDASH_BOX": "x", "REDIS_URL": redis_url,
        "DATABASE_URL": "", "LOG_LEVEL": "INFO",
    }  # fmt: skip
    command = [sys.executable, "-m", "celery", "-A", "inferdash", "worker", "-Q", box.queue]
    address = redis_url.replace("unix://", "redis+socket://")

    def send() -> None:
        with app.connection_for_write(address) as broker:
            app.send_task(tasks.advance.name, args=(1,), queue=box.queue, connection=broker)

    def make_older(seconds: int) -> None:
        """The request that waits was sent so long ago."""
        key = f"inferdash:untaken:{box.queue}"
        own_redis.expire(key, int(own_redis.ttl(key)) - seconds)

    send()
    assert hung_worker(box) == []
    make_older(120)
    assert [each["what"] for each in hung_worker(box)] == ["Its worker takes no requests"]

    # As it is run for people: a database that is away is a line of this level.
    command += ["--loglevel", "INFO"]
    worker = TerminalProgram([*command, "--pool", "threads", "-c", "2"], environment)
    try:
        wait_until(lambda: store.read_untaken_age(box.queue) is None, "the worker has taken it")
        assert hung_worker(box) == []
        worker.process.send_signal(signal.SIGSTOP)
        send()
        make_older(120)
        assert hung_worker(box)
        worker.process.send_signal(signal.SIGCONT)
        wait_until(lambda: not hung_worker(box), "it goes on")
    finally:
        worker.process.send_signal(signal.SIGCONT)
        worker.process.terminate()
        worker.ends()
        os.close(worker.terminal)


@table(
    ("url", "is_open"),
    [
        ("unix:///run/redis.sock", False), ("redis://127.0.0.1:6379/0", False),
        ("redis://localhost/0", False), ("redis://[::1]:6379", False), ("redis://:x@127.0.0.2", False),
        ("rediss://:secret@redis.lan:6379/0", False), ("rediss://redis.lan/0?password=x", False),
        ("redis://redis.lan:6379/0", True), ("redis://:secret@redis.lan:6379/0", True),
        ("rediss://redis.lan:6379/0", True), ("rediss://user@redis.lan/0", True),
        ("rediss://:x@redis.lan/0?ssl_cert_reqs=none", True), ("redis://10.0.0.5", True),
        ("redis://0.0.0.0", True), ("redis://127.evil.example", True),
        ("redis://localhost.evil.example", True),
    ],
)  # fmt: skip
def test_a_redis_that_others_reach_is_open(url: str, is_open: bool) -> None:
    assert environment.is_open(url) is is_open


def test_an_open_redis_stops_the_start_unless_somebody_wants_it(tmp_path: Path) -> None:
    def started(**more: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"INFERDASH_DATA": str(tmp_path), "INFERDASH_REDIS_OPEN": ""}
        return subprocess.run(
            [sys.executable, "-c", "import inferdash.settings"],
            env=environment | {"REDIS_URL": "redis://:secret@redis.lan:6379/0"} | more,
            capture_output=True,
            text=True,
            check=False,
        )

    refused = started()
    assert refused.returncode
    assert "INFERDASH_REDIS_OPEN=True" in refused.stderr
    assert "secret" not in refused.stderr
    assert started(INFERDASH_REDIS_OPEN="True").returncode == 0


def test_a_redis_that_is_away_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who nudges a worker is a page, for which somebody waits."""
    paused: list[float] = []
    monkeypatch.setattr(functional, "sleep", paused.append)

    away = app.connection_for_write(url=f"redis+socket://{tmp_path}/redis.sock")
    with away, pytest.raises(OperationalError):
        tasks.advance.apply_async(args=(1,), queue="box.x", retry=False, connection=away)  # type: ignore[call-arg]

    assert not paused
