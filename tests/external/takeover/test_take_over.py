"""Somebody else's engine becomes ours, because a person said so by its name, and there is a way back."""

import socket
from pathlib import Path
from typing import Any

import pytest

from servers.judge.external.engines import DiscoveredEngine
from servers.launch.engines.change import LaunchChange
from servers.lifecycle.external import import_diff
from servers.lifecycle.jobs import actions
from servers.models import (
    AuditEntry,
    Job,
    Profile,
    ProfileImport,
    Role,
    Run,
    Secret,
    Server,
    User,
)
from servers.models.runs.run import RunState
from tests import factories
from tests.base_images import ENGINE
from tests.chaos.place import ChaosSite
from tests.external.monitoring.hands import Hands
from tests.external.takeover.bare import bare
from tests.ports import free_port
from tests.waiting import PATIENCE

pytestmark = pytest.mark.docker

KEPT = ("Id", "Name", "Created", "Config", "HostConfig", "Mounts", "RestartCount")


def before(hands: Hands, container: str) -> dict[str, Any]:
    """What stays of a container that is stopped."""
    found = hands.inspect(container)
    return {part: found[part] for part in KEPT}


def takes_over(place: ChaosSite, found: DiscoveredEngine, by: User | None = None) -> Job:
    assert actions.ask_to_take_over(place.box, found, by=by or factories.person())
    return wish(place, "takeover")


def wish(place: ChaosSite, kind: str) -> Job:
    def is_over() -> bool:
        return Job.objects.filter(kind=kind).latest("pk").is_over

    place.waits_for(f"the wish {kind} is over", is_over)
    return Job.objects.filter(kind=kind).latest("pk")


def runs(hands: Hands, container: str) -> bool:
    return bool(hands.client.inspect_container(container)["State"]["Running"])


def profile_of(place: ChaosSite, container: str) -> Profile:
    found = import_diff.profile_of(place.box, container)
    assert found is not None
    return found


def latest(server: Server) -> Run:
    return Run.objects.filter(server=server).latest("pk")


def changed(profile: Profile, **fields: Any) -> None:
    profile.save_version(LaunchChange(fields=fields).apply(profile.launch), by=None)


def test_a_container_that_ended_becomes_a_profile_untouched(place: ChaosSite, hands: Hands) -> None:
    place.watcher()
    token = "hf_" + "q" * 34
    container = hands.run("ended", env={"HF_TOKEN": token})
    hands.client.stop(container, timeout=1)
    found = hands.sees(container, "ended")
    was = hands.inspect(container)

    assert found.exit_code is not None
    assert found.ended is not None
    assert actions.ask_for_profile(place.box, found, by=factories.person())
    said = wish(place, "profile")

    assert said.state == "done", said.said
    profile = profile_of(place, container)
    assert profile.launch.checkpoint == "Qwen/Qwen3-8B"
    assert profile.launch.image == ENGINE
    assert Secret.objects.get(pk=profile.launch.secret_env["HF_TOKEN"]).reveal() == token
    assert Server.objects.get(profile=profile).run is None
    rows = ProfileImport.objects.get(container=container).rows
    assert ["model", "Qwen/Qwen3-8B", "Qwen/Qwen3-8B", "same"] in rows
    assert not any(token in text for row in rows for text in row)
    assert hands.inspect(container) == was

    assert actions.ask_for_profile(place.box, found, by=factories.person())
    assert wish(place, "profile").state == "done"
    assert Profile.objects.count() == 1, "a second click makes no second profile"


@pytest.mark.takes(40)
def test_what_is_watched_becomes_ours(place: ChaosSite, hands: Hands) -> None:
    place.watcher()
    place.worker()
    container = hands.run("theirs", publish=8000, restart_policy={"Name": "unless-stopped"})
    watched = hands.is_ready(hands.watches(container))
    was = before(hands, container)

    said = takes_over(place, hands.sees(container))

    assert said.state == "done", said.said
    server = Server.objects.get(pk=watched.server_id)
    assert said.server == server.slug
    assert said.command == f"docker start {hands.name('theirs')}"
    assert (server.is_watched, server.run_id != watched.pk) == (False, True)
    ours = latest(server)
    place.waits_for_state(ours, RunState.READY)
    assert ours.image_id == hands.client.inspect_container(container)["Image"]
    watched.refresh_from_db()
    assert (watched.state, watched.failure) == (RunState.STOPPED, "")
    assert not runs(hands, container)
    assert before(hands, container) == was, "it is stopped, and nothing else"
    name = hands.name("theirs")
    assert server.took_over["command"] == f"docker start {name}"
    assert server.took_over["keeps_away"] == f"docker update --restart=no {name}"
    noted = list(AuditEntry.objects.values_list("action", flat=True))
    assert {"takeover", "stop for take over", "take over", "takeover done"} <= set(noted)
    hands.sees(container, "ended")


