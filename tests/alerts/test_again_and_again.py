"""Lives that end one after the other: each was ready for seconds, and looks well by itself."""

import json
from datetime import timedelta

import pytest
from django.utils import timezone

from servers.lifecycle.runs import restart_policy
from servers.models import Alert, Box, Notification, Run, Server
from servers.models.runs.run import STEADY, RunState
from servers.watcher.alerts import AlertMonitor
from tests import factories
from tests.alerts.receiver import Receiver
from tests.alerts.rounds import outlet, send
from tests.external.monitoring import rows

pytestmark = pytest.mark.django_db(transaction=True)


def lived(
    server: Server, seconds_ago: float, *, state: RunState = RunState.FAILED, served: float = 3
) -> Run:
    """A life that was ready for some seconds and has ended."""
    ended = timezone.now() - timedelta(seconds=seconds_ago)
    make = factories.external_run if server.watches else factories.run
    return make(
        server, state, started_by=None,
        ready_at=ended - timedelta(seconds=served), ended_at=ended, exit_code=1,
        diagnosis={"cause": "", "summary": ""}, failure="The engine ended by itself.",
    )  # fmt: skip


def titles() -> list[str]:
    return list(Alert.objects.order_by("pk").values_list("title", flat=True))


def test_a_watched_one_that_dies_again_and_again_is_told(box: Box, there: Receiver) -> None:
    outlet(there)
    server = rows.watched(box, state=RunState.STOPPED).server
    watcher = AlertMonitor(box)
    for seconds_ago in (12, 8):
        lived(server, seconds_ago)
        factories.external_run(server, age=1)
        watcher.step(None)
        Run.objects.filter(server=server, state=RunState.READY).delete()
    assert titles() == ["speech-llm on rtx8 died after 3 s, and was started again"] * 2

    lived(server, 4)
    now = factories.external_run(server, age=1)
    watcher.step(None)
    watcher.step(None)

    assert titles()[2:] == ["speech-llm on rtx8 dies again and again: 3 times in a row"]
    loop = Alert.objects.open().get()
    assert (loop.kind, loop.severity, loop.run) == ("died", "critical", now)
    assert loop.detail == "The engine ended by itself."
    assert Notification.objects.filter(alert=loop).count() == 1

    Run.objects.filter(pk=now.pk).update(ready_at=timezone.now() - STEADY)
    watcher.step(None)
    assert not Alert.objects.open().exists(), "it has recovered"


@pytest.mark.parametrize(
    ("lives", "count"),
    [
        ([(9, RunState.FAILED, 3.0), (6, RunState.FAILED, 3.0), (3, RunState.FAILED, 3.0)], 3),
        ([(9, RunState.FAILED, 3.0), (6, RunState.STOPPED, 3.0), (3, RunState.FAILED, 3.0)], 1),
        ([(9, RunState.FAILED, 3.0), (6, RunState.FAILED, 900.0), (3, RunState.FAILED, 3.0)], 2),
        ([(4000, RunState.FAILED, 3.0), (6, RunState.FAILED, 3.0)], 1),
        ([], 0),
    ],
    ids=["a row", "stopped between", "served long between", "an hour ago", "none"],
)
def test_what_is_a_row(box: Box, lives: list[tuple[float, RunState, float]], count: int) -> None:
    server = factories.server(box, "glm-5")
    for seconds_ago, state, served in lives:
        lived(server, seconds_ago, state=state, served=served)

    assert restart_policy.count_crashes(server).count == count
    assert restart_policy.count_crashes(server).is_loop is (count >= restart_policy.LOOP)


def test_one_of_ours_that_is_started_again_each_time_is_one_alert(box: Box) -> None:
    """Ready for seconds each time, it would be told, be over and be told again."""
    server = factories.server(box, "glm-5", restart="always")
    watcher = AlertMonitor(box)
    for tries in range(4):
        run = lived(server, 1)
        Run.objects.filter(pk=run.pk).write(plan__attempts=tries)
        watcher.step(None)
        ready = factories.run(server, age=1, attempts=tries + 1)
        if tries >= 2:
            watcher.step(None)
        if tries < 3:
            Run.objects.filter(pk=ready.pk).delete()

    assert Alert.objects.count() == 1
    assert Alert.objects.get().is_open


@pytest.mark.parametrize("kind", ["failed", "died"])
@pytest.mark.parametrize(
    ("after", "words"),
    [
        (RunState.STARTING, "ada has started it again."),
        (RunState.READY, "It is ready again."),
        (RunState.STOPPED, "It was stopped."),
        (None, "Its server was removed."),
    ],
)
def test_who_heard_of_an_end_hears_that_it_is_over(
    box: Box, there: Receiver, kind: str, after: RunState | None, words: str
) -> None:
    outlet(there)
    server = factories.server(box, "glm-5")
    ago = timezone.now() - timedelta(hours=3)
    factories.run(
        server, RunState.FAILED, ready_at=ago if kind == "died" else None, failure="It fell over.",
        diagnosis={"cause": "", "summary": ""},
    )  # fmt: skip
    watcher = AlertMonitor(box)
    watcher.step(None)
    send(box)
    assert Alert.objects.get().kind == kind

    if after is None:
        Server.objects.update(removed_at=timezone.now())
    else:
        factories.run(server, after, age=5)
    watcher.step(None)
    send(box)

    told = [json.loads(each.body) for each in there.got]
    assert [each["event"] for each in told] == ["raised", "cleared"]
    assert told[1]["detail"] == f"{words} It fell over."


def test_its_page_says_so(box: Box) -> None:
    run = rows.watched(box)
    said = restart_policy.explain_crash_loop(restart_policy.Deaths(count=4))
    Run.objects.filter(pk=run.pk).update(status_message=said)
    client = factories.log_in(factories.person())

    assert said in client.get(f"/servers/{run.server.slug}/").content.decode()
