"""What a failed run's page offers to do on the box itself."""

from pathlib import Path

import pytest
from django.test import Client

from servers.judge.memory.orphans import Orphan
from servers.models import Box, Role, Run
from tests import factories
from tests.runs.test_failed_runs import failing, looked

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]

UNBALANCED = (Path(__file__).parent / "diagnosis/logs/sglang-unbalanced.log").read_text()
LEFT = Orphan(
    key="process-4711-99",
    kind="process",
    what="process 4711 (sglang::scheduler)",
    why="Its container has ended, the one of glm-5, and it has not.",
    size=33 << 30,
    actions=("kill",),
    pid=4711,
    start=99,
)


def failed() -> Run:
    box = factories.box("spark-1")
    server = factories.server(box, "glm-5")
    run = looked(failing(server, UNBALANCED.strip()))
    assert run.log.cause == "memory-capacity-unbalanced"
    return run


def page(role: Role) -> str:
    client = Client()
    client.force_login(factories.person(role.label, role))
    return " ".join(client.get("/servers/glm-5/").content.decode().split())


def test_memory_is_reclaimed_and_what_was_left_is_ended_from_there() -> None:
    failed()
    Box.objects.update(left_behind=[LEFT.to_json()])

    said = page(Role.ADMIN)

    assert 'hx-get="/boxes/spark-1/actions/reclaim/level-2/ask/"' in said
    assert 'hx-get="/boxes/spark-1/actions/kill/process-4711-99/ask/"' in said
    assert "End process 4711 (sglang::scheduler), 33.0 GiB</button>" in said
    assert "sudo systemctl reboot" in said


def test_who_is_no_admin_is_led_to_the_box() -> None:
    failed()
    Box.objects.update(left_behind=[LEFT.to_json()])

    said = page(Role.OPERATOR)

    assert "/actions/" not in said
    assert "To the box spark-1" in said


def test_what_nobody_can_end_has_no_button() -> None:
    failed()
    shown = Orphan.from_json(LEFT.to_json() | {"actions": ()})
    Box.objects.update(left_behind=[shown.to_json()])

    assert "/actions/kill/" not in page(Role.ADMIN)


def test_a_container_that_no_run_holds_asks_for_attention() -> None:
    box = factories.box("rtx8")
    stray = Orphan(
        key="container-0123456789ab",
        kind="container",
        what="container inferdash-1-7",
        why="It runs, and no run in the database names it.",
        actions=("adopt", "remove"),
        is_running=True,
    )
    Box.objects.filter(pk=box.pk).update(left_behind=[stray.to_json()])
    client = Client()
    client.force_login(factories.person("olga", Role.OPERATOR))

    said = " ".join(client.get("/").content.decode().split())
    assert "1 container runs that belongs to no run in the database." in said
    said = " ".join(client.get("/boxes/rtx8/").content.decode().split())
    assert 'aria-label="Adopt: container inferdash-1-7"' in said
