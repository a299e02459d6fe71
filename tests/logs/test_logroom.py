from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from servers.host.docker.containers import DockerContainers
from servers.launch import numbers
from servers.models import Box, LogChunk, Run
from servers.models.logs import NOTE, StoredLine
from servers.models.runs.run import RunState
from servers.watcher.logs import writer
from servers.watcher.logs.follower import Follower
from tests import factories
from tests.logs.store import container, stamped

pytestmark = pytest.mark.django_db


@pytest.fixture
def box() -> Box:
    return factories.box()


@pytest.fixture
def run(box: Box) -> Run:
    return factories.run(factories.server(box))


@pytest.fixture
def small(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Bounds that a test can reach."""
    monkeypatch.setattr(writer, "_SLACK", 1000)
    settings.LOG_HEAD, settings.LOG_TAIL = 30_000, 60_000
    return settings


def fill(run: Run, count: int, after: int = 0) -> None:
    records = [stamped(number) + b" of a log" for number in range(after + 1, after + count + 1)]
    LogChunk.objects.append(run.pk, after, records)


def kept(run: Run) -> list[StoredLine]:
    return LogChunk.objects.lines(run.pk, 0, 1_000_000)


def test_a_short_log_stays_as_it_is(run: Run, box: Box, small: Any) -> None:
    fill(run, 500)

    writer.tidy_logs(box)

    assert [line.number for line in kept(run)] == list(range(1, 501))


def test_a_long_log_keeps_its_beginning_its_end_and_its_numbers(
    run: Run, box: Box, small: Any
) -> None:
    fill(run, 10_000)

    writer.tidy_logs(box)
    run.refresh_from_db()
    fill(run, 5000, after=10_000)
    writer.tidy_logs(box)

    run.refresh_from_db()
    gap = run.log.gap
    assert gap is not None
    first, last = gap["first"], gap["last"]
    lines = kept(run)
    wanted = [*range(1, first + 1), *range(last + 1, 15_001)]
    assert [line.number for line in lines] == wanted
    assert lines[first - 1].stream == NOTE
    assert f"lines {first:,} to {last:,} were removed" in lines[first - 1].text
    assert all(line.text == f"{line.number} of a log" for line in lines if line.stream != NOTE)
    assert 90_000 < run.log.size < 130_000
    assert run.log.size == sum(LogChunk.objects.values_list("size", flat=True))

    # Windows from anywhere, also from inside what is gone.
    def numbers(lines: list[StoredLine]) -> list[int]:
        return [line.number for line in lines]

    around = [first - 1, first, last + 1, last + 2]
    assert numbers(LogChunk.objects.lines(run.pk, first - 2, 4, most=64)) == around[:2]
    assert numbers(LogChunk.objects.lines(run.pk, first + 9, 2, most=64)) == [last + 1, last + 2]
    before = LogChunk.objects.lines_before(run.pk, last + 3, 4, most=64)
    assert numbers(before) == around
    assert numbers(LogChunk.objects.pick_lines(run.pk, [1, first + 7, last + 1])) == [1, last + 1]


def test_old_logs_go_but_for_a_servers_newest(box: Box, small: Any) -> None:
    server = factories.server(box)
    old = [factories.run(server, state=RunState.STOPPED) for _ in range(3)]
    for run in old:
        fill(run, 100)
        long_ago = timezone.now() - timedelta(days=small.LOG_DAYS + 1)
        Run.objects.filter(pk=run.pk).write(log__is_complete=True, ended_at=long_ago)

    writer.tidy_logs(box)
    writer.tidy_logs(box)

    *gone, newest = (kept(run) for run in old)
    assert [[line.stream for line in lines] for lines in gone] == [[NOTE], [NOTE]]
    assert "(100 lines) was removed" in gone[0][0].text
    assert "INFERDASH_LOG_DAYS" in gone[0][0].text
    assert len(newest) == 100


def test_the_oldest_logs_go_when_all_are_too_large(box: Box, small: Any) -> None:
    server = factories.server(box)
    runs = [factories.run(server, state=RunState.STOPPED) for _ in range(4)]
    for age, run in enumerate(reversed(runs)):
        fill(run, 500)
        ended = timezone.now() - timedelta(hours=age)
        Run.objects.filter(pk=run.pk).write(log__is_complete=True, ended_at=ended)
    small.LOG_TOTAL = 60_000

    writer.tidy_logs(box)

    assert [len(kept(run)) > 1 for run in runs] == [False, False, True, True]


def test_what_is_kept_is_shown_to_admins(run: Run, client: Client) -> None:
    fill(run, 1000)
    client.force_login(factories.person())

    run.refresh_from_db()
    page = client.get("/settings/about/").content.decode()

    assert f"{numbers.size(run.log.size)} of text of 1 run<" in page
    assert "the first 8 MiB and the last 64 MiB" in page


@pytest.mark.docker
def test_lines_that_were_cut_out_are_not_read_from_docker_again(
    run: Run, small: Any, docker: DockerContainers
) -> None:
    made = container(docker, "for n in range(8000): print('a line of the log', n)")
    Follower(run.pk, made, masks=[], docker=docker).follow()
    writer.shorten_logs(run.pk)
    run.refresh_from_db()
    size = run.log.size
    Run.objects.filter(pk=run.pk).write(log__is_complete=False)

    Follower(run.pk, made, masks=[], docker=docker).follow()

    run.refresh_from_db()
    assert run.log.is_complete
    assert (run.log.size, run.log.lines) == (size, 8000)
