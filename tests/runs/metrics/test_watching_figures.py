"""What the watcher makes of engines' answers: for pages at once, for the history every ten seconds."""

import time
from datetime import UTC, datetime

import pytest

from servers import events
from servers.host.http.prometheus import read
from servers.host.runs.probes import HealthAnswer
from servers.judge.memory.history import Point, unpack
from servers.judge.runs import metrics
from servers.models import Box, FiguresChunk, LogChunk, Run
from servers.state import samples
from servers.watcher.runs.metrics import EngineFigures
from servers.watcher.runs.probes import StatusProbe
from tests import factories

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]

NOON = 1_795_262_400  # by UTC


class WatcherClock:
    """Time as the watcher sees it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = float(NOON)
        monkeypatch.setattr(time, "time", lambda: self.now)
        monkeypatch.setattr(time, "monotonic", lambda: self.now - NOON + 1000)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> WatcherClock:
    return WatcherClock(monkeypatch)


@pytest.fixture
def run(box: Box) -> Run:
    return factories.run(factories.server(box, "glm-5", engine="vllm", image="vllm/vllm-openai"))


def said(tokens: int, *, running: int = 1, first: int = 0) -> StatusProbe:
    text = (
        f"vllm:num_requests_running {running}\nvllm:num_requests_waiting 0\n"
        f"vllm:generation_tokens_total {tokens}\nvllm:kv_cache_usage_perc 0.5\n"
        f'vllm:time_to_first_token_seconds_bucket{{le="0.5"}} {first}\n'
        f'vllm:time_to_first_token_seconds_bucket{{le="+Inf"}} {first}\n'
    )
    book = metrics.by_engine()["vllm"]
    exposed = read(text, book.names, book.histograms)
    return StatusProbe(health=HealthAnswer.OK, at=time.monotonic(), exposed=exposed)


def nothing() -> StatusProbe:
    return StatusProbe(health=HealthAnswer.OK, at=time.monotonic())


def points(box: Box, step: int = 10) -> dict[int, Point]:
    found: dict[int, Point] = {}
    for chunk in FiguresChunk.objects.filter(box=box, step=step):
        for times in unpack(bytes(chunk.body)).values():
            found |= times
    return dict(sorted(found.items()))


def test_a_busy_engine_is_told_at_once_and_kept_every_ten_seconds(
    box: Box, run: Run, clock: WatcherClock
) -> None:
    figures = EngineFigures(box)
    assert samples.figures_of(run) is None

    for second in range(0, 64, 2):
        figures.take_reading(run, said(second * 50, first=second), others=1, is_ours=False)
        clock.now += 2
    told = samples.figures_of(run)
    assert told is not None
    assert not told.is_stale
    assert not told.is_from_log
    assert told.figures.generation == 50
    assert told.figures.first_p50 == 0.25
    assert told.line == (50.0,) * 6
    assert samples.figures_by_run([run, None]) == {run.pk: told}

    figures.write()
    assert list(points(box)) == [NOON + 10 * n for n in range(6)]
    kept = points(box)[NOON]
    assert {
        name: metrics.make_figure(name, kept[name]) for name in ("running", "generation", "kv")
    } == {
        "running": 1,
        "generation": 50,
        "kv": 0.5,
    }
    assert points(box, 60)[NOON]["generation_max"] == 500


def test_pages_are_told_of_what_has_changed_alone(box: Box, run: Run, clock: WatcherClock) -> None:
    figures = EngineFigures(box)
    idle = [
        figures.take_reading(run, said(100, running=0), others=0, is_ours=False) for _n in range(4)
    ]
    assert idle == [True, False, False, False]

    assert figures.take_reading(run, said(100, running=2), others=2, is_ours=False)


def test_a_question_of_our_own_is_nobodys_use(box: Box, run: Run, clock: WatcherClock) -> None:
    figures = EngineFigures(box)
    for tokens, running in ((0, 0), (20, 1), (64, 1), (64, 0)):
        figures.take_reading(run, said(tokens, running=running, first=1), others=0, is_ours=True)
        clock.now += 2
        told = samples.figures_of(run)
        assert told is not None
        assert told.figures.is_idle
    figures.take_reading(run, said(64, running=0, first=1), others=0, is_ours=False)

    told = samples.figures_of(run)
    assert told is not None
    assert told.figures.generation == 0
    assert told.figures.first_p50 is None


def test_an_engine_that_was_started_anew_inside_begins_anew(
    box: Box, run: Run, clock: WatcherClock
) -> None:
    figures = EngineFigures(box)
    for tokens in (5000, 5100, 10, 30):
        figures.take_reading(run, said(tokens), others=1, is_ours=False)
        clock.now += 2

    told = samples.figures_of(run)
    assert told is not None
    assert told.figures.generation == 10


def test_silence_makes_what_was_told_old_and_pages_hear_of_it_once(
    box: Box, run: Run, clock: WatcherClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    nudges: list[tuple[str, int]] = []
    monkeypatch.setattr(events, "publish_change", lambda *of: nudges.append(of))
    figures = EngineFigures(box)
    figures.take_reading(run, said(100), others=1, is_ours=False)
    silent = StatusProbe(health=HealthAnswer.SILENT, at=time.monotonic())

    for _second in range(20):
        clock.now += 2
        assert not figures.take_reading(run, silent, others=None, is_ours=False)
        figures.look({run.pk})

    told = samples.figures_of(run)
    assert told is not None
    assert told.is_stale
    assert nudges == [("server", run.server_id)]
    assert figures.take_reading(run, said(100), others=1, is_ours=False)


def test_figures_of_a_run_that_has_ended_are_not_told(
    box: Box, run: Run, clock: WatcherClock
) -> None:
    EngineFigures(box).take_reading(run, said(100), others=1, is_ours=False)
    Run.objects.filter(pk=run.pk).update(state="stopped")

    assert samples.figures_of(Run.objects.get(pk=run.pk)) is None


def test_an_engine_whose_metrics_are_off_is_read_by_its_log(
    box: Box, run: Run, clock: WatcherClock
) -> None:
    figures = EngineFigures(box)
    assert not figures.take_reading(run, nothing(), others=None, is_ours=False)
    assert samples.figures_of(run) is None

    line = (
        "INFO 11-21 12:00:00 [loggers.py:380] Engine 000: Avg prompt throughput: 812.4 tokens/s, "
        "Avg generation throughput: 120.3 tokens/s, Running: 4 reqs, Waiting: 2 reqs, "
        "GPU KV cache usage: 3.1%, Prefix cache hit rate: 45.0%"
    )
    stamp = datetime.fromtimestamp(clock.now, UTC).isoformat().replace("+00:00", ".000000000Z")
    LogChunk.objects.append(run.pk, 0, [f"{stamp} o {line}".encode()])
    clock.now += 10
    run = Run.objects.select_related("server", "version").get(pk=run.pk)
    assert figures.take_reading(run, nothing(), others=None, is_ours=False)
    told = samples.figures_of(run)
    assert told is not None
    assert told.is_from_log
    assert (told.figures.generation, told.figures.running, told.figures.queued) == (120.3, 4, 2)
    assert told.figures.kv == pytest.approx(0.031)

    clock.now += 120  # silent since: it writes while it works
    figures.take_reading(run, nothing(), others=None, is_ours=False)
    told = samples.figures_of(run)
    assert told is not None
    assert told.figures.is_idle


def test_one_look_without_metrics_is_no_reason_to_read_the_log(
    box: Box, run: Run, clock: WatcherClock
) -> None:
    figures = EngineFigures(box)
    figures.take_reading(run, said(100), others=1, is_ours=False)
    clock.now += 2
    assert not figures.take_reading(run, nothing(), others=None, is_ours=False)

    told = samples.figures_of(run)
    assert told is not None
    assert not told.is_from_log

    clock.now += 60  # somebody has switched them off, by a restart inside the container
    assert figures.take_reading(run, nothing(), others=1, is_ours=False)
    told = samples.figures_of(run)
    assert told is not None
    assert told.is_from_log
