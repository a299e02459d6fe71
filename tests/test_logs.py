import gzip
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import AsyncClient, Client

from servers.host import logstream
from servers.host.containers import Docker, Spec
from servers.models import LogChunk, Run
from servers.models.log import CHUNK_LINES, NOTE, Line, Moved
from servers.models.secret import MASK
from servers.watcher.loglines import LONGEST, Order, missing, records, secrets_pattern
from servers.watcher.logs import Follower
from tests import factories
from tests.cutting_proxy import CuttingProxy
from tests.images import BASE

AT = "2026-11-21T08:00:00.000000001Z"
OPENED = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)


def stamped(number: int, second: float = 0.0) -> bytes:
    whole, part = divmod(second, 1)
    return f"2026-11-21T08:00:{int(whole):02d}.{int(part * 1e9) + number:09d}Z o {number}".encode()


@pytest.fixture
def run(db: None) -> Run:
    return factories.run(factories.server(factories.box()))


def container(docker: Docker, program: str, **fields: Any) -> str:
    """A container that runs this Python program."""
    spec = Spec(
        image=BASE,
        name=f"inferdash-{docker.install[:8]}-log",
        labels={"inferdash.install": docker.install, "inferdash.run": "1"},
        entrypoint=("python3", "-u", "-c"),
        command=(program,),
        network="none",
        **fields,
    )
    return docker.run(spec).id


def stored(run: Run) -> list[Line]:
    return LogChunk.objects.lines(run.pk, 0, 1_000_000)


def follow(run: Run, container_id: str, docker: Docker, *masks: str) -> Run:
    Follower(run.pk, container_id, masks=masks, docker=docker).follow()
    run.refresh_from_db()
    return run


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
    order = Order([], OPENED)

    tracemalloc.start()
    new, _is_out_of_step = order.new(endless, OPENED)
    kept, _peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert new == endless
    assert order.new(endless, OPENED)[0] == []
    assert kept < LONGEST
    assert list(missing(endless, iter([endless[:20], endless[21:]]))) == [endless[20]]


def test_what_docker_repeats_is_dropped() -> None:
    order = Order([stamped(1), stamped(2)], OPENED)

    first = order.new([stamped(2), stamped(3), stamped(4)], OPENED)
    again = order.new([stamped(3), stamped(4), stamped(5)], OPENED)

    assert first == ([stamped(3), stamped(4)], False)
    assert again == ([stamped(5)], False)


def test_lines_of_two_streams_may_come_in_another_order_than_their_stamps() -> None:
    order = Order([], OPENED)

    assert order.new([stamped(5), stamped(3), stamped(4)], OPENED) == (
        [stamped(5), stamped(3), stamped(4)],
        False,
    )


def test_a_stream_that_goes_back_beyond_memory_is_opened_anew() -> None:
    order = Order([stamped(50), stamped(51)], OPENED)

    assert order.new([stamped(52), stamped(7), stamped(53)], OPENED) == ([stamped(52)], True)


def test_a_pause_is_suspect_only_to_a_reader_that_is_behind() -> None:
    late = OPENED.replace(second=40)
    batch = [stamped(1, 10), stamped(2, 11)]

    assert Order([], OPENED).new(batch, late) == ([stamped(1, 10)], True)
    assert Order([], OPENED).new(batch, OPENED.replace(second=11)) == (batch, False)
    # Right after it was opened at that very place there is nothing more to find.
    assert Order([stamped(1, 10)], OPENED).new(batch, late) == ([stamped(2, 11)], False)


def test_what_the_stream_left_out_is_found() -> None:
    everything = [stamped(number) for number in range(2000)]
    left_out = everything[700:900]
    kept = everything[:700] + everything[900:]

    blocks = iter([kept[at : at + 512] for at in range(0, len(kept), 512)])

    # Docker has rotated the first lines away.
    assert list(missing(everything[300:], blocks)) == left_out


# Storing and reading


def append(run: Run, count: int, after: int = 0, text: str = "line {}") -> int:
    batch = [f"{AT} o {text.format(after + n + 1)}".encode() for n in range(count)]
    return LogChunk.objects.append(run.pk, after, batch)


def test_lines_are_numbered_from_one_without_holes(run: Run) -> None:
    upto = 0
    for count in (1, 3, 700, 2, 1500):
        upto = append(run, count, upto)

    run.refresh_from_db()
    assert run.log_lines == upto == 2206
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

    with pytest.raises(Moved):
        append(run, 5, after=3)
    assert len(stored(run)) == 10


def test_lines_can_be_picked_out_of_a_log(run: Run) -> None:
    append(run, 2000)

    found = LogChunk.objects.picked(run.pk, [1999, 3, 513, 9999, 3])

    assert [(line.number, line.text) for line in found] == [
        (3, "line 3"),
        (513, "line 513"),
        (1999, "line 1999"),
    ]


# Following


@pytest.mark.docker
def test_a_containers_log_is_stored_whole(run: Run, docker: Docker) -> None:
    made = container(
        docker,
        "import sys\n"
        "for n in range(3000): print('out', n)\n"
        "print('hf_sesame and hf_' + 'a1' * 17, file=sys.stderr)\n"
        "sys.stdout.buffer.write(b'w' * 40000 + b'\\n\\xff\\x00 no newline')",
    )

    follow(run, made, docker, "hf_sesame")

    assert run.log_complete
    lines = stored(run)
    out = [line.text for line in lines if line.stream == "o"]
    assert out == [*(f"out {n}" for n in range(3000)), "w" * 40000, "�\x00 no newline"]
    assert [line.text for line in lines if line.stream == "e"] == [f"{MASK} and hf_{MASK}"]
    assert run.log_lines == len(lines) == 3003


