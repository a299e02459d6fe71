import threading

import pytest

from servers.host.docker.containers import DockerContainers
from tests.containers.specs import shell, spec, wait_for_end
from tests.waiting import PATIENCE

pytestmark = pytest.mark.docker


def test_no_line_of_a_flood_is_lost_or_doubled(docker: DockerContainers) -> None:
    count = 200_000
    made = docker.run(spec(docker, env={"ENGINE_SCRIPT": "flood", "ENGINE_LINES": str(count)}))
    numbers: list[int] = []

    for _stamp, _stream, text in docker.logs(made.id, follow=True):
        if text.startswith(b"line "):
            numbers.append(int(text.split(b" ")[1]))
            if len(numbers) == count:
                break

    assert numbers == list(range(count))


def test_lines_of_any_length_come_whole_and_apart(docker: DockerContainers) -> None:
    script = "head -c 50000 /dev/zero | tr '\\0' x; echo; echo err >&2; printf end"
    made = docker.run(shell(docker, script))

    wait_for_end(docker, made.id)

    # Read anew: a follower may miss what a process wrote as its last (Docker 20.10).
    lines = list(docker.logs(made.id))

    assert sorted((stream, len(text)) for _stamp, stream, text in lines) == [
        ("e", 3),
        ("o", 3),
        ("o", 50000),
    ]


def test_a_log_goes_on_from_a_lines_own_time(docker: DockerContainers) -> None:
    made = docker.run(shell(docker, "for i in 1 2 3 4 5; do echo $i; sleep 0.01; done"))
    wait_for_end(docker, made.id)
    lines = list(docker.logs(made.id))

    rest = list(docker.logs(made.id, since=lines[2][0]))

    assert rest == lines[2:]


def test_a_follower_can_be_closed_from_another_thread(docker: DockerContainers) -> None:
    made = docker.run(shell(docker, "echo here; sleep 600"))
    stream = docker.logs(made.id, follow=True)
    read: list[bytes] = []
    seen = threading.Event()

    def follow() -> None:
        for _stamp, _stream, text in stream:
            read.append(text)
            seen.set()

    thread = threading.Thread(target=follow)
    thread.start()
    assert seen.wait(PATIENCE)
    stream.close()
    thread.join(PATIENCE)

    assert not thread.is_alive()
    assert read == [b"here"]
