import threading
from contextlib import closing
from itertools import batched
from pathlib import Path

import pytest

from servers.host import logs
from servers.host.docker.containers import Container, DockerContainers
from servers.models import LogChunk, Run
from servers.models.logs import NOTE
from servers.models.people.key import MASK
from servers.watcher.logs import follower
from servers.watcher.logs.follower import Follower
from servers.watcher.logs.writer import LONGEST, records
from tests.containers.specs import wait_for_end
from tests.cutting_proxy import CuttingProxy
from tests.logs.store import append, container, stored


def follow(run: Run, container_id: str, docker: DockerContainers, *masks: str) -> Run:
    Follower(run.pk, container_id, masks=masks, docker=docker).follow()
    run.refresh_from_db()
    return run


# Following


class AtItsEnd(threading.Thread):
    """A follower whose container has ended."""

    def __init__(self, run_id: int, container_id: str, **_more: object) -> None:
        super().__init__()

    def stop(self) -> None:
        pass


def test_followers_that_are_done_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watcher runs for months, and each of them holds what it needed to follow."""
    monkeypatch.setattr(follower, "Follower", AtItsEnd)
    monkeypatch.setattr("servers.watcher.logs.follower.creation.docker", lambda: None)

    for run_id in range(3):
        follower.follow(run_id, "a" * 64).join()

    assert len(follower._followers) == 1
    follower.stop_all()


@pytest.mark.docker
def test_a_containers_log_is_stored_whole(run: Run, docker: DockerContainers) -> None:
    made = container(
        docker,
        "import sys\n"
        "for n in range(3000): print('out', n)\n"
        "print('hf_sesame and hf_' + 'a1' * 17, file=sys.stderr)\n"
        "sys.stdout.buffer.write(b'w' * 40000 + b'\\n\\xff\\x00 no newline')",
    )

    follow(run, made, docker, "hf_sesame")

    assert run.log.is_complete
    lines = stored(run)
    out = [line.text for line in lines if line.stream == "o"]
    assert out == [*(f"out {n}" for n in range(3000)), "w" * 40000, "�\x00 no newline"]
    assert [line.text for line in lines if line.stream == "e"] == [f"{MASK} and hf_{MASK}"]
    assert run.log.lines == len(lines) == 3003


@pytest.mark.docker
def test_a_line_without_end_is_handed_on_before_its_end(docker: DockerContainers) -> None:
    """A program that never prints a newline must not fill the watcher's memory."""
    program = "import os, time; os.write(1, b'x' * 3_000_000); time.sleep(60)"
    stream = docker.logs(container(docker, program), follow=True)

    lines = iter(stream)
    first, second = next(lines), next(lines)
    stream.close()

    assert first[0] < second[0], "else the second one would pass for the first one repeated"
    assert len(first[2]) == len(second[2]) == logs.LONGEST
    assert set(first[2] + second[2]) == {ord("x")}


@pytest.mark.docker
def test_the_parts_of_a_line_make_the_line(run: Run, docker: DockerContainers) -> None:
    size = 2 * logs.LONGEST
    program = f"import os\nfor end in (b'', b'\\n', b'y\\n'): os.write(1, b'x' * {size} + end)"

    follow(run, container(docker, program), docker)

    lines = stored(run)
    assert "".join(line.text for line in lines) == "x" * 3 * size + "y"
    assert {len(line.text) for line in lines} == {LONGEST, 1}


@pytest.mark.docker
def test_a_flood_of_long_lines_is_stored_whole(run: Run, docker: DockerContainers) -> None:
    made = container(docker, "for n in range(60): print(n, 'x' * 300_000)")

    follow(run, made, docker)

    assert run.log.is_complete
    texts = [line.text for line in stored(run)]
    assert [text.split()[0] for text in texts[::2]] == [str(n) for n in range(60)]
    assert sum(map(len, texts)) == sum(len(f"{n} ") + 300_000 for n in range(60))


