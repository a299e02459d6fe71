"""A ready engine that is dead behind its health path, in the real Docker Engine."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from django.utils import timezone
from docker import APIClient

from servers import lifecycle
from servers.host.docker.containers import DockerContainers
from servers.host.runs import probes
from servers.host.runs.probes import Endpoint, EngineError
from servers.judge.runs import health
from servers.lifecycle.runs import starts
from servers.models import AuditEntry, Box, Run, Server
from servers.models.runs.run import DesiredState, ManagedRun, RunState
from servers.watcher.runs import probes as watcher_probes
from servers.watcher.runs.runs import Runs
from tests import factories
from tests.base_images import ENGINE
from tests.waiting import wait_until

pytestmark = [pytest.mark.docker, pytest.mark.django_db(transaction=True)]

AT_ONCE = timedelta(0)
BECAUSE = "answers /health, but has generated nothing with 1 request running"


@pytest.fixture(autouse=True)
def _worker(
    worker: DockerContainers,
    own_redis: object,
    settings: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The worker of a box whose watcher has little patience."""
    settings.BOX_FILE.write_text(f'mount_roots = ["{tmp_path}"]\n')
    monkeypatch.setattr("servers.watcher.runs.runs.ASK_EVERY", 0.0)
    monkeypatch.setattr(health, "ASK_AGAIN", AT_ONCE)
    monkeypatch.setattr(health, "AFTER", dict.fromkeys(health.AFTER, AT_ONCE))
    monkeypatch.setattr(probes, "PROBE_TIMEOUT", 3.0)
    monkeypatch.setattr(watcher_probes, "ONE_TOKEN_LIMIT", 3.0)


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three looks at which nothing has moved are enough."""
    for name in ("STILL_AFTER", "STILL_SLOW"):
        monkeypatch.setattr(health, name, AT_ONCE)


def until(runs: Runs, run: ManagedRun, done: Callable[[ManagedRun], object]) -> ManagedRun:
    def look() -> object:
        runs.tick(within=0.2)
        run.refresh_from_db()
        return done(run)

    wait_until(look, lambda: f"it comes to it: {run.state} {run.health.unhealthy_because}")
    return run


def ready(box: Box, runs: Runs, **launch: Any) -> ManagedRun:
    """A server of the test engine that has become ready and answered its first question."""
    values = {"image": ENGINE, "env": {"ENGINE_SECONDS": "0.1"}, "gpus": "none", "engine": "vllm"}
    server = factories.server(box, "wedged", "gpt-oss-120b", **values | launch)
    run = lifecycle.start(server, by=factories.person())
    assert run is not None
    lifecycle.advance(run)
    return until(runs, run, lambda run: run.health.first_answer)


def endpoint(run: ManagedRun) -> Endpoint:
    found = starts.find_endpoint(run)
    assert found is not None
    return found


@contextmanager
def somebody_asks(run: ManagedRun, question: str) -> Iterator[None]:
    """A chat that is open until the block ends."""
    body = {
        "model": run.served_name,
        "messages": [{"role": "user", "content": question}],
        "stream": True,
    }
    loop, at = asyncio.new_event_loop(), endpoint(run)

    async def ask() -> None:
        # In one scene the engine is ended meanwhile.
        with suppress(EngineError):
            async for _piece in probes.chat(at, body):
                pass

    task = loop.create_task(ask())
    thread = Thread(target=lambda: loop.run_until_complete(asyncio.wait({task})), daemon=True)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        loop.close()


@pytest.mark.usefixtures("hurry")
@pytest.mark.takes(30)
def test_a_chat_in_which_nothing_comes_makes_it_unhealthy_and_its_end_healthy_again(
    box: Box,
) -> None:
    runs = Runs(box)
    run = ready(box, runs)
    assert run.health.first_answer["text"].startswith("You said: Explain in three sentences")
    assert run.health.ready_but == ()

    with somebody_asks(run, "[[hang]]"):
        until(runs, run, lambda run: run.health.unhealthy_since)
        assert run.health.unhealthy_because == BECAUSE
        assert run.state == RunState.READY, "it is told, and nothing is stopped for it"
    until(runs, run, lambda run: run.health.unhealthy_since is None)
    assert run.wanted == DesiredState.RUNNING


def test_a_dead_scheduler_that_nobody_asks_is_found_by_asking(box: Box) -> None:
    runs = Runs(box)
    run = ready(box, runs, ask_every=1)
    assert run.health.unhealthy_since is None

    probes.models(endpoint(run), "/wedge")
    until(runs, run, lambda run: run.health.unhealthy_since)

    assert run.health.unhealthy_because == "answers /health, but no probe for one token"
    assert run.health.last_request_at is None, "it was asked by nobody but inferdash"
    assert run.health.requests_running == 0


@pytest.mark.takes(30)
def test_an_engine_that_stands_still_does_not_answer(box: Box, docker: DockerContainers) -> None:
    runs = Runs(box)
    run = ready(box, runs)
    with closing(APIClient(docker.host, version="auto")) as client:
        client.pause(run.container_id)
        try:
            until(runs, run, lambda run: run.health.unhealthy_since)
            assert run.health.unhealthy_because == "does not answer /health"
        finally:
            client.unpause(run.container_id)
    until(runs, run, lambda run: run.health.unhealthy_since is None)


def ended(docker: DockerContainers, run: ManagedRun) -> ManagedRun:
    for _line in docker.logs(run.container_id, follow=True):
        pass
    lifecycle.observe(run)
    run.refresh_from_db()
    return run


@pytest.mark.usefixtures("hurry")
def test_its_profile_may_have_it_ended_and_started_again(
    box: Box, docker: DockerContainers
) -> None:
    runs = Runs(box)
    run = ready(box, runs, restart_unhealthy=1, grace=1)
    with somebody_asks(run, "[[hang]]"):
        until(runs, run, lambda run: run.state != RunState.READY)
        assert run.given_up == f"Restarted by inferdash: unhealthy for 1s: {BECAUSE}."
        assert run.stopped_by is None
        Run.objects.filter(pk=run.pk).update(kill_at=timezone.now())
        until(runs, run, lambda run: True)
        run = ended(docker, run)

    assert run.state == RunState.FAILED
    assert run.failure == run.given_up
    assert run.restart_at is not None
    Run.objects.filter(pk=run.pk).update(restart_at=timezone.now())
    lifecycle.start_due(box)
    after = Server.objects.get(pk=run.server_id).run
    assert after is not None
    assert after != run
    assert after.plan.attempts == 1
    assert AuditEntry.objects.get(action="start again").detail["why"] == run.failure


@pytest.mark.usefixtures("hurry")
def test_who_would_not_be_started_again_is_not_ended_either(box: Box) -> None:
    runs = Runs(box)
    run = ready(box, runs, restart_unhealthy=1, restart="on-failure", restart_tries=2)
    Run.objects.filter(pk=run.pk).write(plan__attempts=2)
    with somebody_asks(run, "[[hang]]"):
        until(runs, run, lambda run: run.status_message)

    assert run.state == RunState.READY
    assert run.wanted == DesiredState.RUNNING
    assert run.status_message == (
        "inferdash has started it again 2 times in a row, and does not try once more."
    )


def test_an_engine_that_was_dead_inside_for_long_has_not_served_for_long(box: Box) -> None:
    now = timezone.now()
    run = factories.run(
        factories.server(box),
        attempts=2,
        ready_at=now - timedelta(hours=2),
        unhealthy_since=now - timedelta(minutes=119),
    )

    assert run.next_try == 3
