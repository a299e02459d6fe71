"""A box's history as pages and programs get it."""

import csv
import io
import re
import time
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import AsyncClient, Client
from django.utils import timezone

from servers.judge.logs.phases.reader import Reader
from servers.models import Box, Run
from servers.models.runs.run import RunState
from tests import factories, past

pytestmark = pytest.mark.django_db

NOW = int(time.time()) // 3600 * 3600 - 3600


@pytest.fixture
def box() -> Box:
    made = factories.box("rtx8")
    name = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
    cards = [{"index": 0, "uuid": past.key(0), "name": name}]
    Box.objects.filter(pk=made.pk).update(facts={**made.facts, "gpus": cards})
    past.fill(made, NOW, gpus=2, kept={60: 7200, 600: 3 * 86400})
    made.refresh_from_db()
    return made


@pytest.fixture
def client() -> Client:
    return factories.log_in(factories.person())


def _soon() -> float:
    """After everything that a test makes now: the hour may have changed since NOW was read."""
    return time.time() + 3600


def points(client: Client, box: Box, **asked: Any) -> dict[str, Any]:
    response = client.get(f"/boxes/{box.slug}/history/points.json", asked)
    assert response.status_code == 200, response.content
    assert response["Cache-Control"] == "no-store"
    found: dict[str, Any] = response.json()
    return found


def test_a_range_comes_as_columns_of_at_most_a_thousand_points(client: Client, box: Box) -> None:
    found = points(client, box, **{"from": NOW - 7200, "to": NOW})

    assert found["width"] == 60
    assert len(found["t"]) == 120
    assert {len(values) for values in found["columns"].values()} == {120}
    month = points(client, box, **{"from": NOW - 30 * 86400, "to": NOW})
    assert len(month["t"]) <= 1000
    assert month["columns"]["util"][0] is None
    assert month["columns"]["util"][-1] is not None


def test_the_parts_of_each_moment_add_up_to_the_pools(client: Client, box: Box) -> None:
    asked = {"from": NOW - 86400, "to": NOW}
    for gpu, pools in (("", 2), (past.key(1), 1)):
        found = points(client, box, **asked, gpu=gpu)["columns"]
        parts = [values for name, values in found.items() if name.startswith("=")]
        sums = {sum(row) / past.GIB for row in zip(*parts, strict=True) if row[0] is not None}
        assert all(abs(each - pools * 95.6) < 0.001 for each in sums)


def test_what_yesterday_at_three_held_can_be_looked_up(client: Client, box: Box) -> None:
    three = NOW // 86400 * 86400 - 86400 + 3 * 3600
    found = points(client, box, **{"from": three - 300, "to": three + 300}, gpu=past.key(0))

    assert [round(each / past.GIB, 1) for each in found["columns"]["=unattributed"] if each] == [
        33.1
    ] * len(found["t"])


def test_runs_of_the_time_are_told_with_their_moments(client: Client, box: Box) -> None:
    run = factories.run(factories.server(box), RunState.STOPPED, age=7200)
    factories.run(factories.server(factories.box("spark-1"), "glm-5"), age=7200)

    found = points(client, box, **{"from": NOW - 86400, "to": _soon()})["runs"]

    assert [(each["server"], each["state"]) for each in found] == [("qwen3-8b", "stopped")]
    assert run.ready_at is not None
    assert found[0]["ready"] == run.ready_at.timestamp()
    assert found[0]["end"] > found[0]["ready"] > found[0]["start"]
    assert points(client, box, **{"from": NOW - 86400, "to": NOW - 43200})["runs"] == []


