"""What somebody does with Docker who knows nothing of inferdash, and what inferdash makes of it."""

from dataclasses import dataclass, field
from typing import Any

import docker

from servers.judge.external.engines import DiscoveredEngine
from servers.lifecycle.jobs import actions
from servers.models import ExternalEngine, Job, Run
from servers.models.runs.run import RunState
from tests import factories
from tests.base_images import ENGINE
from tests.chaos.place import ChaosSite
from tests.dying import let_die

WORDS = ("vllm", "serve", "Qwen/Qwen3-8B", "--host", "0.0.0.0", "--port", "8000")
MOMENT = {"ENGINE_SECONDS": "0.1"}
# Seconds until Docker kills what it has asked to end: killed, an engine has ended otherwise, and on
# a busy machine it takes more than five to end by itself.
GRACE = 60


@dataclass(kw_only=True)
class Hands:
    place: ChaosSite
    client: docker.APIClient
    made: list[str] = field(default_factory=list)

    def name(self, name: str) -> str:
        """Several sessions of tests share one Docker."""
        return f"{name}-{self.place.docker.install[:8]}"

    def run(
        self,
        name: str,
        *words: str,
        image: str = ENGINE,
        env: dict[str, str] | None = None,
        publish: int | None = None,
        tty: bool = False,
        labels: dict[str, str] | None = None,
        entrypoint: list[str] | None = None,
        **host: Any,
    ) -> str:
        """`docker run -d`; the id. `publish` is the port of the engine."""
        ports: dict[int | str, Any] = {publish: ("127.0.0.1", None)} if publish else {}
        made = self.client.create_container(
            image,
            list(words or WORDS),
            name=self.name(name),
            environment=MOMENT | (env or {}),
            ports=list(ports),
            tty=tty,
            labels=labels or {},
            entrypoint=entrypoint,
            host_config=self.client.create_host_config(port_bindings=ports, **host),
        )
        container: str = made["Id"]
        self.made.append(container)
        self.client.start(container)
        return container

    def found(self, container: str) -> DiscoveredEngine | None:
        sighting = ExternalEngine.objects.filter(container_id=container).first()
        return DiscoveredEngine.from_json(sighting.found) if sighting else None

    def sees(self, container: str, answer: str = "serves") -> DiscoveredEngine:
        """Wait until its box's watcher has seen it."""

        seen: list[DiscoveredEngine] = []  # later looks may find something else again

        def is_seen() -> bool:
            found = self.found(container)
            if found is not None and found.answer == answer:
                seen.append(found)
            return bool(seen)

        self.place.waits_for(f"{container[:12]} is seen, and {answer}", is_seen)
        return seen[0]

    def watches(self, container: str, answer: str = "serves") -> Run:
        """Press Watch, and wait for what comes of it."""
        wish = self.presses_watch(container, answer)
        assert wish.state == "done", wish.said
        return self.run_of(container)

    def watches_one_that_dies(self, container: str, answer: str = "serves") -> Run:
        """Press Watch until it was alive when the worker looked."""

        def is_watched() -> bool:
            wish = self.presses_watch(container, answer)
            assert wish.state == "done" or "does not run any more" in wish.said, wish.said
            return bool(wish.state == "done")

        self.place.waits_for("it is watched between two of its ends", is_watched)
        return self.run_of(container)

    def presses_watch(self, container: str, answer: str) -> Job:
        found = self.sees(container, answer)
        assert actions.ask_to_watch(self.place.box, found, by=factories.person())
        self.place.waits_for("the wish is obeyed", lambda: self.last_wish().is_over)
        return self.last_wish()

    def kills_engine(self, container: str) -> None:
        """It ends by itself, with exit code 3, before it has answered."""
        found = self.found(container)
        assert found is not None
        assert found.port
        let_die(found.address, found.port)

    def last_wish(self) -> Job:
        return Job.objects.filter(kind="watch").latest("pk")

    def run_of(self, container: str) -> Run:
        """The newest run of this container."""
        runs = Run.objects.select_related("server__box", "server__profile", "version")
        return runs.filter(container_id=container).latest("pk")

    def is_ready(self, run: Run) -> Run:
        self.place.waits_for_state(run, RunState.READY)
        return self.run_of(run.container_id)

    def next_run(self, after: Run) -> Run:
        runs = Run.objects.filter(server=after.server_id, pk__gt=after.pk)
        self.place.waits_for("a new run of the same server", runs.exists)
        return runs.select_related("server__box", "version").latest("pk")

    def inspect(self, container: str) -> dict[str, Any]:
        """All that nobody but who made it may change."""
        found = self.client.inspect_container(container)
        kept = ("Id", "Name", "Created", "Config", "HostConfig", "Mounts", "RestartCount", "State")
        return {part: found[part] for part in kept}
