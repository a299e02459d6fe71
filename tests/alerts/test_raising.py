"""A watcher's look at rows and samples: what it raises, keeps and clears."""

import time
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from servers.contexts import alerts
from servers.judge.alerts import case
from servers.judge.memory.hardware.finding import HardwareFinding, Severity
from servers.models import Alert, Box, Profile, Run, Server
from servers.models.runs.run import DesiredState, RunState
from servers.watcher.alerts import AlertMonitor
from tests import factories, shelves
from tests.samples import card

pytestmark = pytest.mark.django_db(transaction=True)

GIB = 2**30


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(case, "AFTER", {})
    monkeypatch.setattr(case, "CALM", {})


@pytest.fixture
def server(box: Box) -> Server:
    return factories.server(box, "glm-5")


def failed(server: Server, **values: Any) -> Run:
    known = {"diagnosis": {"cause": "", "summary": ""}, "failure": "It fell over."}
    return factories.run(server, RunState.FAILED, **known | values)


def told() -> list[tuple[str, str]]:
    return [(each.kind, each.title) for each in Alert.objects.open().order_by("pk")]


def finding(rule: str, subject: str, severity: Severity) -> dict[str, Any]:
    return HardwareFinding(
        rule=rule,
        subject=subject,
        severity=severity,
        title=f"{subject} is not well",
        because="2 GiB are left.",
        advice="Delete a model.",
        since=time.time(),
    ).to_json()


def newest(box: Box, **values: Any) -> dict[str, Any]:
    known = {"t": time.time(), "verdicts": [], "findings": [], "gpus": []}
    return known | {"meminfo": {"MemAvailable": 90 * GIB}} | values


def test_a_failed_start_is_told_with_its_run_and_kept_until_somebody_starts_it_again(
    box: Box, server: Server
) -> None:
    run = failed(server)
    watcher = AlertMonitor(box)
    watcher.step(newest(box))
    watcher.step(newest(box))

    assert told() == [("failed", "glm-5 on rtx8 failed to start")]
    alert = Alert.objects.get()
    assert (alert.run, alert.server, alert.checkpoint) == (run, server, "zai-org/GLM-5-FP8")
    assert alert.raised_at == run.ended_at

    factories.run(server, RunState.STARTING)
    watcher.step(newest(box))
    assert told() == []
    assert Alert.objects.get().cleared_at


def test_a_watcher_that_begins_anew_raises_nothing_twice(box: Box, server: Server) -> None:
    failed(server)
    AlertMonitor(box).step(newest(box))
    AlertMonitor(box).step(newest(box))

    assert Alert.objects.count() == 1


def test_a_persons_stop_is_none(box: Box, server: Server) -> None:
    factories.run(
        server, RunState.STOPPED, stopped_by=factories.person(), wanted=DesiredState.STOPPED
    )
    AlertMonitor(box).step(newest(box))
    failed(server, stopped_by=factories.person())
    AlertMonitor(box).step(newest(box))

    assert told() == []


def test_the_first_remedy_of_the_catalogue_is_the_advice(box: Box, server: Server) -> None:
    failed(server, diagnosis={"cause": "cuda-oom", "summary": "GPU memory ran out.", "groups": {}})
    AlertMonitor(box).step(newest(box))

    alert = Alert.objects.get()
    assert alert.detail == "GPU memory ran out."
    assert alert.advice
    assert "log's last lines" not in alert.advice


def test_what_became_of_its_memory_is_said(box: Box, server: Server) -> None:
    back = {"outcome": "back", "held": int(61.2 * GIB), "to_come": 0, "seconds": 9.0}
    ago = timezone.now() - timedelta(hours=3)
    failed(server, ready_at=ago, memory_before={}, memory_after=back, released_at=timezone.now())
    AlertMonitor(box).step(newest(box))

    alert = Alert.objects.get()
    assert alert.title == "glm-5 on rtx8 died after 3 h"
    assert alert.memory == "Released 61.2 GiB in 9 s."


def test_ready_after_a_long_start_is_told_once_and_is_over_at_once(
    box: Box, server: Server
) -> None:
    ready = factories.run(server, age=1200)
    Run.objects.update(ready_at=timezone.now())
    for _look in range(3):
        AlertMonitor(box).step(newest(box))

    [alert] = Alert.objects.all()
    assert (alert.kind, alert.run, alert.is_open) == ("ready", ready, False)
    assert alert.title == "glm-5 on rtx8 is ready after 20 min"
    assert alert.lasted is None


def test_an_unhealthy_engine_is_told_until_it_is_well(box: Box, server: Server) -> None:
    run = factories.run(server, unhealthy_since=timezone.now(), unhealthy_because="answers nothing")
    watcher = AlertMonitor(box)
    watcher.step(newest(box))
    assert told() == [("unhealthy", "glm-5 on rtx8 is unhealthy")]

    Run.objects.filter(pk=run.pk).write(health__unhealthy_since=None, health__unhealthy_because="")
    watcher.step(newest(box))
    assert told() == []


def test_a_sample_raises_and_a_missing_one_clears_nothing(box: Box) -> None:
    full = finding("disk", "/models", "warning")
    watcher = AlertMonitor(box)
    watcher.step(newest(box, findings=[full], meminfo={"MemAvailable": GIB}))
    assert [kind for kind, _title in told()] == ["floor", "disk"]

    watcher.step(None)
    watcher.step({**newest(box), "t": time.time() - 60})
    without = {k: v for k, v in newest(box).items() if k != "findings"}
    watcher.step({**without, "meminfo": {}})
    assert [kind for kind, _title in told()] == ["floor", "disk"]
    watcher.step(newest(box))
    assert told() == []


