"""Who started a container and who would bring it back is told by its labels and its policy."""

from typing import Any

import pytest

from servers.host.docker.containers import Container
from servers.host.external.containers import ExternalContainer
from servers.judge.external.engines import DiscoveredEngine, Origin
from servers.models.runs.run_parts import find_boundary
from tests.external.monitoring.moments import at

COMPOSE = {
    "com.docker.compose.project": "speech",
    "com.docker.compose.service": "llm",
    "com.docker.compose.container-number": "1",
    "com.docker.compose.project.working_dir": "/srv/speech",
}


@pytest.mark.parametrize(
    ("labels", "policy", "started", "revived"),
    [
        (
            {},
            "",
            "docker run, by hand or by a script",
            "Nothing starts it again by itself: it has no restart policy",
        ),
        (
            {},
            "unless-stopped",
            "docker run, by hand or by a script",
            "Docker starts it again whenever it ends by itself, and after a restart of the box",
        ),
        (
            COMPOSE,
            "",
            "compose project speech (service llm, in /srv/speech)",
            "Nothing starts it again by itself; docker compose up in project speech would",
        ),
        (
            {"io.kubernetes.pod.name": "vllm-0"},
            "always",
            "Kubernetes pod vllm-0",
            "Kubernetes pod vllm-0 may start it again",
        ),
        (
            {"inferdash.install": "1a2b3c4d-5e6f"},
            "",
            "another inferdash (1a2b3c4d)",
            "Another inferdash (1a2b3c4d) may start it again",
        ),
    ],
)
def test_an_origin_is_told(labels: dict[str, str], policy: str, started: str, revived: str) -> None:
    origin = Origin.from_labels(labels, policy)

    assert (origin.started_by, origin.revived_by) == (started, revived)
    assert Origin.from_json(origin.to_json()) == origin


def test_a_label_may_hold_anything() -> None:
    origin = Origin.from_labels({"com.docker.compose.project": "a\0b\ud800" + "c" * 5000}, "")

    assert origin.project == "ab" + "c" * 196


def test_what_was_found_survives_its_row() -> None:
    found = DiscoveredEngine(
        container="a" * 64,
        name="coder",
        image="vllm/vllm-openai",
        engine="vllm",
        answer="serves",
        models=("one", "two"),
        address="127.0.0.1",
        port=8000,
        started_at=12.5,
        origin=Origin.from_labels(COMPOSE, "always"),
    )

    assert DiscoveredEngine.from_json(found.to_json()) == found
    assert DiscoveredEngine.from_json(found.to_json() | {"of_a_newer_version": 1}) == found


def test_a_port_that_is_none_leads_nowhere() -> None:
    raw: dict[str, Any] = {"HostConfig": {"NetworkMode": "host"}, "Config": {}}
    container = Container(
        id="a" * 64,
        name="x",
        image_id="",
        state="running",
        pid=1,
        exit_code=None,
        oom_killed=False,
        error="",
        started_at=None,
        finished_at=None,
    )
    other = ExternalContainer(container=container, inspected=raw)

    assert other.ways(8000) == (("127.0.0.1", 8000),)
    assert other.ways(99999) == other.ways(0) == ()


def test_two_lives_in_one_log_are_parted_in_the_middle_of_the_pause() -> None:
    ended, started = at("10:00:00.100000"), at("10:00:00.300000")

    assert find_boundary(ended, started) == "2026-11-21T10:00:00.200000000Z"
    assert find_boundary(None, started) == ""
    assert find_boundary(started, ended) == "", "Docker kept the end of an older life"
