"""An engine that accepts and says nothing makes no other engine wait."""

import json
import queue
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from servers.host.runs import probes
from servers.models import Run
from servers.models.runs.run import RunState
from servers.watcher.runs.probes import Questions
from servers.watcher.runs.runs import Runs
from tests import factories
from tests.scripted_engine import MODEL, ScriptedEngine
from tests.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_redis")]

FOR_EVER = 600.0  # seconds
SHORTLY = 0.3


@contextmanager
def hung() -> Iterator[tuple[int, "queue.Queue[socket.socket]"]]:
    """A port and the connections that were opened to it, on which nothing is ever said."""
    held: queue.Queue[socket.socket] = queue.Queue()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hold() -> None:
            while True:
                try:
                    held.put(server.accept()[0])
                except OSError:
                    return

        holding = threading.Thread(target=hold, daemon=True)
        holding.start()
        try:
            yield server.getsockname()[1], held
        finally:
            server.shutdown(socket.SHUT_RDWR)
            holding.join()
            while not held.empty():
                held.get().close()


def at(run: Run, port: int) -> Run:
    new = {"address": "127.0.0.1", "port": port, "served_name": MODEL}
    Run.objects.filter(pk=run.pk).update(**new)
    return run


def state(run: Run) -> str:
    return Run.objects.values_list("state", flat=True).get(pk=run.pk)


def looks(engine: ScriptedEngine) -> int:
    return [each["path"] for each in engine.headers].count("/metrics")


def test_a_hung_start_delays_neither_other_starts_nor_the_figures_of_who_serves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probes, "PROBE_TIMEOUT", FOR_EVER)
    box = factories.box()
    with ExitStack() as stack, hung() as (port, held):
        stuck = at(factories.run(factories.server(box, "hung"), RunState.STARTING), port)
        engines = [stack.enter_context(ScriptedEngine()) for _ in range(4)]
        good = [
            at(factories.run(factories.server(box, f"m-{n}", engine="vllm"), kind), engine.port)
            for n, (kind, engine) in enumerate(
                zip(
                    [RunState.STARTING, RunState.STARTING, RunState.READY, RunState.READY],
                    engines,
                    strict=True,
                )
            )
        ]
        monkeypatch.setattr("servers.watcher.runs.runs.ASK_EVERY", 0.0)
        runs = Runs(box)

        def have_been_asked() -> bool:
            runs.tick(within=SHORTLY)
            return all(looks(engine) >= 3 for engine in engines)

        wait_until(have_been_asked, "nobody waits for the hung one")

        assert [state(run) for run in good] == [RunState.READY] * 4
        for run in good:
            run.refresh_from_db()
            assert run.health.requests_running == 3
        assert held.qsize() == 1, "it still owes its first answer, and is not asked another time"
        assert state(stuck) == RunState.STARTING


def test_what_a_slow_engine_says_is_heard_in_a_later_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probes, "PROBE_TIMEOUT", FOR_EVER)
    box = factories.box()
    may_answer = threading.Event()
    with ScriptedEngine() as engine:
        run = factories.run(factories.server(box, "slow", engine="vllm"), RunState.STARTING)
        at(run, engine.port)

        def dawdle() -> None:
            may_answer.wait(FOR_EVER)

        engine.hooks["/health"] = dawdle
        runs = Runs(box)

        runs.tick(within=SHORTLY)
        assert state(run) == RunState.STARTING
        runs.tick(within=SHORTLY)
        may_answer.set()
        runs.tick()

    assert state(run) == RunState.READY
    assert [each["path"] for each in engine.headers].count("/health") == 1


def test_a_fault_of_ours_in_a_question_is_not_swallowed() -> None:
    questions: Questions[str] = Questions("test")

    def broken() -> str:
        raise KeyError("a fault of ours")

    questions.ask(1, broken)
    with pytest.raises(KeyError, match="a fault of ours"):
        list(questions.answers(until=float("inf")))
    questions.ask(1, lambda: json.dumps("again"))
    assert list(questions.answers(until=1e300)) == [(1, '"again"')]


def test_the_health_path_is_spared_while_the_figures_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("servers.watcher.runs.runs.ASK_EVERY", 0.0)
    box = factories.box()
    with ScriptedEngine() as engine:
        run = factories.run(factories.server(box, "well", engine="vllm"))
        at(run, engine.port)
        runs = Runs(box)
        for _round in range(4):
            runs.tick()
        asked = [each["path"] for each in engine.headers]
        assert (asked.count("/health"), asked.count("/metrics")) == (1, 4)

        engine.answers |= {"/metrics": (500, ""), "/health": (503, "")}
        for _round in range(3):
            runs.tick()
        asked = [each["path"] for each in engine.headers]
        assert asked.count("/health") == 4, "now it is the only one to tell"