def test_the_phases_of_a_start_are_told_with_their_moments(client: Client, box: Box) -> None:
    run = factories.run(factories.server(box, "minimax-m2.7"), age=7200)
    assert run.started_at is not None
    reader = Reader("vllm")
    lines = {60: "Loading safetensors checkpoint shards:   0% Completed | 0/4 [00:00<?, ?it/s]",
             400: "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):   2%|▏         | 1/51 [00:00<00:30,  1.6it/s]"}  # fmt: skip
    for number, (after, line) in enumerate(lines.items(), 1):
        at = run.started_at + timedelta(seconds=after)
        reader.feed(number, line, at.isoformat().replace("+00:00", "Z"))
    Run.objects.filter(pk=run.pk).write(start__reader=reader.to_json())

    [found] = points(client, box, **{"from": NOW - 86400, "to": _soon()})["runs"]

    assert [each["words"] for each in found["phases"]][-2:] == [
        "loading weights",
        "capturing CUDA graphs",
    ]
    assert found["phases"][-1]["at"] == run.started_at.timestamp() + 400


def test_restarts_of_the_box_are_told_with_their_moments(client: Client, box: Box) -> None:
    moments = [timezone.now() - timedelta(seconds=ago) for ago in (600, 90_000)]
    for number, at in enumerate(moments):
        box.reboots.create(boot_id=f"boot-{number}", booted_at=at)

    found = points(client, box, **{"from": NOW - 7200, "to": _soon()})["reboots"]

    assert [(each["words"], each["url"]) for each in found] == [("rtx8 restarts", "/boxes/rtx8/")]
    assert found[0]["at"] == moments[0].timestamp()


@pytest.mark.parametrize(
    "asked",
    [
        {"from": "yesterday"},
        {"from": "nan"},
        {"to": "inf"},
        {"from": "5", "to": "4"},
        {"from": "-1", "to": "4"},
        {"from": "1e300", "to": "1e301"},
    ],
)
def test_a_range_that_is_none_is_refused(client: Client, box: Box, asked: dict[str, str]) -> None:
    assert client.get(f"/boxes/{box.slug}/history/points.json", asked).status_code == 404


def test_the_page_names_the_gpus_that_have_a_past(client: Client, box: Box) -> None:
    page = client.get(f"/boxes/{box.slug}/history/").content.decode()

    assert ">GPU 0 RTX PRO 6000</option>" in page
    assert f'<option value="{past.key(1)}">Removed GPU 1</option>' in page
    now = time.time()
    oldest, newest = (int(found) for found in re.findall(r'data-(?:oldest|newest)="(\d+)"', page))
    assert now - 31 * 86400 < oldest < newest <= now
    empty = client.get(f"/boxes/{factories.box('spark-1').slug}/history/").content.decode()
    assert "Nothing recorded yet." in empty


async def read(box: Box, person: Any, **asked: Any) -> tuple[str, list[list[str]]]:
    client = AsyncClient()
    await client.aforce_login(person)
    response = await client.get(f"/boxes/{box.slug}/history/points.csv", asked)
    body = b"".join([part async for part in response]).decode()  # type: ignore[attr-defined]
    return response["Content-Disposition"], list(csv.reader(io.StringIO(body)))


@pytest.mark.django_db(transaction=True)
@pytest.mark.asyncio
async def test_the_file_has_a_line_a_gpu_and_moment(transactional_db: None) -> None:
    made = await sync_to_async(factories.box)("rtx8")
    await sync_to_async(past.fill)(made, NOW, gpus=2, kept={60: 7200, 600: 7200})
    person = await sync_to_async(factories.person)()

    name, (titles, *rows) = await read(made, person, **{"from": NOW - 3600, "to": NOW})

    assert "-60s.csv" in name
    assert titles[:3] == ["time", "gpu", "utilisation %"]
    assert "unattributed MiB" in titles or "usual MiB" in titles
    assert len(rows) == 120
    assert {row[1] for row in rows} == {past.key(0), past.key(1)}
    parts = [at for at, title in enumerate(titles) if title.endswith("MiB") and at > 9]
    for row in rows:
        assert abs(sum(float(row[at] or 0) for at in parts) / 1024 - 95.6) < 0.01
