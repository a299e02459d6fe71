import tracemalloc
from datetime import UTC, datetime

from servers.models.people.key import MASK
from servers.watcher.logs import writer as logs_records
from servers.watcher.logs.writer import LONGEST, RecordOrder, find_missing, records, secrets_pattern
from tests.logs.store import AT, stamped

OPENED = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)


# Records


def test_secrets_are_masked_in_every_line() -> None:
    pattern = secrets_pattern(["hf_abcdef", "first-part\nsecond-part", "x"])

    found = list(records([(AT, "o", b"token hf_abcdef, first-part x second-part")], pattern))

    assert found == [f"{AT} o token {MASK}, {MASK} x {MASK}".encode()]


def test_bytes_that_are_no_text_are_shown_as_such() -> None:
    found = list(records([(AT, "e", b"a\xff\xfeb \x00 c")], None))

    assert found == [f"{AT} e a��b \x00 c".encode()]


def test_an_endless_line_becomes_several_that_can_be_told_apart() -> None:
    found = list(records([(AT, "o", b"x" * (2 * LONGEST + 5))], None))

    assert [len(record.split(b" ", 2)[2]) for record in found] == [LONGEST, LONGEST, 5]
    assert len(set(found)) == 3


def test_long_lines_are_known_without_being_kept() -> None:
    endless = [stamped(number) + b"x" * LONGEST for number in range(50)]
    order = RecordOrder([], OPENED)

    tracemalloc.start()
    new, _is_out_of_step = order.new(endless, OPENED)
    # Other threads of the tests' process work on, too.
    its_own = tracemalloc.Filter(True, logs_records.__file__)
    traces = tracemalloc.take_snapshot().filter_traces([its_own]).traces
    tracemalloc.stop()

    assert new == endless
    assert order.new(endless, OPENED)[0] == []
    assert 0 < sum(each.size for each in traces) < LONGEST
    assert list(find_missing(endless, iter([endless[:20], endless[21:]]))) == [endless[20]]


def test_what_docker_repeats_is_dropped() -> None:
    order = RecordOrder([stamped(1), stamped(2)], OPENED)

    first = order.new([stamped(2), stamped(3), stamped(4)], OPENED)
    again = order.new([stamped(3), stamped(4), stamped(5)], OPENED)

    assert first == ([stamped(3), stamped(4)], False)
    assert again == ([stamped(5)], False)


def test_lines_of_two_streams_may_come_in_another_order_than_their_stamps() -> None:
    order = RecordOrder([], OPENED)

    assert order.new([stamped(5), stamped(3), stamped(4)], OPENED) == (
        [stamped(5), stamped(3), stamped(4)],
        False,
    )


def test_a_stream_that_goes_back_beyond_memory_is_opened_anew() -> None:
    order = RecordOrder([stamped(50), stamped(51)], OPENED)

    assert order.new([stamped(52), stamped(7), stamped(53)], OPENED) == ([stamped(52)], True)


def test_a_pause_is_suspect_only_to_a_reader_that_is_behind() -> None:
    late = OPENED.replace(second=40)
    batch = [stamped(1, 10), stamped(2, 11)]

    assert RecordOrder([], OPENED).new(batch, late) == ([stamped(1, 10)], True)
    assert RecordOrder([], OPENED).new(batch, OPENED.replace(second=11)) == (batch, False)
    # Right after it was opened at that very place there is nothing more to find.
    assert RecordOrder([stamped(1, 10)], OPENED).new(batch, late) == ([stamped(2, 11)], False)


def test_what_the_stream_left_out_is_found() -> None:
    everything = [stamped(number) for number in range(2000)]
    left_out = everything[700:900]
    kept = everything[:700] + everything[900:]

    blocks = iter([kept[at : at + 512] for at in range(0, len(kept), 512)])

    # Docker has rotated the first lines away.
    assert list(find_missing(everything[300:], blocks)) == left_out