@pytest.mark.docker
def test_no_line_is_lost_or_doubled_when_the_connection_to_docker_breaks(
    run: Run, docker: DockerContainers, tmp_path: Path
) -> None:
    made = container(docker, "for n in range(60000): print(n)")
    cuts = [300_000, 1_000_000, 700_001]

    with CuttingProxy(tmp_path / "docker.sock", docker.host, cuts=cuts) as proxy:
        through = DockerContainers(docker.install, proxy.host)
        follow(run, made, through)
        through.close()

    assert cuts == []
    assert run.log.is_complete
    assert [line.text for line in stored(run)] == [str(n) for n in range(60000)]


@pytest.mark.docker
@pytest.mark.parametrize(
    "cuts",
    [[400_000], [400_000, 1_000_000, 2_500_000]],
    ids=["while it is followed", "while it is compared too"],
)
def test_a_connection_that_breaks_in_the_middle_of_a_line_leaves_no_half_of_it(
    run: Run, docker: DockerContainers, short_path: Path, cuts: list[int]
) -> None:
    made = container(docker, "for n in range(10): print(n, 'x' * 300_000)\nprint('end', end='')")
    wait_for_end(docker, made)

    with CuttingProxy(short_path / "docker.sock", docker.host, cuts=cuts) as proxy:
        through = DockerContainers(docker.install, proxy.host)
        follow(run, made, through)
        through.close()

    assert cuts == []
    texts = [line.text for line in stored(run)]
    assert [text[:9] for text in texts[:-1:2]] == [f"{n} xxxxxxx" for n in range(10)]
    assert [sum(map(len, parts)) for parts in batched(texts[:-1], 2)] == [300_002] * 10
    assert texts[-1] == "end"


@pytest.mark.docker
def test_rotation_doubles_no_line_and_loses_none_of_a_reader_who_keeps_up(
    run: Run, docker: DockerContainers
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
def test_lines_that_were_rotated_away_meanwhile_leave_a_note(
    run: Run, docker: DockerContainers
) -> None:
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
    assert lines[1].text.startswith("… gap 1: lines may be missing here, between ")
    assert "Docker had rotated them away" in lines[1].text
    assert follower._count_gaps() == 1
    assert lines[-1].text == "a line of the log 5999"


class RemovedAtItsEnd(DockerContainers):
    """Somebody has removed the container when the follower has read all of its log."""

    looks = 0

    def inspect(self, container_id: str) -> Container | None:
        self.looks += 1
        return super().inspect(container_id) if self.looks == 1 else None


@pytest.mark.docker
def test_the_last_words_of_a_container_that_is_removed_at_its_end_are_kept(
    run: Run, docker: DockerContainers
) -> None:
    made = container(docker, "print('first')\nprint('last words of hf_sesame', end='')")
    wait_for_end(docker, made)

    with closing(RemovedAtItsEnd(docker.install, docker.host)) as through:
        follow(run, made, through, "hf_sesame")

    assert run.log.is_complete
    *lines, last = stored(run)
    assert [line.text for line in lines] == ["first", f"last words of {MASK}"]
    assert (last.stream, last.number) == (NOTE, 3)


@pytest.mark.docker
def test_last_words_that_are_stored_are_not_stored_again_when_the_container_goes(
    run: Run, docker: DockerContainers
) -> None:
    made = container(docker, "print('first')\nprint('last words', end='')")
    wait_for_end(docker, made)
    follow(run, made, docker)
    Run.objects.filter(pk=run.pk).write(
        log__is_complete=False
    )  # as if it had been ended before that

    with closing(RemovedAtItsEnd(docker.install, docker.host)) as through:
        follow(run, made, through)

    *lines, last = stored(run)
    assert [line.text for line in lines] == ["first", "last words"]
    assert last.stream == NOTE


@pytest.mark.docker
def test_a_container_that_somebody_removed_ends_its_log_with_a_note(
    run: Run, docker: DockerContainers
) -> None:
    append(run, 3)

    follow(run, "0" * 64, docker)

    assert run.log.is_complete
    *lines, last = stored(run)
    assert len(lines) == 3
    assert (last.stream, last.number) == (NOTE, 4)
    assert "lines may be missing" in last.text
