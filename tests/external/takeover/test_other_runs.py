"""A container that is no engine starts, is ready by its path, is asked nothing else, and stops."""

import pytest

from servers.models.runs.run import RunState
from tests.chaos.place import ChaosSite

pytestmark = pytest.mark.docker

WORDS = ("vllm", "serve", "a/b", "--host", "0.0.0.0", "--port", "9000")


def test_any_program_with_a_port_and_a_path_runs(place: ChaosSite) -> None:
    place.watcher()
    place.worker()
    server = place.server(
        "asr", engine="other", checkpoint="", flags=WORDS, port=9000, ready_path="/health"
    )

    run = place.start(server)
    place.waits_for_state(run, RunState.READY)

    (container,) = place.containers(run)
    assert "HF_TOKEN" not in container.env
    assert "VLLM_CACHE_ROOT" not in container.env
    assert (run.served_name, run.start.engine_version, run.health.first_answer) == ("", "", {})
    place.waits_for_more_than(1, run)
    place.stop(run)
    place.waits_for_state(run, RunState.STOPPED)
