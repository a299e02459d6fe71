"""The watcher follows a start by its log, and pages show where it is."""

import threading
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from django.utils import timezone

from servers import events
from servers.host.docker.containers import DockerContainers
from servers.judge.logs.phases.reader import Reader
from servers.judge.runs import start_progress
from servers.lifecycle.runs import starts
from servers.models import LogChunk, Run, Server
from servers.models.runs.run import RunState
from servers.watcher.logs.follower import Follower
from servers.watcher.loop import Watcher
from servers.watcher.runs import start_tracker
from servers.watcher.runs.start_tracker import StartTracker
from tests import factories
from tests.runs.test_phases import started
from tests.waiting import wait_until


def write(run: Run, lines: list[str], *, from_at: datetime, every: float = 1.0) -> None:
    """Store lines as if they had been written one after the other from `from_at` on."""
    records = []
    for index, line in enumerate(lines):
        at = (from_at + timedelta(seconds=index * every)).isoformat(timespec="microseconds")
        records.append(f"{at.replace('+00:00', '000Z')} e {line}".encode())
    LogChunk.objects.append(run.pk, Run.objects.get(pk=run.pk).log.lines, records)


def fresh(run: Run) -> Run:
    return Run.objects.select_related("version", "server__box").get(pk=run.pk)


def page(of: Server, path: str = "/") -> str:
    client = factories.log_in(factories.person())
    return " ".join(client.get(path or f"/servers/{of.slug}/").content.decode().split())


def starting_run(of: Server, ago: float = 60) -> Run:
    run = factories.run(of, RunState.STARTING)
    at = timezone.now() - timedelta(seconds=ago)
    Run.objects.filter(pk=run.pk).update(started_at=at, created_at=at - timedelta(seconds=2))
    return fresh(run)


@pytest.fixture
def vllm_run(own_redis: object, db: None) -> Run:
    return starting_run(factories.server(factories.box(), model="gpt-oss-120b"))


@pytest.mark.django_db(transaction=True)
def test_a_start_is_read_in_steps_and_remembered(own_redis: object) -> None:
    on = factories.server(factories.box(), model="gpt-oss-120b")
    run = starting_run(on)
    lines = started("vllm")
    assert run.started_at is not None
    write(run, lines[:8], from_at=run.started_at)
    StartTracker().look(fresh(run))
    half = fresh(run)
    assert starts.read_progress(half).phase == "loading"
    assert starts.read_progress(half).percent == 40
    assert half.start.phases_read == 8
    write(run, lines[8:], from_at=run.started_at + timedelta(seconds=8))
    # Another watcher takes over.
    StartTracker().look(fresh(run))
    done = fresh(run)
    assert starts.read_progress(done).is_ready
    took = start_progress.durations(starts.list_stretches(done))
    assert took["loading"] == pytest.approx(8)
    assert list(took) == [
        "starting",
        "connecting",
        "loading",
        "profiling",
        "compiling",
        "kv_cache",
        "capturing",
    ]


