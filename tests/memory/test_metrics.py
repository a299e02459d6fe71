"""Metrics for Prometheus: who gets them, and that they say what the pages say."""

from dataclasses import replace
from datetime import timedelta
from math import isnan
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from inferdash.settings import env_token
from servers.host.http import prometheus
from servers.host.http.prometheus import ExpositionError, Families
from servers.models import Alert, Key, Role, Run
from servers.models.runs.run import RunState, Sleep
from tests import factories, measurements, prometheus_text, samples
from tests.canary.answered import canary
from tests.samples import GIB

TOKEN = "a-long-token-of-the-tests"


def scrape(token: str = TOKEN, **more: Any) -> Any:
    return Client().get("/metrics", headers={"Authorization": f"Bearer {token}"}, **more)


@pytest.fixture
def open_to(settings: Any, own_redis: None) -> None:
    settings.METRICS_TOKEN = TOKEN


def told() -> dict[str, prometheus_text.Metric]:
    answer = scrape()
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    return prometheus_text.read(answer.content.decode())


# Who gets them


@pytest.mark.django_db
def test_there_is_no_page_while_no_token_is_set(settings: Any) -> None:
    assert settings.METRICS_TOKEN == ""
    assert scrape("").status_code == 404
    assert scrape("guess").status_code == 404


@pytest.mark.django_db
@pytest.mark.usefixtures("open_to")
@pytest.mark.parametrize(
    "said", ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", TOKEN, "Bearer \xe9"]
)
def test_a_wrong_token_is_refused(said: str) -> None:
    answer = Client().get("/metrics", headers={"Authorization": said} if said else {})

    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert b"inferdash_" not in answer.content


@pytest.mark.django_db
@pytest.mark.usefixtures("open_to")
def test_a_session_is_no_token() -> None:
    client = factories.log_in(factories.person())

    assert client.get("/metrics").status_code == 401


@pytest.mark.django_db
@pytest.mark.usefixtures("own_redis")
def test_anybodys_key_will_do_until_it_ends() -> None:
    key, token = Key.make(
        factories.person("vera", Role.VIEWER), "prometheus", Role.VIEWER, expires_at=None
    )
    assert scrape(token).status_code == 200
    assert scrape(f"{token}x").status_code == 401
    key.refresh_from_db()
    assert key.used_at is not None

    Key.objects.revoke(key)
    assert scrape(token).status_code == 404, "no token is left"


def test_a_token_that_can_be_guessed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFERDASH_METRICS_TOKEN", "secret")

    with pytest.raises(ImproperlyConfigured, match="at least 16"):
        env_token("INFERDASH_METRICS_TOKEN")


# What they say


@pytest.mark.django_db
@pytest.mark.usefixtures("open_to")
def test_an_installation_without_boxes_says_nothing() -> None:
    assert told() == {}


@pytest.mark.django_db
@pytest.mark.usefixtures("open_to")
def test_boxes_gpus_and_servers_are_told_in_base_units() -> None:
    factories.busy_team()
    Run.objects.filter(server__slug="minimax-m27").update(sleep=Sleep.ASLEEP)
    found = told()

    assert found["inferdash_box_up"].of(box="rtx8") == 1
    assert found["inferdash_box_seen_age_seconds"].of(box="rtx8") < 60
    assert found["inferdash_box_memory_total_bytes"].of(box="rtx8") == int(503.5 * GIB)
    third = {"box": "rtx8", "gpu": "3"}
    assert found["inferdash_gpu_memory_total_bytes"].of(**third) == int(95.6 * GIB)
    assert found["inferdash_gpu_utilization_ratio"].of(**third) == 0.61
    assert found["inferdash_gpu_power_watts"].of(**third) == pytest.approx(339.4)
    assert found["inferdash_gpu_sm_clock_hertz"].of(**third) == 2422e6
    assert found["inferdash_gpu_throttle"].of(**third, reason="sw_power_cap") == 1
    assert found["inferdash_gpu_throttle"].of(**third, reason="hw_thermal") == 0
    assert found["inferdash_gpu_info"].of(box="spark-1", kind="unified", driver="580.142") == 1
    assert found["inferdash_server_state"].of(server="minimax-m27", state="ready") == 1
    assert found["inferdash_server_state"].of(server="minimax-m27", state="failed") == 0
    assert found["inferdash_server_state"].of(server="llama-scout-test", state="never started") == 1
    assert found["inferdash_server_asleep"].of(server="minimax-m27") == 1
    assert found["inferdash_server_asleep"].of(server="gpt-oss-120b") == 0
    assert found["inferdash_server_requests"].of(server="minimax-m27") == 3
    assert found["inferdash_server_generated_tokens_per_second"].of(server="minimax-m27") == 142.6
    assert found["inferdash_server_time_to_ready_seconds"].of(server="minimax-m27") == (
        pytest.approx(1440)
    )
    assert found["inferdash_server_runs_failed_total"].of(server="glm-5") == 1
    assert found["inferdash_server_runs_failed_total"].kind == "counter"


