"""The verdict on the pages, from the watcher's own samples."""

from typing import Any

import pytest

from servers.models import Box
from servers.models.runs.run import RunState
from servers.watcher.memory.monitor import MemoryMonitor
from tests import factories, samples
from tests.memory.scenes import GIB, MemoryScene, crashed

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]


def judged(box: Box, scene: MemoryScene) -> dict[str, Any]:
    memory = MemoryMonitor(box)
    return [memory.judge(snapshot) for snapshot in scene][-1]


def test_what_is_normal_outlives_the_watcher() -> None:
    box = factories.box("spark-1")

    judged(box, MemoryScene().for_(300))

    box.refresh_from_db()
    assert list(box.memory_best) == ["580.126.09 GPU-1"]
    found = judged(box, MemoryScene(boot="two", lost=5.0).for_(200))["verdicts"][0]
    assert 2 * GIB < found["unattributed"] < 4 * GIB


def test_an_engine_of_ours_that_has_ended_leaves_its_worker_behind() -> None:
    box = factories.box("spark-1")
    run = factories.run(factories.server(box, "coder"), RunState.FAILED, age=9000)
    run.container_id = "a" * 64
    run.save()
    assert run.ended_at is not None
    scene = MemoryScene(t=run.ended_at.timestamp() + 600)
    scene.process(100, 90.0, ppid=1, container="a" * 64)

    (found,) = judged(box, scene.for_(60))["verdicts"]

    assert found["verdict"] == "residual"


def test_a_start_that_waits_for_page_cache_on_a_node_is_told_so() -> None:
    """CUDA counts the cache as used there, so that the start would wait for ever."""
    box = factories.box("gb300")
    waiting = factories.server(box, "glm-5", free_memory=250 * GIB)
    factories.run(waiting, RunState.QUEUED, age=60)
    scene = MemoryScene(kind="numa", total=280.0, cached=200.0).for_(60)

    (found,) = judged(box, scene)["verdicts"]

    assert found["verdict"] == "page_cache"
    assert "needs 250.0 GiB" in found["reason"]
    waiting.runs.update(state=RunState.READY)
    assert judged(box, scene)["verdicts"][0]["verdict"] == "ok"


def pages(box: Box, scene: MemoryScene) -> tuple[str, str]:
    sample = judged(box, scene)
    card = samples.card(0, []) | sample["gpus"][0]
    factories.tell(box, samples.sample([card], []) | {"verdicts": sample["verdicts"]})
    client = factories.log_in(factories.person())
    texts = (client.get(path).content.decode() for path in (f"/boxes/{box.slug}/", "/"))
    of_box, dashboard = (" ".join(text.split()).replace("&#x27;", "'") for text in texts)
    return of_box, dashboard


def test_a_loss_is_told_on_the_box_s_page_and_on_the_dashboard() -> None:
    scene = crashed(MemoryScene(kind="discrete", total=96.0), lost=40.0).for_(300)

    of_box, dashboard = pages(factories.box("rtx8"), scene)

    assert "40.0 GiB of this card are in use, and no process holds them." in of_box
    assert 'data-verdict="leaked"' in of_box
    assert "GPU 0 has lost memory." in dashboard
    assert "nvidia-smi --gpu-reset" in dashboard


def test_memory_on_its_way_back_is_told_without_a_noise() -> None:
    scene = crashed(MemoryScene(kind="discrete", total=96.0), lost=40.0).for_(10)

    of_box, dashboard = pages(factories.box("rtx8"), scene)

    assert "still on their way back" in of_box
    assert "GPU 0" not in dashboard.split('id="attention"')[1].split("</section>")[0]


def test_nothing_is_said_while_all_is_well() -> None:
    of_box, _dashboard = pages(
        factories.box("rtx8"), MemoryScene(kind="discrete", total=96.0).for_(60)
    )

    assert "data-verdict" not in of_box