@pytest.mark.django_db(transaction=True)
def test_progress_is_as_new_as_the_log_while_a_round_of_questions_hangs(
    own_redis: object, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.BOX_FILE = tmp_path / "box.toml"
    on = factories.server(factories.box(settings.BOX), model="gpt-oss-120b")
    run = starting_run(on)
    assert run.started_at is not None
    told: list[str] = []

    def changed(_kind: str, _server: int) -> None:
        found = starts.read_progress(fresh(run))
        told.append(f"{found.bar.done} of {found.bar.total}" if found.bar else found.phase)

    monkeypatch.setattr(events, "publish_change", changed)
    watcher = Watcher()
    watcher.boot_is_noted.set()
    reading = threading.Thread(target=watcher._run_start_reader)
    reading.start()
    try:
        log = Follower(run.pk, run.container_id, masks=(), docker=cast(DockerContainers, None))
        before = started("vllm")[:8]
        of = before[-1].partition(":")[0]
        for done in (120, 121, 180):
            bar = f"{of}: {done // 3}% Completed | {done}/300 [00:00<00:01,  1.65it/s]"
            lines = [*(each for each in before if "Completed" not in each), bar]
            at = timezone.now().isoformat(timespec="microseconds").replace("+00:00", "000Z")
            log._append([f"{at} e {line}".encode() for line in lines])
            wait_until(partial(told.__contains__, f"{done} of 300"), lambda: told)
            before = []
    finally:
        watcher.stop()
        reading.join()


@pytest.mark.django_db(transaction=True)
def test_the_phase_in_which_a_start_failed_is_read_to_its_last_line(own_redis: object) -> None:
    box = factories.box()
    run = starting_run(factories.server(box, model="gpt-oss-120b"))
    assert run.started_at is not None
    write(run, started("vllm")[:8], from_at=run.started_at)
    now = timezone.now()
    Run.objects.filter(pk=run.pk).update(state=RunState.FAILED, ended_at=now, ready_at=None)
    StartTracker().close(box)
    assert starts.read_progress(fresh(run)).phase == "loading"
    assert starts.list_stretches(fresh(run))[-1].ended == now


@pytest.mark.django_db(transaction=True)
def test_what_phases_usually_take_is_learned_from_good_runs(own_redis: object) -> None:
    on = factories.server(factories.box(), model="gpt-oss-120b")
    earlier = starting_run(on, ago=3600)
    assert earlier.started_at is not None
    write(earlier, started("vllm"), from_at=earlier.started_at, every=10)
    StartTracker().look(fresh(earlier))
    ready = earlier.started_at + timedelta(seconds=400)
    Run.objects.filter(pk=earlier.pk).update(
        state=RunState.STOPPED, ready_at=ready, ended_at=timezone.now()
    )
    run = starting_run(on)
    usually = start_tracker.usual_phases(run)
    assert usually["loading"] == pytest.approx(80)
    StartTracker().look(run)
    assert fresh(run).start.usual_phases == usually


NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def stretch(phase: str, seconds: float) -> start_progress.Stretch:
    return start_progress.Stretch(
        phase=phase, words=phase, began=NOW - timedelta(seconds=seconds), ended=None
    )


def test_what_is_left_is_the_bars_pace_and_the_usual_rest() -> None:
    usually = {"loading": 100.0, "compiling": 30.0, "capturing": 20.0}
    spent = stretch("loading", 60)
    found = start_progress.estimate_time_left(spent, 25, usually, engine="vllm", now=NOW)
    assert found == timedelta(seconds=60 * 3 + 50)
    found = start_progress.estimate_time_left(spent, None, usually, engine="vllm", now=NOW)
    assert found == timedelta(seconds=40 + 50)


def test_nothing_is_promised_where_nothing_is_known_or_it_takes_longer_than_ever() -> None:
    assert (
        start_progress.estimate_time_left(stretch("loading", 60), 50, {}, engine="vllm", now=NOW)
        is None
    )
    usually = {"loading": 50.0, "capturing": 20.0}
    assert (
        start_progress.estimate_time_left(
            stretch("loading", 60), None, usually, engine="vllm", now=NOW
        )
        is None
    )
    assert (
        start_progress.estimate_time_left(
            stretch("tuning", 60), None, usually, engine="vllm", now=NOW
        )
        is None
    )


@pytest.mark.parametrize(
    ("phase", "silent", "usually", "unified", "is_quiet"),
    [
        ("loading", 7 * 60, {}, False, False),
        ("loading", 11 * 60, {}, False, True),
        ("loading", 40 * 60, {}, True, False),
        ("loading", 50 * 60, {}, True, True),
        ("loading", 11 * 60, {"loading": 1200.0}, False, False),
        ("loading", 6 * 60, {"loading": 200.0}, False, True),
        ("kv_cache", 90, {"kv_cache": 2.0}, False, False),
    ],
)
def test_quiet_is_longer_than_usual(
    phase: str, silent: float, usually: dict[str, float], unified: bool, is_quiet: bool
) -> None:
    heard = NOW - timedelta(seconds=silent)
    found = start_progress.quiet(
        stretch(phase, 3600), heard, usually, engine="vllm", unified=unified, now=NOW
    )
    assert found == (timedelta(seconds=silent) if is_quiet else None)


def test_a_phase_that_most_runs_lack_is_not_usual() -> None:
    runs = [{"loading": 10.0, "downloading": 900.0}, {"loading": 12.0}, {"loading": 30.0}]
    assert start_progress.usual(runs) == {"loading": 12.0}


def test_a_measured_download_is_a_phase_of_its_own() -> None:
    reader = Reader("vllm")
    began = NOW + timedelta(seconds=10)
    reader.feed(1, "Starting to load model a/b...", began.isoformat())
    download = start_progress.WeightsDownload(
        began=NOW + timedelta(seconds=12), ended=None, size=2**30, total=None, rate=2.0**20
    )
    now_loading = start_progress.stretches(
        reader.progress, started=NOW, ended=None, download=download
    )
    assert [(each.phase, each.began) for each in now_loading] == [
        ("starting", NOW),
        ("downloading", began),
    ]
    over = start_progress.WeightsDownload(
        began=download.began, ended=NOW + timedelta(seconds=90), size=1, total=None, rate=None
    )
    found = start_progress.stretches(reader.progress, started=NOW, ended=None, download=over)
    assert [(each.phase, each.took) for each in found] == [
        ("starting", timedelta(seconds=10)),
        ("downloading", timedelta(seconds=80)),
        ("loading", None),
    ]


def test_a_guides_words_on_the_start_are_quoted() -> None:
    assert start_progress.quote_promised_time(
        {"tokens per second": "30-35", "first start": "10-15 min"}
    ) == ("10-15 min")
    assert start_progress.quote_promised_time({"load": "5 min"}) == "5 min"
    assert start_progress.quote_promised_time({"restarts": "2", "download": "16 GB"}) == ""


@pytest.mark.django_db(transaction=True)
def test_card_and_page_show_phase_percent_and_what_is_left(own_redis: object) -> None:
    on = factories.server(factories.box(), model="gpt-oss-120b")
    run = starting_run(on)
    assert run.started_at is not None
    write(run, started("vllm")[:8], from_at=run.started_at + timedelta(seconds=40))
    StartTracker().look(fresh(run))
    Run.objects.filter(pk=run.pk).write(start__usual_phases={"loading": 60.0, "capturing": 300.0})

    said = page(on)
    assert '<progress aria-label="Loading weights" value="40" max="100">' in said
    assert "Loading weights 40&nbsp;%, 2 of 5; about 5 min left." in said

    said = page(on, "")
    assert '<span class="step-name">starting</span>' not in said
    assert "starting the engine" in said
    assert '<span class="step-name">loading weights</span>' in said
    assert '<span class="step-name">capturing CUDA graphs</span>' in said
    assert '<span class="step-usually">usually 5 min</span>' in said


@pytest.mark.django_db(transaction=True)
def test_the_first_start_quotes_the_profiles_source(own_redis: object) -> None:
    expected = {"first start": "10-15 min"}
    on = factories.server(factories.box(), model="gpt-oss-120b", expected=expected)
    starting_run(on)
    assert "Its source says of a start: 10-15 min." in page(on)


@pytest.mark.django_db(transaction=True)
def test_a_quiet_start_says_for_how_long(own_redis: object) -> None:
    on = factories.server(factories.box(), model="gpt-oss-120b")
    run = starting_run(on, ago=3600)
    assert run.started_at is not None
    write(run, started("vllm")[:8], from_at=timezone.now() - timedelta(minutes=16, seconds=30))
    StartTracker().look(fresh(run))
    assert "quiet for 16 min" in page(on)
    assert "quiet for 16 min" in page(on, "")


@pytest.mark.django_db(transaction=True)
def test_browsers_are_told_only_when_they_would_see_something_new(
    own_redis: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, int]] = []
    monkeypatch.setattr(events, "publish_change", lambda *of: told.append(of))
    on = factories.server(factories.box(), model="gpt-oss-120b")
    run = starting_run(on)
    assert run.started_at is not None
    watched = StartTracker()
    for count, line in enumerate([*started("vllm")[:6], *["words"] * 20]):
        write(run, [line], from_at=run.started_at + timedelta(seconds=count))
        watched.look(fresh(run))
    # Starting (with its arguments), connecting, loading, and the bar's first 0 %.
    assert len(told) == 4
