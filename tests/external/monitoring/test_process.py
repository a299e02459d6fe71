"""An engine in no container is watched as one in a container is, and never touched."""

import os
from pathlib import Path

import pytest

from servers.host.kernel.processes import ProcessId
from servers.lifecycle.external import monitoring
from servers.lifecycle.jobs import actions
from servers.lifecycle.runs.ownership import ExternalRunError, require_external, require_managed
from servers.models import ExternalEngine, LogChunk, OtherWorkloads, Run
from servers.models.runs.run import RunState
from tests import factories
from tests.chaos.place import ChaosSite
from tests.external.monitoring.hands import Hands
from tests.external.takeover.bare import engine, llama_server
from tests.ports import free_port

pytestmark = pytest.mark.docker

SECRET = "sk-venv-51e7"


class Venv:
    """Somebody's venv with its log file."""

    def __init__(self, hands: Hands, folder: Path) -> None:
        self.hands, self.place, self.folder = hands, hands.place, folder
        self.log = folder / "vllm.log"
        self.port = free_port()

    def key(self, pid: int) -> str:
        keys = ExternalEngine.objects.values_list("container_id", flat=True)
        return next((key for key in keys if (life := ProcessId.parse(key)) and life.pid == pid), "")

    def sees(self, pid: int) -> str:
        self.place.waits_for(f"process {pid} is seen", lambda: bool(self.key(pid)))
        return self.key(pid)

    def watches(self, pid: int) -> Run:
        found = self.hands.sees(self.sees(pid))
        assert actions.ask_to_watch(self.place.box, found, by=factories.person())
        self.place.waits_for("the wish is obeyed", lambda: self.hands.last_wish().is_over)
        assert self.hands.last_wish().state == "done", self.hands.last_wish().said
        return self.hands.run_of(found.container)

    def text(self, run: Run) -> str:
        lines = LogChunk.objects.lines(run.pk, 0, 1000)
        return "\n".join(f"{line.stream} {line.text}" for line in lines)

    def says(self, run: Run, words: str) -> None:
        self.place.waits_for(f"its log says {words}", lambda: words in self.text(run))


@pytest.fixture
def venv(place: ChaosSite, hands: Hands, tmp_path: Path) -> Venv:
    place.watcher()
    return Venv(hands, tmp_path)


@pytest.mark.takes(45)
def test_a_process_is_watched_until_it_is_gone_and_followed_when_it_comes_again(
    venv: Venv, place: ChaosSite
) -> None:
    key = {"VLLM_API_KEY": SECRET}
    with venv.log.open("wb") as log, engine(venv.folder, venv.port, log=log, **key) as process:
        run = venv.watches(process.pid)
        place.waits_for_state(run, RunState.READY)
        run = venv.hands.run_of(run.container_id)
        assert (run.address, run.port, run.served_name) == (
            "127.0.0.1",
            venv.port,
            "Qwen/Qwen3-8B",
        )
        assert run.is_of_process
        assert run.start.origin["name"] == f"process {process.pid}"
        assert run.start.engine_version == "0.33.0-test"
        assert SECRET not in f"{run.start.command} {run.version.launch}"
        venv.says(run, f"its standard output goes to {venv.log}")

        # Copied away and emptied, as a rotation does, while it goes on.
        before = len(venv.text(run))
        os.truncate(venv.log, 0)
        os.write(log.fileno(), f"the key is {SECRET}\nafter the rotation\n".encode())
        venv.says(run, "after the rotation")
        assert "the key is •••" in venv.text(run)
        assert SECRET not in venv.text(run)
        assert len(venv.text(run)) > before

        with pytest.raises(ExternalRunError):
            require_managed(run.server)
        assert process.poll() is None
        os.write(
            log.fileno(), b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
        )
    place.waits_for_state(run, RunState.FAILED)
    run.refresh_from_db()
    assert "With which exit code is not known" in run.failure
    assert run.exit_code is None
    assert run.log.last_lines[-1].startswith("torch.OutOfMemoryError")
    place.waits_for("its cause is found", lambda: bool(Run.objects.get(pk=run.pk).log.diagnosis))
    run.refresh_from_db()
    assert run.log.is_complete
    assert "o torch.OutOfMemoryError" in venv.text(run)
    assert "memory" in run.log.diagnosis["summary"], run.log.diagnosis

    with venv.log.open("ab") as log, engine(venv.folder, venv.port, log=log, **key) as process:
        again = venv.hands.next_run(after=run)
        place.waits_for_state(again, RunState.READY)
        assert again.server_id == run.server_id
        assert again.container_id == venv.sees(process.pid)
        monitoring.unwatch(require_external(run.server), by=factories.person())
        again.refresh_from_db()
        assert (again.state, again.status_message) == (
            RunState.STOPPED,
            "It is not monitored any more. The process goes on without inferdash.",
        )
        assert process.poll() is None


@pytest.mark.takes(45)
def test_processes_need_no_docker_and_containers_are_kept_until_it_is_back(
    venv: Venv, place: ChaosSite, hands: Hands
) -> None:
    container = hands.run("vllm", publish=8000)
    in_docker = hands.watches(container)
    place.waits_for_state(in_docker, RunState.READY)

    door = Path(place.proxy.host.removeprefix("unix://"))
    away = door.rename(door.with_suffix(".away"))
    place.proxy.cut()
    place.waits_for(
        "it is said that Docker is away", lambda: OtherWorkloads.objects.get().trouble != ""
    )
    with venv.log.open("wb") as log, engine(venv.folder, venv.port, log=log) as process:
        run = venv.watches(process.pid)
        place.waits_for_state(run, RunState.READY)
    place.waits_for_state(run, RunState.FAILED)
    in_docker.refresh_from_db()
    assert in_docker.state == RunState.READY
    found = hands.found(container)
    assert found is not None
    assert found.answer == "serves"

    away.rename(door)
    hands.client.kill(container)
    place.waits_for_state(in_docker, RunState.STOPPED)


def test_a_log_that_cannot_be_seen_is_said_with_what_shows_it(venv: Venv, place: ChaosSite) -> None:
    with engine(venv.folder, venv.port) as process:
        run = venv.watches(process.pid)
        place.waits_for_state(run, RunState.READY)
        run = venv.hands.run_of(run.container_id)
        assert run.keeps_no_log
        assert run.start.no_log == "It prints to nowhere (/dev/null, or closed)."
        assert run.log.is_complete
        process.terminate()
        place.waits_for_state(run, RunState.FAILED)


def test_the_log_file_that_its_words_name_is_its_log(venv: Venv, place: ChaosSite) -> None:
    with llama_server(venv.folder, venv.port, "--log-file", "llama.log") as process:
        run = venv.watches(process.pid)
        place.waits_for_state(run, RunState.READY)
        venv.says(run, "o engine pid")
        assert run.server.slug == "tiny"
        assert f"its words have it write its log to {venv.folder}/llama.log" in venv.text(run)
        assert not venv.hands.run_of(run.container_id).keeps_no_log
