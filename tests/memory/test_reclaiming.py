"""Memory that an admin has given back from the box's page, and what is told of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from servers.host.docker.containers import DockerContainers
from servers.host.kernel import resources as host
from servers.lifecycle import memory
from servers.lifecycle.jobs import actions
from servers.models import AuditEntry, Box, Job, Role
from servers.models.runs.run import RunState
from tests import factories, jobs, samples
from tests.page_cache import PAGES, cached

pytestmark = [
    pytest.mark.docker,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("own_redis"),
]

__all__ = ["cached"]

SPARK = samples.sample([samples.unified(51, [])], [])


@pytest.fixture(autouse=True)
def limits(worker: DockerContainers, settings: Any) -> Path:
    settings.BOX_FILE.write_text("reclaim = true\n")
    return Path(settings.BOX_FILE)


@pytest.fixture
def box() -> Box:
    return factories.box("spark-1")


def asked(box: Box, sample: dict[str, Any] = SPARK, level: int = 3) -> tuple[Job, list[Any]]:
    told: list[Any] = []
    assert actions.ask_to_reclaim(box, level, by=factories.person())
    jobs.obey(box, sample, told.append)
    return Job.objects.latest("pk"), told


def test_the_page_cache_is_given_back_and_measured(box: Box, cached: Callable[[], int]) -> None:
    done, told = asked(box)

    assert done.state == "done", done.said
    assert "GiB were free before" in done.said
    assert cached() == 0
    assert told == [{"type": "reclaim", "level": 3}]
    last = AuditEntry.objects.latest("pk")
    assert (last.action, last.subject) == ("reclaim done", "memory of spark-1")


def test_what_was_freed_is_the_difference(
    box: Box, cached: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    free = iter((12 << 30, 43 << 30))
    monkeypatch.setattr(memory, "_free", lambda: next(free))

    done, _told = asked(box)

    assert done.said == "Freed 31.0 GiB: 12.0 GiB were free before, 43.0 GiB are now."


def test_it_is_refused_while_an_engine_serves_or_loads(box: Box, cached: Callable[[], int]) -> None:
    run = factories.run(factories.server(box, "coder"), RunState.STARTING)

    done, told = asked(box)

    assert (done.state, told) == ("refused", [])
    assert "coder is starting on spark-1" in done.said
    assert cached() == PAGES
    run.delete()


def test_it_is_refused_while_somebody_elses_program_is_on_the_gpu(
    box: Box, cached: Callable[[], int]
) -> None:
    busy = samples.sample(
        [samples.unified(51, [(7100, 9.1), (7200, 0.1)])],
        [samples.process(7100, name="serve_asr"), samples.process(7200, name="gnome-shell")],
    )

    done, _told = asked(box, busy)

    assert done.said.startswith("serve_asr (7100) is on a GPU")
    assert cached() == PAGES


def test_a_box_that_does_not_allow_it_says_what_to_type(
    box: Box, limits: Path, cached: Callable[[], int]
) -> None:
    limits.write_text("")

    done, _told = asked(box, level=2)

    assert "allow reclaim`" in done.said
    assert done.command == "sudo sh -c 'sync; echo 2 > /proc/sys/vm/drop_caches'"
    assert cached() == PAGES


def test_a_level_that_the_kernel_does_not_know_is_refused(box: Box) -> None:
    done, _told = asked(box, level=7)

    assert done.state == "refused"


def test_only_the_wanted_part_is_dropped(
    cached: Callable[[], int], docker: DockerContainers
) -> None:
    host.drop_caches(docker, level=2)
    assert cached() == PAGES

    host.drop_caches(docker, level=1)
    assert cached() == 0


def verdict(name: str) -> dict[str, Any]:
    said = {"t": SPARK["t"], "gpu": "GPU-gb10", "verdict": name, "unattributed": 78 << 30}
    said |= {"reason": "78.5 GiB lie in the driver's own pool of pages.", "advice": ""}
    return SPARK | {
        "verdicts": [said | {"alarm": False}],
        "driver_params": {"EnableSystemMemoryPools": 529},
    }


def client(role: Role = Role.ADMIN) -> Client:
    return factories.log_in(factories.person(role.label, role))


def page(by: Client, path: str) -> str:
    response = by.get(path)
    assert response.status_code == 200
    return " ".join(response.content.decode().split()).replace("&#x27;", "'").replace("&gt;", ">")


def test_the_page_offers_it_with_the_commands_for_now_and_for_good(box: Box) -> None:
    factories.tell(box, verdict("reclaimable"))
    box.facts["limits"]["reclaim"] = True
    box.save()

    said = page(client(), "/boxes/spark-1/")
    assert "Reclaim memory</button>" in said
    assert "sudo sh -c 'sync; echo 2 > /proc/sys/vm/drop_caches'" in said
    assert "options nvidia NVreg_EnableSystemMemoryPools=0" in said
    assert "Reclaim memory</button>" not in page(client(Role.OPERATOR), "/boxes/spark-1/")

    asked = page(client(), "/boxes/spark-1/actions/reclaim/level-2/ask/")
    assert "Reclaim memory on spark-1?" in asked
    assert 'hx-post="/boxes/spark-1/actions/reclaim/level-2/"' in asked
    assert client().post("/boxes/spark-1/actions/reclaim/level-2/").status_code == 204
    assert Job.objects.get().params == {"level": 2}
    again = client().post("/boxes/spark-1/actions/reclaim/level-2/")
    assert (again.status_code, b"on its way" in again.content) == (409, True)


def test_the_question_says_what_stands_against_it(box: Box) -> None:
    factories.tell(box, verdict("reclaimable"))
    assert "allow reclaim" in page(client(), "/boxes/spark-1/actions/reclaim/level-2/ask/")
    factories.run(factories.server(box, "coder"), RunState.READY)

    said = page(client(), "/boxes/spark-1/actions/reclaim/level-2/ask/")

    assert "Not now. coder is ready on spark-1" in said
    assert "hx-post" not in said


def test_a_lost_card_is_told_with_the_commands_that_may_help(box: Box) -> None:
    factories.tell(box, verdict("leaked"))

    said = page(client(), "/boxes/spark-1/")

    assert 'data-cure="leaked"' in said
    assert "sudo systemctl reboot" in said
    assert "gpu-reset" not in said, "that is for cards with memory of their own"


@pytest.mark.parametrize("kind", ["kill/process-1-1", "unlink/shm-psm", "reclaim/level-2"])
def test_what_takes_the_boxs_own_rights_is_for_admins(box: Box, kind: str) -> None:
    for path in (f"/boxes/spark-1/actions/{kind}/", f"/boxes/spark-1/actions/{kind}/ask/"):
        send = client(Role.EDITOR)
        answer = send.get(path) if path.endswith("ask/") else send.post(path)
        assert answer.status_code == 403
    assert not Job.objects.exists()


@pytest.mark.parametrize("kind", ["reboot/now", "reclaim/level-9", "reclaim/2"])
def test_what_there_is_not_is_not_found(box: Box, kind: str) -> None:
    assert client().post(f"/boxes/spark-1/actions/{kind}/").status_code == 404