@pytest.mark.django_db
@pytest.mark.usefixtures("open_to")
def test_what_a_card_does_not_report_is_left_out() -> None:
    factories.busy_team()
    found = told()

    spark = [
        key
        for key in found["inferdash_gpu_memory_reserved_bytes"].series
        if ("box", "spark-1") in key
    ]
    assert spark == []


@pytest.mark.django_db
@pytest.mark.usefixtures("open_to")
def test_the_parts_of_the_memory_add_up_and_name_no_process() -> None:
    factories.busy_team()
    found = told()
    parts = found["inferdash_gpu_memory_part_bytes"]
    here = {
        key: size for key, size in parts.series.items() if {("box", "rtx8"), ("gpu", "4")} <= key
    }

    assert sum(here.values()) == found["inferdash_gpu_memory_total_bytes"].of(box="rtx8", gpu="4")
    assert parts.of(box="rtx8", gpu="4", part="process") > 9 * GIB
    assert parts.of(box="rtx8", gpu="0", part="server", server="minimax-m27") > 84 * GIB
    assert not any("train_lora" in text for key in parts.series for _name, text in key)


@pytest.mark.django_db
@pytest.mark.usefixtures("open_to")
def test_verdicts_findings_and_alerts_are_told() -> None:
    box = factories.box("rtx8")
    finding = {"rule": "thermal", "subject": "GPU-1", "severity": "critical", "title": "Hot"}
    verdict = {
        "gpu": "GPU-00000000-1111-2222-3333-444444444444", "verdict": "leaked",
        "unattributed": 33 * GIB, "reason": "", "advice": "", "alarm": True, "t": 0.0,
    }  # fmt: skip
    newest = samples.sample([samples.card(0, [])], [], findings=[finding, finding])
    factories.tell(box, {**newest, "verdicts": [verdict]})
    Alert.objects.create(box=box, kind="verdict", severity="critical", title="Leaked")
    found = told()

    assert found["inferdash_gpu_memory_verdict"].of(verdict="leaked") == 1
    assert found["inferdash_gpu_memory_verdict"].of(verdict="ok") == 0
    assert found["inferdash_gpu_memory_unattributed_bytes"].of(gpu="0") == 33 * GIB
    assert found["inferdash_box_finding"].of(rule="thermal", severity="critical") == 1
    assert found["inferdash_alerts_open"].of(box="rtx8", severity="critical") == 1


@pytest.mark.django_db
@pytest.mark.usefixtures("open_to")
def test_a_box_that_is_silent_is_down_and_says_nothing_else() -> None:
    factories.box("rtx8", seen_at=timezone.now() - timedelta(minutes=5))
    found = told()

    assert found["inferdash_box_up"].of(box="rtx8") == 0
    assert found["inferdash_box_seen_age_seconds"].of(box="rtx8") >= 300
    assert "inferdash_gpu_info" not in found


