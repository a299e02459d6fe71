"""What a watcher has found, as rows, for tests of pages."""

from typing import Any

from django.utils import timezone

from servers.judge.external.engines import DiscoveredEngine, Origin
from servers.lifecycle import external
from servers.models import Box, Server
from servers.models.runs.run import ExternalRun, RunState
from tests import factories

CONTAINER = "c0ffee0123456789" * 4
SPEECH = Origin(project="speech", service="llm", number="1", folder="/srv/speech", policy="always")


def found(**values: Any) -> DiscoveredEngine:
    usual: dict[str, Any] = {
        "container": CONTAINER,
        "name": "speech-llm-1",
        "image": "vllm/vllm-openai:v0.20.2",
        "engine": "vllm",
        "answer": "serves",
        "version": "0.20.2",
        "models": ("Qwen/Qwen3-Coder-30B-A3B",),
        "address": "127.0.0.1",
        "port": 8000,
        "started_at": timezone.now().timestamp() - 27 * 86400,
        "origin": SPEECH,
    }
    return DiscoveredEngine(**usual | values)


def sighted(on: Box, *all_of_them: DiscoveredEngine) -> None:
    external.renew_rows(on, all_of_them or [found()])


def watched(
    on: Box, name: str = "speech-llm", state: RunState = RunState.READY, **values: Any
) -> ExternalRun:
    """The run of a server that is watched."""
    server = factories.server(on, name, model="minimax-m2.7")
    Server.objects.filter(pk=server.pk).update(
        watches={"project": "speech", "service": "llm", "number": "1"}
    )
    origin = {
        **SPEECH.to_json(),
        "name": "speech-llm-1",
        "remarks": [["ignored", "--memory 64g: a profile has no place for it."]],
    }
    usual: dict[str, Any] = {"container_id": CONTAINER, "saw_start": False, "origin": origin}
    run = factories.external_run(server, state, **usual | values)
    server.refresh_from_db()
    return run
