"""The history on both databases: written, rolled up, read, handed out and tidied alike."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests import databases

# Two GPUs for 25 minutes, with a restart in the middle of one, and a minute of every two hours
# of the 30 days before.
CODE = """
import asyncio, json, time
from django.conf import settings
from django.test import Client
from servers.contexts.memory import list_keys
from servers.judge.memory.history import SPANS, slot
from servers.models.runs.run import RunState
from servers.watcher.memory import monitor
from servers.watcher.memory.monitor import HistoryRecorder
from tests import factories, samples

settings.ALLOWED_HOSTS = ["*"]
HistoryChunk.objects.all().delete()
box = factories.box("rtx8")
now = slot(int(time.time()), 60)
began = now - 25 * 60

def sample(t, busy):
    cards = [samples.card(i, [(50 + i, 61.0)] if busy else []) for i in range(2)]
    return {**samples.sample(cards, [samples.process(50), samples.process(51)]), "t": t}

history = HistoryRecorder(box)
for ago in range(30 * 12, 0, -1):
    t = slot(now - ago * 7200, 60)
    history.see(sample(t, False))
    history.see(sample(t + 30, True))
    history.write()
history = HistoryRecorder(box)
for t in range(began, now):
    if t == began + 10 * 60 + 20:
        history.write()
        history = HistoryRecorder(box)
    history.see(sample(t, t % 2 == 0))
history.write()

client = Client()
client.force_login(factories.person())
def points(since, until, **more):
    asked = {"from": since, "to": until, **more}
    return client.get("/boxes/rtx8/history/points.json", asked).json()

hour, month = points(began, now), points(now - 31 * 86400, now)
gpus = list_keys(HistoryChunk, box)
answer = client.get("/boxes/rtx8/history/points.csv", {"from": began, "to": now, "gpu": gpus[0]})
async def read():
    return b"".join([part async for part in answer.streaming_content])
lines = asyncio.run(read()).decode().splitlines()

old = {str(step): HistoryChunk.objects.filter(step=step).count() for step in SPANS}
monitor.STEADY = 0.0
history._tidied_at = float("-inf")
history._tidy()
kept = {str(step): HistoryChunk.objects.filter(step=step).count() for step in SPANS}
print(json.dumps({
    "gpus": len(gpus),
    "width": hour["width"],
    "seconds": len([each for each in hour["columns"]["used"] if each is not None]) * hour["width"],
    "busy": max(each or 0 for each in hour["columns"]["used"]),
    "month": [month["width"], len([1 for each in month["columns"]["used"] if each is not None])],
    "first": month["first"] == slot(now - 360 * 7200, 600),
    "lines": len(lines),
    "head": lines[0][:40],
    "old": old, "kept": kept,
}))
"""


@pytest.fixture(scope="module", params=[databases.SQLITE, databases.POSTGRESQL])
def found(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, redis_url: str
) -> Iterator[dict[str, Any]]:
    with databases.database(request.param, tmp_path_factory.mktemp("history")) as environment:
        yield json.loads(databases.run(CODE, environment | {"REDIS_URL": redis_url}))


def test_every_second_is_there_across_a_restart(found: dict[str, Any]) -> None:
    assert found["gpus"] == 2
    assert found["seconds"] == 25 * 60
    assert found["lines"] == 25 * 60 + 1
    assert found["head"].startswith("time,gpu,utilisation %")


def test_a_month_is_told_in_few_points_from_its_first_on(found: dict[str, Any]) -> None:
    width, told = found["month"]

    assert found["first"]
    assert width >= 2700
    assert 350 <= told <= 1000


def test_what_is_too_old_goes_and_the_coarse_points_stay(found: dict[str, Any]) -> None:
    assert found["old"]["1"] > found["kept"]["1"] >= 25
    assert found["kept"]["60"] >= 359
    assert found["kept"]["600"] >= 30