@pytest.mark.django_db
@pytest.mark.usefixtures("open_to")
def test_counters_count_every_run_and_restart() -> None:
    server = factories.server(factories.box("rtx8"), "glm-5")
    for tries in (0, 1, 2):
        factories.run(server, RunState.FAILED, attempts=tries, ready_at=None)
    factories.run(server, RunState.READY)
    found = told()

    for name, count in (
        ("runs_started", 4),
        ("runs_ready", 1),
        ("runs_failed", 3),
        ("restarts", 2),
    ):
        assert found[f"inferdash_server_{name}_total"].of(server="glm-5", box="rtx8") == count


@pytest.mark.django_db
@pytest.mark.usefixtures("open_to")
def test_the_newest_clean_check_up_of_each_server_is_told() -> None:
    server = factories.server(factories.box("rtx8"), "glm-5")
    measurements.benchmark(server, speed=2.0)
    clean = measurements.benchmark(server)
    measurements.benchmark(server, speed=0.1, taints=("benchmarks.others",))
    factories.run(server)
    canary(server)
    found = told()

    alone = {"server": "glm-5", "preset": "quick", "point": "One person", "concurrency": "1"}
    rate = found["inferdash_server_checkup_user_tokens_per_second"].of(**alone)
    assert rate == pytest.approx(120 / 1.06, rel=0.01)
    first = found["inferdash_server_checkup_first_token_seconds"].of(**alone)
    assert 0.08 < first < 0.1
    verdicts = found["inferdash_server_canary_verdict"]
    asked = {"server": "glm-5", "box": "rtx8", "set": "quick"}
    assert verdicts.of(**asked, verdict="pass") == 1
    assert verdicts.of(**asked, verdict="wrong") == 0
    assert found["inferdash_server_canary_items"].of(**asked, verdict="pass") > 5
    at = found["inferdash_server_checkup_timestamp_seconds"].of(server="glm-5", box="rtx8")
    assert at == pytest.approx(clean.asked_at.timestamp())


@pytest.mark.django_db
@pytest.mark.usefixtures("open_to")
def test_names_that_would_break_a_line_are_escaped() -> None:
    hostile = 'x"} 1\n# TYPE y counter\\'
    server = factories.server(factories.box("rtx8"), "glm-5")
    profile = server.profile
    launch = replace(profile.launch, checkpoint=hostile)
    profile.save_version(launch, by=factories.person(), message="Hostile")

    assert told()["inferdash_server_info"].of(model=hostile, server="glm-5") == 1


# The format


@given(
    value=st.floats(),
    text=st.text(
        st.characters(
            exclude_categories=["Cs"], exclude_characters="\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
        )
    ),
)
def test_any_text_and_any_number_come_back(value: float, text: str) -> None:
    into = Families()
    into.gauge("inferdash_x", text).add(value, server=text)
    read = prometheus_text.read(into.text())["inferdash_x"]

    ((labels, said),) = read.series.items()
    assert labels == {("server", text)}
    assert said == value or (isnan(said) and isnan(value))
    assert read.help == text


def test_our_own_reader_reads_it_too() -> None:
    into = Families()
    into.counter("inferdash_x_total", "Some.").add(3, server="a")
    into.counter("inferdash_x_total", "Some.").add(4, server='b"\\')

    assert prometheus.totals(into.text(), ["inferdash_x_total"]) == {"inferdash_x_total": 7}


def test_what_prometheus_would_refuse_is_not_written() -> None:
    twice = Families()
    twice.gauge("inferdash_x", "").add(1, server="a")
    with pytest.raises(ExpositionError, match="twice"):
        twice.gauge("inferdash_x", "").add(2, server="a")

    for name, kind, label in (
        ("x-y", "gauge", "a"),
        ("x_total", "gauge", "a"),
        ("x", "counter", "a"),
        ("x", "gauge", "__a"),
    ):
        with pytest.raises(ExpositionError):
            getattr(Families(), kind)(name, "").add(1, **{label: "1"})
    empty = Families()
    empty.gauge("inferdash_x", "Nothing is known.").add(None)
    assert empty.text() == ""
