import pytest

from servers.models import LogChunk, Run
from servers.models.logs import CHUNK_LINES, LogMovedError
from servers.watcher.logs.writer import LONGEST
from tests.logs.store import append, stamped, stored


def test_lines_are_numbered_from_one_without_holes(run: Run) -> None:
    upto = 0
    for count in (1, 3, 700, 2, 1500):
        upto = append(run, count, upto)

    run.refresh_from_db()
    assert run.log.lines == upto == 2206
    lines = stored(run)
    assert [line.number for line in lines] == list(range(1, 2207))
    assert [line.text for line in lines] == [f"line {n}" for n in range(1, 2207)]


def test_a_slow_log_does_not_become_a_row_a_line(run: Run) -> None:
    for number in range(50):
        append(run, 1, number)

    assert LogChunk.objects.filter(run=run).count() == 1


@pytest.mark.parametrize(
    ("after", "limit"), [(0, 10), (CHUNK_LINES - 1, 2), (CHUNK_LINES, 1), (1990, 100), (5000, 9)]
)
def test_any_window_can_be_read(run: Run, after: int, limit: int) -> None:
    append(run, 2000)

    lines = LogChunk.objects.lines(run.pk, after, limit)

    assert [line.number for line in lines] == list(range(after + 1, min(after + limit, 2000) + 1))


def test_long_lines_are_read_a_few_at_a_time(run: Run) -> None:
    text = b"x" * LONGEST
    LogChunk.objects.append(run.pk, 0, [stamped(number) + text for number in range(1, 31)])

    forward = LogChunk.objects.lines(run.pk, 10, 1000, most=4)
    backward = LogChunk.objects.lines_before(run.pk, 21, 1000, most=4)

    assert [line.number for line in forward] == [11, 12, 13, 14]
    assert [line.number for line in backward] == [17, 18, 19, 20]


@pytest.mark.parametrize(("before", "limit"), [(1, 5), (2, 5), (513, 1), (1400, 700), (2000, 9)])
def test_a_window_can_be_read_backwards(run: Run, before: int, limit: int) -> None:
    LogChunk.objects.append(run.pk, 0, [stamped(number) for number in range(1, 1501)])

    found = LogChunk.objects.lines_before(run.pk, before, limit, most=64)

    end = min(before, 1501)
    wanted = range(max(end - limit, 1), end)
    assert [(line.number, line.text) for line in found] == [(n, str(n)) for n in wanted]


def test_the_tail_is_the_end(run: Run) -> None:
    append(run, 1000)

    assert [line.text for line in LogChunk.objects.tail(run.pk, 2)] == ["line 999", "line 1000"]
    assert len(LogChunk.objects.tail(run.pk, 5000)) == 1000


def test_a_second_writer_is_refused(run: Run) -> None:
    append(run, 10)

    with pytest.raises(LogMovedError):
        append(run, 5, after=3)
    assert len(stored(run)) == 10


def test_lines_can_be_picked_out_of_a_log(run: Run) -> None:
    append(run, 2000)

    found = LogChunk.objects.pick_lines(run.pk, [1999, 3, 513, 9999, 3])

    assert [(line.number, line.text) for line in found] == [
        (3, "line 3"),
        (513, "line 513"),
        (1999, "line 1999"),
    ]