@pytest.mark.takes(60)
def test_what_would_be_refused_stops_nothing(place: ChaosSite, hands: Hands) -> None:
    place.watcher()
    container = hands.run("mounts", binds=["/etc:/etc-of-box:ro"])
    found = hands.sees(container)

    said = takes_over(place, found)

    assert said.state == "refused"
    assert "/etc" in said.said
    assert "Nothing was stopped" in said.said
    assert runs(hands, container)
    assert not Run.objects.exists()

    changed(profile_of(place, container), volumes=(), image="inferdash-test/no-such-image:1")
    assert "Pull it first" in takes_over(place, found).said
    assert runs(hands, container)

    # What only Docker can tell.
    profile = profile_of(place, container)
    changed(profile, image=ENGINE, runtime="nowhere")
    said = takes_over(place, found)
    assert "has no runtime nowhere" in said.said
    assert "Nothing was stopped" in said.said
    with socket.create_server(("127.0.0.1", 0)) as somebody:
        changed(profile, runtime="", host_port=somebody.getsockname()[1])
        assert "The port is taken" in takes_over(place, found).said
    assert runs(hands, container)
    assert place.docker.list_ours() == []

    # What only an admin may give a container.
    opens = hands.run("opens", cap_add=["NET_ADMIN"])
    said = takes_over(place, hands.sees(opens), by=factories.person("eva", Role.EDITOR))
    assert (said.state, "only an admin" in said.said) == ("refused", True)
    assert runs(hands, opens)
    assert import_diff.profile_of(place.box, opens) is None

    # Another life than was confirmed.
    hands.client.restart(container, timeout=1)
    place.waits_for(
        "its new life is seen",
        lambda: (hands.found(container) or found).started_at != found.started_at,
    )
    said = takes_over(place, found)
    assert (said.state, "was started anew" in said.said) == ("refused", True)
    assert runs(hands, container)


@pytest.mark.takes(60)
def test_a_start_that_fails_leaves_the_way_back(place: ChaosSite, hands: Hands) -> None:
    place.watcher()
    place.worker()
    container = hands.run("way-back")
    found = hands.sees(container)
    assert actions.ask_for_profile(place.box, found, by=factories.person())
    wish(place, "profile")
    changed(profile_of(place, container), entrypoint=("/no/such",), init=False)

    said = takes_over(place, found)

    way_back = f"docker start {hands.name('way-back')}"
    assert (said.state, said.command) == ("refused", way_back), said.said
    assert "The old one is still there" in said.said
    assert not runs(hands, container)
    server = Server.objects.get(took_over__command=way_back)
    client = factories.log_in(factories.person())
    told = client.get(f"/servers/{server}/").content.decode()
    assert "This one has failed; the old one starts again by:" in told
    assert way_back in told

    hands.client.start(container)
    hands.sees(container)


@pytest.mark.takes(40)
def test_one_that_removes_itself_leaves_its_command(place: ChaosSite, hands: Hands) -> None:
    place.watcher()
    place.worker()
    container = hands.run("passing", auto_remove=True, env={"TEAM_KEY": "open-sesame"})

    said = takes_over(place, hands.sees(container))

    assert said.state == "done", said.said
    assert "stays on the box" not in said.said
    way_back = Server.objects.get().took_over["command"]
    assert "\ndocker run" in f"\n{way_back}"
    assert "open-sesame" not in way_back
    assert hands.name("passing") in way_back


def test_a_process_becomes_a_profile_and_ours(
    place: ChaosSite, hands: Hands, tmp_path: Path
) -> None:
    place.watcher()
    place.worker()
    token = "hf_" + "z" * 34
    port = free_port()
    flags = ("--max-num-seqs", "4", "--port", str(port))
    with bare(tmp_path, *flags, HF_TOKEN=token, VLLM_LOGGING_LEVEL="DEBUG") as process:
        key = f"pid-{process.pid}-"

        def found() -> DiscoveredEngine | None:
            seen = place.box.external_engines.filter(container_id__startswith=key).first()
            return DiscoveredEngine.from_json(seen.found) if seen else None

        place.waits_for("the process is seen", lambda: found() is not None)
        seen = found()
        assert seen is not None
        refused = takes_over(place, seen)
        assert "does not have the image vllm/vllm-openai" in refused.said
        assert process.poll() is None
        profile = profile_of(place, seen.container)
        assert profile.launch.env == {"VLLM_LOGGING_LEVEL": "DEBUG"}
        assert list(profile.launch.secret_env) == ["HF_TOKEN"]
        rows = ProfileImport.objects.get(container=seen.container).rows
        assert ["--max-num-seqs", "4", "4", "same"] in rows
        changed(profile, image=ENGINE, gpus="none", mount_hf_cache=False)

        said = takes_over(place, seen)

        assert said.state == "done", said.said
        assert process.wait(timeout=PATIENCE) != 0
        server = Server.objects.get(profile=profile)
        place.waits_for_state(latest(server), RunState.READY)
        assert latest(server).port == port
        # Its words may name files by where it was started in.
        assert server.took_over["command"].startswith(f"cd {Path.cwd()} && ")
        assert "vllm serve Qwen/Qwen3-8B" in server.took_over["command"]
        assert token not in str(server.took_over)

    # The way back: whoever starts it again finds its profile, with what was changed in it.
    with bare(tmp_path, *flags) as process:
        place.waits_for(
            "its next life is known",
            lambda: ProfileImport.objects.filter(
                container__startswith=f"pid-{process.pid}-"
            ).exists(),
        )
        assert ProfileImport.objects.get().version.profile == profile
