"""What is not taken over after all is left as it was, and so is whoever stands near it."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from servers.host.kernel import processes
from servers.host.kernel.proc import Kernel
from servers.host.kernel.processes import EndingError, ProcessId
from servers.judge.external.engines import DiscoveredEngine, Origin
from servers.lifecycle import external
from servers.lifecycle.external import takeover
from servers.lifecycle.external.takeover import TakeOverError
from servers.models import Job, Server
from servers.models.jobs import JobKind
from tests import factories
from tests.waiting import PATIENCE


@contextmanager
def process(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    words = words or ("sleep", "600")
    started = subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True)
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def found(pid: int, *others: int, **values: Any) -> DiscoveredEngine:
    kernel = Kernel()
    life = kernel.life(pid)
    assert life is not None
    key = str(ProcessId.from_process(pid, life.start, kernel))
    return DiscoveredEngine(
        container=key, name=f"process {pid}", image="", engine="vllm", answer="serves",
        pid=pid, pids=(pid, *others), command="vllm serve a/b", **values,
    )  # fmt: skip


def action(of: DiscoveredEngine) -> Job:
    external.saw([of])
    return Job.objects.create(
        box=factories.box(), kind=JobKind.TAKE_OVER, what=of.name, asked_by=factories.person(),
        params={"container": of.container, "started_at": of.started_at},
    )  # fmt: skip


@pytest.fixture(autouse=True)
def _nothing_is_seen() -> Iterator[None]:
    yield
    external.saw([])


@pytest.mark.django_db
def test_who_has_got_the_number_of_an_ended_worker_is_not_ended() -> None:
    with ExitStack() as stack:
        engine = stack.enter_context(process("sh", "-c", "sleep 600 & echo $!; wait"))
        stranger = stack.enter_context(process())
        assert engine.stdout is not None
        worker = int(engine.stdout.readline())

        takeover._OldProcess.find(found(engine.pid, worker, stranger.pid)).stop()

        assert engine.wait(PATIENCE) is not None
        left = Kernel().life(worker)
        assert left is None or left.state == "Z"
        assert stranger.poll() is None


@pytest.mark.django_db
def test_a_container_of_another_inferdash_is_not_taken_over_whatever_a_row_says() -> None:
    with process() as engine:
        theirs = found(engine.pid, origin=Origin(install="1a2b3c4d-0000"))
        wish = action(theirs)
        with pytest.raises(TakeOverError, match=r"another inferdash .* Nothing was done"):
            takeover._old(wish)


@pytest.mark.django_db
@pytest.mark.usefixtures("own_redis")
def test_what_could_not_be_stopped_is_not_said_to_be_taken_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*_args: object, **_named: object) -> None:
        raise EndingError("inferdash may not send SIGTERM to process 1.")

    with process() as engine:
        wish = action(found(engine.pid))
        server = factories.server(wish.box)
        monkeypatch.setattr(takeover, "_server", lambda *_args: server)
        monkeypatch.setattr(takeover, "_rehearse", lambda *_args: None)
        monkeypatch.setattr(processes, "end_process", refused)

        with pytest.raises(TakeOverError, match="may not send SIGTERM"):
            takeover.take_over(wish.box, wish, tell=lambda _said: None)

    assert Server.objects.get(pk=server.pk).took_over == {}
