"""What the dashboard's first line says after a restart of a box."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from servers import lifecycle
from servers.contexts import dashboard as reboot_notices
from servers.judge.runs import reboot
from servers.judge.runs.reboot import RebootReport, ServerAfterReboot
from servers.lifecycle.runs import gpu_conflicts, reboots
from servers.models import AuditEntry, Box, Reboot, Role, Run, User
from servers.models.runs.run import RunState
from tests import factories

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]

BEFORE = {"driver": "580.95.05", "docker": {"version": "28.5.1"}, "kernel": "6.8.0-88"}


@pytest.fixture
def box() -> Box:
    hour_ago = timezone.now() - timedelta(hours=1)
    return factories.box("rtx8", boot_id="before", booted_at=hour_ago, facts=BEFORE)


type WentDown = Callable[..., Run]


@pytest.fixture
def went_down(box: Box) -> WentDown:
    def went_down(name: str, *, age: float = 3600, **launch: Any) -> Run:
        """Its engine was ended by the shutdown, and inferdash has noted that."""
        now = timezone.now()
        return factories.run(
            factories.server(box, name, **launch),
            RunState.FAILED,
            started_at=now - timedelta(seconds=age),
            ended_at=now,
            failure="The engine was ended by SIGTERM (exit code 143) while it was serving.",
        )

    return went_down


def restart(box: Box) -> None:
    lifecycle.note_boot(box, "after", timezone.now(), seen_before=box.seen_at)


def told() -> RebootReport:
    (line,) = reboot_notices.list_reboots()
    return line.told


def fates() -> dict[str, tuple[str, str]]:
    return {fate.server: (fate.where, fate.why) for fate in told().fates}


def test_each_server_that_was_wanted_is_told_of(box: Box, went_down: WentDown) -> None:
    back = went_down("qwen", start_with_box=True)
    fails = went_down("glm-5", start_with_box=True)
    went_down("stays")
    restart(box)
    assert fates()["qwen"] == ("waiting", "It is started in a moment.")

    lifecycle.start_due(box)
    Run.objects.filter(server=back.server).exclude(pk=back.pk).update(state=RunState.READY)
    again = Run.objects.filter(server=fails.server).exclude(pk=fails.pk)
    again.update(state=RunState.FAILED, failure="The driver does not answer.")

    assert fates() == {
        "glm-5": ("not", "The driver does not answer."),
        "qwen": ("back", ""),
        "stays": ("not", "Its profile does not say that it starts with the box."),
    }
    assert told().level == "failed"


def test_who_waits_says_for_what(box: Box, went_down: WentDown) -> None:
    run = went_down("qwen", start_with_box=True)
    restart(box)
    lifecycle.start_due(box)
    Run.objects.exclude(pk=run.pk).update(status_message="It waits until glm-5 has loaded.")

    assert fates() == {"qwen": ("waiting", "It waits until glm-5 has loaded.")}


def test_they_start_in_the_order_in_which_they_were_started_before(
    box: Box, went_down: WentDown
) -> None:
    for name, age in (("second", 200), ("first", 3000), ("third", 100)):
        went_down(name, age=age, start_with_box=True)
    restart(box)

    lifecycle.start_due(box)

    queued = Run.objects.filter(state=RunState.QUEUED).order_by("pk")
    assert [run.server.slug for run in queued] == ["first", "second", "third"]


def test_on_one_pool_of_memory_the_second_waits_until_the_first_has_loaded() -> None:
    gpus = [
        {
            "index": 0,
            "name": "GB10",
            "total": 119 * 2**30,
            "kind": "unified",
            "compute_capability": "12.1",
        }
    ]
    spark = factories.box("spark-1", facts={"gpus": gpus})
    first, second = (
        factories.run(factories.server(spark, name), RunState.QUEUED, age=100 - number)
        for number, name in enumerate(("first", "second"))
    )
    Reboot.objects.create(
        box=spark, boot_id="after", booted_at=timezone.now(), runs=[first.pk, second.pk]
    )
    Run.objects.filter(pk=first.pk).update(state=RunState.STARTING, started_at=timezone.now())

    wait = gpu_conflicts.check_turn(
        Run.objects.filter_managed().select_related("server__box", "version").get(pk=second.pk)
    )
    Run.objects.filter(pk=second.pk).update(status_message=wait.says)

    assert "first" in fates()["second"][1]
    assert fates()["first"][0] == "starting"


def test_what_was_upgraded_in_between_is_named(box: Box) -> None:
    restart(box)
    assert told().upgraded == ()

    box.facts = {**BEFORE, "docker": {}, "driver": "590.44.01"}
    reboots.note_versions(box)
    box.facts = {**BEFORE, "docker": {"version": "29.1.0"}, "driver": "590.44.01"}
    reboots.note_versions(box)
    box.facts = {**BEFORE, "docker": {"version": "30.0.0"}}
    reboots.note_versions(box)

    assert told().upgraded == (
        "the NVIDIA driver is 590.44.01 now, and was 580.95.05",
        "Docker is 29.1.0 now, and was 28.5.1",
    )


def test_a_docker_that_comes_late_does_not_hide_what_was_before(box: Box) -> None:
    reboots._remember(box, "after", timezone.now(), box.seen_at)
    box.facts = {}

    restart(box)

    assert Reboot.objects.get().before == {
        "driver": "580.95.05",
        "docker": "28.5.1",
        "kernel": "6.8.0-88",
    }


def test_the_first_look_at_a_box_is_no_restart(box: Box) -> None:
    box.boot_id = ""

    restart(box)

    assert reboot_notices.list_reboots() == []


@pytest.mark.parametrize(
    ("where", "ago", "is_over"),
    [("back", 23, False), ("back", 25, True), ("not", 25, True), ("waiting", 99, False)],
)
def test_it_goes_by_itself_when_all_is_said_and_a_day_has_passed(
    where: Any, ago: int, is_over: bool
) -> None:
    now = timezone.now()
    fates = (ServerAfterReboot(server="qwen", where=where),)
    told = RebootReport(box="rtx8", booted_at=now - timedelta(hours=ago), fates=fates, upgraded=())

    assert told.is_over(now) is is_over


def test_what_nobody_could_tell_is_no_upgrade() -> None:
    assert reboot.list_upgrades({"driver": "580"}, {}) == ()
    assert reboot.list_upgrades({}, {"driver": "580"}) == ()


def test_whoever_has_read_it_puts_it_away_for_all(box: Box, client: Client) -> None:
    restart(box)
    client.force_login(User.objects.create(username="grace", role=Role.OPERATOR))
    assert "was restarted" in client.get("/").content.decode()

    answer = client.post(f"/boxes/rtx8/restarts/{Reboot.objects.get().pk}/put-away/")

    assert answer.status_code == 204
    assert "was restarted" not in client.get("/").content.decode()
    assert AuditEntry.objects.get(action="put away restart").by_id


def test_a_viewer_reads_it_and_cannot_put_it_away(box: Box, client: Client) -> None:
    restart(box)
    client.force_login(User.objects.create(username="vi", role=Role.VIEWER))

    page = client.get("/").content.decode()

    assert "Nothing was wanted then." in page
    assert "Put away" not in page


def test_the_next_restart_is_told_although_the_last_was_put_away(box: Box) -> None:
    restart(box)
    assert Reboot.objects.get().dismiss(factories.person())
    box.boot_id = "another"

    lifecycle.note_boot(box, "third", timezone.now(), seen_before=timezone.now())

    assert [line.boot.boot_id for line in reboot_notices.list_reboots()] == ["third"]
