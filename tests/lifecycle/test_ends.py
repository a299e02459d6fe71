"""What an end was that nobody asked inferdash for, by what is known of it."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from django.utils import timezone

from servers.host.docker.containers import Container
from servers.lifecycle.runs import out_of_band, restart_policy
from servers.models.runs.run import DesiredState, RunState
from tests import factories

ENDED = Container(
    id="c" * 64, name="x", image_id="", state="exited", pid=None, exit_code=0, oom_killed=False,
    error="", started_at=None, finished_at=None,
)  # fmt: skip
READY = datetime(2026, 11, 23, tzinfo=UTC)
STOPPED, FAILED = RunState.STOPPED, RunState.FAILED


@pytest.mark.parametrize(
    ("code", "asked", "ready_at", "state", "is_sure", "words"),
    [
        (137, True, READY, STOPPED, True, "Somebody has stopped its container outside inferdash"),
        (0, True, None, STOPPED, True, "exit code 0"),
        (137, False, READY, FAILED, True, "SIGKILL (exit code 137) while it was serving"),
        (137, None, READY, FAILED, False, "stopped through Docker is not known"),
        (143, False, READY, STOPPED, False, "SIGTERM from outside inferdash"),
        (143, None, READY, STOPPED, False, "Who sent it is not known"),
        (0, False, READY, FAILED, True, "ended by itself while it was serving"),
        (0, None, READY, STOPPED, False, "whether somebody has stopped it"),
        (0, None, None, FAILED, False, "before it was ready"),
        (3, False, READY, FAILED, True, "with exit code 3"),
    ],
)
def test_an_end_is_judged_by_who_asked_for_it_and_by_its_code(
    code: int,
    asked: bool | None,
    ready_at: datetime | None,
    state: RunState,
    is_sure: bool,
    words: str,
) -> None:
    found = restart_policy.judge_exit(ready_at, replace(ENDED, exit_code=code), asked=asked)

    assert (found.state, found.is_sure) == (state, is_sure)
    assert words in found.says


@pytest.mark.parametrize("by_person", [False, True])
def test_what_docker_stopped_as_it_ended_itself_is_started_again(
    db: None, own_redis: object, by_person: bool
) -> None:
    server = factories.server(factories.box(), restart="always")
    run = factories.run(
        server, RunState.STOPPED, ended_at=timezone.now(), ready_at=timezone.now(),
        stopped_by=factories.person() if by_person else None,
        wanted=DesiredState.STOPPED if by_person else DesiredState.RUNNING,
    )  # fmt: skip

    out_of_band.note_end_of_docker(server.box)

    run.refresh_from_db()
    assert (run.restart_at is None) is by_person
    assert (run.status_message == "") is by_person