@pytest.mark.docker
def test_a_line_without_end_is_handed_on_before_its_end(docker: Docker) -> None:
    """A program that never prints a newline must not fill the watcher's memory."""
    program = "import os, time; os.write(1, b'x' * 3_000_000); time.sleep(60)"
    stream = docker.logs(container(docker, program), follow=True)

    lines = iter(stream)
    first, second = next(lines), next(lines)
    stream.close()

    assert first[0] < second[0], "else the second one would pass for the first one repeated"
    assert len(first[2]) == len(second[2]) == logstream.LONGEST
    assert set(first[2] + second[2]) == {ord("x")}


@pytest.mark.docker
def test_the_parts_of_a_line_make_the_line(run: Run, docker: Docker) -> None:
    size = 2 * logstream.LONGEST
    program = f"import os\nfor end in (b'', b'\\n', b'y\\n'): os.write(1, b'x' * {size} + end)"

    follow(run, container(docker, program), docker)

    lines = stored(run)
    assert "".join(line.text for line in lines) == "x" * 3 * size + "y"
    assert {len(line.text) for line in lines} == {LONGEST, 1}


@pytest.mark.docker
def test_a_flood_of_long_lines_is_stored_whole(run: Run, docker: Docker) -> None:
    made = container(docker, "for n in range(60): print(n, 'x' * 300_000)")

    follow(run, made, docker)

    assert run.log_complete
    texts = [line.text for line in stored(run)]
    assert [text.split()[0] for text in texts[::2]] == [str(n) for n in range(60)]
    assert sum(map(len, texts)) == sum(len(f"{n} ") + 300_000 for n in range(60))


@pytest.mark.docker
def test_no_line_is_lost_or_doubled_when_the_connection_to_docker_breaks(
    run: Run, docker: Docker, tmp_path: Path
) -> None:
    made = container(docker, "for n in range(60000): print(n)")
    cuts = [300_000, 1_000_000, 700_001]

    with CuttingProxy(tmp_path / "docker.sock", docker.host, cuts=cuts) as proxy:
        through = Docker(docker.install, proxy.host)
        follow(run, made, through)
        through.close()

    assert cuts == []
    assert run.log_complete
    assert [line.text for line in stored(run)] == [str(n) for n in range(60000)]


@pytest.mark.docker
def test_rotation_doubles_no_line_and_loses_none_of_a_reader_who_keeps_up(
    run: Run, docker: Docker
) -> None:
    made = container(
        docker,
        "import time\n"
        "for n in range(6000):\n"
        "    print('a line of the log', n)\n"
        "    if n % 50 == 0: time.sleep(0.03)",
        log_max_size="64k",
        log_max_files=3,
    )

    follow(run, made, docker)

    assert [line.text for line in stored(run)] == [f"a line of the log {n}" for n in range(6000)]


@pytest.mark.docker
def test_lines_that_were_rotated_away_meanwhile_leave_a_note(run: Run, docker: Docker) -> None:
    made = container(
        docker,
        "import time\n"
        "print('first')\n"
        "time.sleep(2)\n"
        "for n in range(6000): print('a line of the log', n)",
        log_max_size="64k",
        log_max_files=2,
    )
    follower = Follower(run.pk, made, masks=[], docker=docker)
    # The first line, then nobody looks until the end.
    first = next(records(docker.logs(made, follow=True), None))
    LogChunk.objects.append(run.pk, 0, [first])
    for _line in docker.logs(made, follow=True):
        pass

    follower.follow()

    lines = stored(run)
    assert lines[0].text == "first"
    assert lines[1].stream == "i"
    assert "Docker had rotated them away" in lines[1].text
    assert lines[-1].text == "a line of the log 5999"


@pytest.mark.docker
def test_a_container_that_somebody_removed_ends_its_log_with_a_note(
    run: Run, docker: Docker
) -> None:
    append(run, 3)

    follow(run, "0" * 64, docker)

    assert run.log_complete
    *lines, last = stored(run)
    assert len(lines) == 3
    assert (last.stream, last.number) == (NOTE, 4)
    assert "lines may be missing" in last.text


# Download


@pytest.mark.asyncio
@pytest.mark.django_db(transaction=True)
async def test_the_download_is_the_whole_log(async_client: AsyncClient) -> None:
    run = await sync_to_async(lambda: factories.run(factories.server(factories.box())))()
    await sync_to_async(append)(run, 6000, 0, "\x1b[32mline {}\x1b[0m")
    await async_client.aforce_login(await sync_to_async(factories.person)())

    async def download(query: str = "", kind: str = "text/plain; charset=utf-8") -> bytes:
        response = await async_client.get(f"/runs/{run.pk}/log/{query}")
        assert response["Content-Type"] == kind
        assert "attachment" in response["Content-Disposition"]
        return b"".join([part async for part in response])  # type: ignore[attr-defined]

    whole = (await download()).decode()
    assert whole == "".join(f"line {n}\n" for n in range(1, 6001))
    raw = (await download("?raw&timestamps")).decode()
    assert raw.startswith(f"{AT} \x1b[32mline 1\x1b[0m\n")
    packed = await download("?gz", "application/gzip")
    assert gzip.decompress(packed).decode() == whole


@pytest.mark.django_db
def test_a_line_of_a_run_has_an_address_for_ever(client: Client) -> None:
    run = factories.run(factories.server(factories.box()))
    client.force_login(factories.person())

    response = client.get(f"/runs/{run.pk}/")

    assert response.status_code == 302
    assert response["Location"] == f"/servers/{run.server.slug}/?run={run.pk}"
    assert client.get("/runs/999999/").status_code == 404
