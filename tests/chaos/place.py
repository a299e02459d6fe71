"""One box whose worker and watcher are real processes; its rows are those of the test."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis
from django.utils import timezone

from inferdash.celery import app
from servers import lifecycle
from servers.host.docker.containers import Container, DockerContainers
from servers.models import Box, LogChunk, Run
from servers.models.logs import NOTE
from servers.models.runs.run import ManagedRun, ManagedServer, RunState
from servers.tasks import TRIED
from tests import factories
from tests.base_images import ENGINE
from tests.chaos.docker_proxy import DockerProxy, Step
from tests.chaos.mothers import Mothers
from tests.waiting import wait_until

# Seconds. Ten are promised; a machine with other things to do may take longer.
PATIENCE = 180.0
QUICK = {"ENGINE_SECONDS": "0.1"}


@dataclass(kw_only=True, eq=False)
class ChaosSite:
    mothers: Mothers
    docker: DockerContainers
    proxy: DockerProxy
    redis_url: str
    pids: set[int] = field(default_factory=set)
    workers: int = 0

    def __post_init__(self) -> None:
        self.box: Box = factories.box("rtx8", home="/home/ada")
        # Else the watcher would ask the image for its flags in a container of its own.
        image = self.docker.image(ENGINE)
        assert image is not None
        factories.image_facts(self.box, reference=ENGINE, image_id=image.id)

    @property
    def folder(self) -> Path:
        return self.mothers.folder

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {
            "INFERDASH_DATA": str(self.folder / "var"),
            "INFERDASH_HOME": str(self.folder / "home"),
            "DJANGO_SETTINGS_MODULE": "inferdash.settings",
            "REDIS_URL": self.redis_url,
            "DATABASE_URL": "",
            "INFERDASH_BOX": "rtx8",
            "DOCKER_HOST": self.proxy.host,
            "LOG_LEVEL": "INFO",
        }

    def worker(self) -> int:
        """The id of a worker that takes nudges as soon as it is up."""
        self.workers += 1
        return self._born("worker")

    def waits_until_tried(self) -> None:
        """Each worker asks Docker once, at its own start, what it takes from containers."""
        self.waits_for(
            "all workers have tried Docker",
            lambda: self.mothers.log.read_text().count(TRIED) == self.workers,
        )

    def watcher(self) -> int:
        return self._born("watcher")

    def watcher_killed_at(self, step: Step) -> int:
        """A watcher that is killed at its first call of that kind."""
        born = threading.Event()
        pid = 0

        def kill() -> None:
            born.wait()
            self.kill(pid)

        self.proxy.stop_at(step, kill)
        pid = self.watcher()
        born.set()
        return pid

    def _born(self, kind: str) -> int:
        pid = self.mothers.give_birth(kind, self.environment)
        self.pids.add(pid)
        return pid

    def end(self) -> None:
        for pid in set(self.pids):
            self.kill(pid)

    def kill(self, pid: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        self.waits_for_end(pid)

    def waits_for_end(self, pid: int) -> None:
        self.waits_for(f"{pid} has ended", lambda: not Path(f"/proc/{pid}").exists())
        self.pids.discard(pid)

    def server(self, name: str, **launch: Any) -> ManagedServer:
        values = {"image": ENGINE, "env": QUICK, "gpus": "none", "engine": "vllm", **launch}
        return factories.server(self.box, name, **values)

    def start(self, server: ManagedServer, *, nudged: bool = True) -> ManagedRun:
        """Press Start."""
        run = lifecycle.start(server, by=factories.person())
        assert run is not None
        if nudged:
            self.nudge(run)
        return run

    def stop(self, run: ManagedRun) -> None:
        """Press Stop; the nudge is lost."""
        assert lifecycle.stop(run, by=factories.person())

    def nudge(self, run: Run) -> None:
        """What the web process sends, to this test's Redis."""
        url = self.redis_url.replace("unix://", "redis+socket://")
        with app.connection_for_write(url) as broker:
            app.send_task("servers.advance", args=(run.pk,), queue="box.rtx8", connection=broker)

    def forget(self, run: Run) -> None:
        """As if it had ended long ago."""
        run.refresh_from_db()
        self.docker.remove(run.container_id)
        Run.objects.filter(pk=run.pk).write(
            state=RunState.FAILED, ended_at=timezone.now(), log__is_complete=True, container_id=""
        )

    def waits_for(
        self, what: str, is_so: Callable[[], bool], *, within: float = PATIENCE, every: float = 0.05
    ) -> float:
        """How many seconds it took."""
        began = time.monotonic()
        wait_until(is_so, lambda: f"{what}\n{self.told()}", patience=within, every=every)
        return time.monotonic() - began

    def waits_for_state(self, run: Run, *states: RunState, **limit: float) -> float:
        def is_so() -> bool:
            run.refresh_from_db()
            return run.state in states

        return self.waits_for(f"run {run.pk} is {' or '.join(states)}", is_so, **limit)

    def waits_until_whole(self, run: Run) -> None:
        def is_so() -> bool:
            run.refresh_from_db()
            return run.log.is_complete

        self.waits_for(f"the log of run {run.pk} is whole", is_so)

    def waits_for_more_than(self, lines: int, run: Run) -> None:
        def is_so() -> bool:
            run.refresh_from_db()
            return run.log.lines > lines

        self.waits_for(f"run {run.pk} has more than {lines} lines", is_so)

    def status_message(self, run: Run) -> str:
        run.refresh_from_db()
        return run.status_message

    def told(self) -> str:
        rows = "\n".join(f"run {run.pk}: {run.state}, {run.failure}" for run in Run.objects.all())
        said = self.mothers.log.read_text(errors="replace")
        return f"{rows}\n{said[-6000:]}"

    def containers(self, run: Run) -> list[Container]:
        label = str(run.pk)
        return [each for each in self.docker.list_ours() if each.labels["inferdash.run"] == label]

    def redis(self) -> redis.Redis:
        return redis.Redis.from_url(self.redis_url)

    def lines(self, run: Run) -> list[str]:
        """What is stored of the container's own words, with their stamps."""
        stored = LogChunk.objects.lines(run.pk, 0, 1_000_000)
        return [f"{line.at} {line.text}" for line in stored if line.stream != NOTE]

    def dockers_lines(self, container_id: str) -> list[str]:
        return [f"{at} {text.decode()}" for at, _stream, text in self.docker.logs(container_id)]