def test_a_load_that_takes_the_last_memory_is_told_once(box: Box, server: Server) -> None:
    factories.run(server, RunState.STARTING, memory_warning="The machine has 1.0 GiB left.")
    little = newest(box, meminfo={"MemAvailable": GIB})
    AlertMonitor(box).step(little)

    assert told() == [("floor", "glm-5 on rtx8 leaves the machine little memory while it loads")]
    assert [notice.what for notice in alerts.attention([box], {box.slug: little})] == [
        "only 1.0 GiB of memory are left"
    ]


def test_what_the_box_lacks_is_told(box: Box) -> None:
    Box.objects.update(facts={"problems": [{"what": "Docker cannot be used", "fix": "Start it."}]})
    AlertMonitor(box).step(newest(box))

    assert told() == [("box", "rtx8: Docker cannot be used")]


def test_what_a_finding_tells_is_not_told_as_a_lack_too(box: Box) -> None:
    Box.objects.update(facts={"problems": [{"what": "No GPU is seen", "fix": "Look."}]})
    gone = finding("driver", "box", "critical")
    AlertMonitor(box).step(newest(box, findings=[gone]))

    assert [kind for kind, _title in told()] == ["hardware"]


def test_a_driver_that_has_come_is_no_lack_any_more(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    Box.objects.update(facts={"problems": [{"what": "No GPU is seen", "fix": "Look."}]})
    watcher = AlertMonitor(box)
    watcher.step(newest(box, error="no driver"))
    assert told() == [("box", "rtx8: No GPU is seen")]

    monkeypatch.setattr(case, "CALM", {"box": 3600.0, "hardware": 3600.0})
    Box.objects.update(facts={"problems": []})
    watcher.step(newest(box, error="no driver", stale_s=9.0))
    assert told() != [], "nobody sees that it is over"
    watcher.step(newest(box, gpus=[card(0, [])], error=None))
    assert told() == []


def test_another_box_that_is_silent_is_told_by_one_watcher_only(box: Box) -> None:
    seen = timezone.now() - timedelta(minutes=10)
    spark = factories.box("spark-1", seen_at=seen)
    factories.run(factories.server(spark, "qwen3-8b"))
    third = factories.box("spark-2")
    for each in (box, third):
        AlertMonitor(each).look_at_others()

    assert told() == [("silent", "spark-1 is away")]
    alert = Alert.objects.get()
    assert alert.box == spark
    assert "1 server was running there." in alert.detail

    Box.objects.filter(pk=spark.pk).update(seen_at=timezone.now())
    AlertMonitor(box).look_at_others()
    assert told() == []


def test_an_alert_outlives_the_server_that_it_is_about(box: Box, server: Server) -> None:
    failed(server)
    AlertMonitor(box).step(newest(box))
    Server.objects.update(run=None)
    Run.objects.all().delete()
    server.delete()
    Profile.objects.update(current=None)

    AlertMonitor(box).step(newest(box))

    alert = Alert.objects.get()
    assert alert.cleared_at
    assert (alert.server, alert.run) == (None, None)
    assert alert.title == "glm-5 on rtx8 failed to start"
    assert alert.server_name == "glm-5"


def test_a_removed_server_needs_nobody(box: Box, server: Server) -> None:
    failed(server)
    watcher = AlertMonitor(box)
    watcher.step(newest(box))
    Server.objects.update(removed_at=timezone.now())
    watcher.step(newest(box))

    assert told() == []


def ended(seconds: float, **values: Any) -> dict[str, Any]:
    """A failure so long after the click."""
    now = timezone.now()
    asked = now - timedelta(seconds=seconds)
    return {"state": "failed", "asked_at": asked, "ended_at": now, "said": "No room."} | values


def test_a_download_that_fails_while_nobody_looks_is_told_until_it_is_there(box: Box) -> None:
    factories.download(box, "a/at-once", **ended(5))
    row = factories.download(box, "Qwen/Qwen3-8B", **ended(600, advice="Make room."))
    watcher = AlertMonitor(box)
    watcher.step(None)
    assert told() == [("download", "rtx8: the download of Qwen/Qwen3-8B failed")]
    alert = Alert.objects.get()
    assert (alert.detail, alert.severity) == ("No room.", "warning")
    assert alert.advice.startswith("Make room. Resume it on the page Models.")
    assert alert.get_absolute_url() == "/models/#downloads"
    (notice,) = [each for each in alerts.now() if each.about == "box" and each.alert]
    assert notice.what == "the download of Qwen/Qwen3-8B failed"

    # The same, asked for anew.
    factories.download(box, "Qwen/Qwen3-8B", state="downloading")
    watcher.step(None)
    assert told() == []
    assert row.state == "failed"


def test_a_failed_pull_is_told_until_somebody_has_read_it(box: Box) -> None:
    job = shelves.image_job(box, **ended(600))
    shelves.image_job(box, kind="build", reference="inferdash/x:1", **ended(600))
    watcher = AlertMonitor(box)
    watcher.step(None)
    assert told() == [("pull", "rtx8: the pull of vllm/vllm-openai:v0.21.0 failed")]
    assert Alert.objects.get().get_absolute_url() == "/images/"
    type(job).objects.filter(pk=job.pk).update(dismissed=True)
    # Of a start's, its run tells.
    shelves.image_job(box, params={"for_start": True}, **ended(600))
    watcher.step(None)
    assert told() == []


def test_a_failure_of_yesterday_is_no_news(box: Box) -> None:
    long_ago = timezone.now() - timedelta(days=2)
    factories.download(box, **ended(0, asked_at=long_ago - timedelta(hours=1), ended_at=long_ago))
    AlertMonitor(box).step(None)
    assert told() == []
