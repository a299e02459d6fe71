"""A container of somebody else's is watched: everything of it is seen, nothing is done to it."""

import json
from datetime import timedelta

import pytest
from django.utils import timezone
from docker.types import LogConfig

from servers import lifecycle, tasks
from servers.host.docker.containers import ContainerError
from servers.judge.external.engines import DiscoveredEngine
from servers.lifecycle import memory
from servers.lifecycle.jobs import actions
from servers.lifecycle.runs import starts
from servers.models import AuditEntry, Box, ExternalEngine, Role, Run, Secret, Server
from servers.models.runs.run import DesiredState, RunState
from servers.watcher.external.engines import ExternalEngines
from tests import factories
from tests.chaos.place import ChaosSite
from tests.external.monitoring import rows
from tests.external.monitoring.hands import GRACE, Hands

pytestmark = pytest.mark.docker


@pytest.mark.takes(60)
def test_it_becomes_a_server_without_being_touched(place: ChaosSite, hands: Hands) -> None:
    place.watcher()
    container = hands.run("coder", publish=8000)
    before = hands.inspect(container)

    run = hands.is_ready(hands.watches(container))

    assert (run.is_watched, run.served_name, run.start.engine_version) == (
        True,
        "Qwen/Qwen3-8B",
        "0.33.0-test",
    )
    server = run.server
    assert server.watches == {"name": hands.name("coder")}
    launch = run.version.launch
    assert (launch.engine, launch.checkpoint) == ("vllm", "Qwen/Qwen3-8B")
    assert launch.env == {"ENGINE_SECONDS": "0.1"}
    assert run.health.first_answer == {}, "its GPU works for its own callers alone"
    place.waits_for("its figures are read", lambda: _fresh(run).health.requests_running == 0)
    said = (
        AuditEntry.objects.filter(action="watch")
        .order_by("pk")
        .values_list("by__username", "subject")
    )
    assert list(said) == [("ada", hands.name("coder")), ("ada", server.slug)]
    assert hands.inspect(container) == before


def _fresh(run: Run) -> Run:
    run.refresh_from_db()
    return run


def test_its_log_is_whole_with_what_docker_had_before(place: ChaosSite, hands: Hands) -> None:
    container = hands.run("talks")
    place.watcher()
    run = hands.is_ready(hands.watches(container))
    place.waits_for(
        "its start is read from the log", lambda: starts.read_progress(_fresh(run)).is_ready
    )

    hands.client.stop(container, timeout=GRACE)

    place.waits_until_whole(run)
    assert place.lines(run) == place.dockers_lines(container)
    assert len(place.lines(run)) > 20
    # Its log may be whole before its end is seen.
    place.waits_for("its end is seen", lambda: _fresh(run).state != RunState.READY)
    run.refresh_from_db()
    assert (run.state, run.failure) == (RunState.STOPPED, ""), "somebody has stopped it"


def test_the_log_of_one_with_a_terminal_is_read_too(place: ChaosSite, hands: Hands) -> None:
    place.watcher()
    container = hands.run("tty", tty=True)
    run = hands.is_ready(hands.watches(container))

    hands.client.kill(container)

    place.waits_until_whole(run)
    said = hands.client.logs(container, timestamps=True).decode().split("\n")
    whole = [line.removesuffix("\r") for line in said if line]
    assert place.lines(run) == whole
    assert len(whole) > 20


def test_one_of_which_docker_keeps_no_log_says_so(place: ChaosSite, hands: Hands) -> None:
    place.watcher()
    container = hands.run("mute", log_config=LogConfig(type="none"))

    run = hands.is_ready(hands.watches(container))

    assert (run.log.is_complete, run.log.lines) == (True, 0)
    client = factories.log_in(factories.person())
    assert "Docker keeps no log of it" in client.get(f"/servers/{run.server}/").content.decode()
    assert "does not hand out the log" not in place.told()

    hands.client.kill(container)

    place.waits_for_state(run, RunState.STOPPED)


def test_nobody_can_stop_it_here(place: ChaosSite, hands: Hands) -> None:
    place.watcher()
    container = hands.run("stays")
    before = hands.inspect(container)
    run = hands.is_ready(hands.watches(container))
    slug = run.server.slug
    client = factories.log_in(factories.person())

    for verb in ("start", "stop", "restart", "remove"):
        answer = client.post(f"/servers/{slug}/{verb}/", headers={"HX-Request": "true"})
        assert answer.status_code == 403
        assert b"is only monitored" in answer.content
    assert client.get(f"/servers/{slug}/stop/ask/").status_code == 403
    assert client.post(f"/servers/{slug}/runs/{run.pk}/start/").status_code == 403

    # Even a row that says otherwise moves nothing.
    Run.objects.filter(pk=run.pk).update(wanted=DesiredState.STOPPED)
    tasks.advance(run.pk)
    assert _fresh(run).state == RunState.READY

    for call in (place.docker.start, place.docker.remove):
        with pytest.raises(ContainerError, match="was not made by this inferdash"):
            call(container)
    with pytest.raises(ContainerError, match="was not made by this inferdash"):
        place.docker.signal(container, "SIGKILL")
    assert hands.inspect(container) == before


@pytest.mark.takes(40)
def test_its_secrets_are_neither_shown_nor_kept_in_the_clear(
    place: ChaosSite, hands: Hands
) -> None:
    place.watcher()
    token, key = "hf_" + "q" * 34, "sk-thisIsNobodysBusiness1"
    container = hands.run(
        "secretive",
        "vllm",
        "serve",
        "a/b",
        "--host",
        "0.0.0.0",
        "--api-key",
        key,
        env={"HF_TOKEN": token, "TEAM_PASSWORD": "open sesame"},
    )
    run = hands.is_ready(hands.watches(container))

    spec = run.version.spec
    assert sorted(spec["secret_env"]) == ["HF_TOKEN", "TEAM_PASSWORD", "VLLM_API_KEY"]
    kept = Secret.objects.in_bulk(list(spec["secret_env"].values()))
    assert kept[spec["secret_env"]["TEAM_PASSWORD"]].reveal() == "open sesame"
    place.waits_for_more_than(5, run)
    client = factories.log_in(factories.person("vera", Role.VIEWER))
    shown = [
        client.get(f"/servers/{run.server.slug}/").content.decode(),
        client.get(f"/profiles/{run.server.profile.slug}/").content.decode(),
        "\n".join(place.lines(run)),
        json.dumps([spec, run.start.command, run.start.origin]),
    ]
    for secret in (token, key, "open sesame"):
        assert not any(secret in text for text in shown)
    assert "--api-key" in " ".join(run.start.command)


@pytest.mark.takes(45)
def test_watched_no_more_it_goes_on_alone(place: ChaosSite, hands: Hands) -> None:
    place.watcher()
    container = hands.run("left-alone")
    run = hands.is_ready(hands.watches(container))
    lines = _fresh(run).log.lines
    client = factories.log_in(factories.person())

    assert client.post(f"/servers/{run.server.slug}/unwatch/").status_code == 204

    server = Server.objects.get(pk=run.server_id)
    assert server.removed_at is not None
    assert (_fresh(run).state, run.container_id, run.log.is_complete) == (
        RunState.STOPPED,
        "",
        True,
    )
    assert run.log.lines >= lines
    assert hands.client.inspect_container(container)["State"]["Running"]
    # And again: the same server, a new run.
    again = hands.is_ready(hands.watches(container))
    assert (again.server_id, again.pk > run.pk) == (run.server_id, True)
    assert again.version_id == run.version_id, "the same container needs no other version"


def test_rows_alone_make_no_container_an_engine(place: ChaosSite, hands: Hands) -> None:
    """Whoever can write them could else read what any container is told and says."""
    other = hands.run("database", "600", entrypoint=["sleep"])
    place.watcher()
    hands.sees(hands.run("engine"))
    rows.sighted(place.box, rows.found(container=other, name="database"))
    seen = DiscoveredEngine.from_json(ExternalEngine.objects.get(container_id=other).found)

    assert actions.ask_to_watch(place.box, seen, by=factories.person())
    place.waits_for("the wish is heard", lambda: hands.last_wish().is_over)

    assert hands.last_wish().state == "refused"
    assert "No engine was seen in" in hands.last_wish().said
    assert not Run.objects.exists()


def test_what_docker_starts_again_with_the_box_goes_on(place: ChaosSite, hands: Hands) -> None:
    watcher = place.watcher()
    container = hands.run("with-box", restart_policy={"Name": "always"})
    first = hands.is_ready(hands.watches(container))
    place.kill(watcher)
    booted_at = timezone.now()
    hands.client.restart(container, timeout=GRACE)
    Box.objects.filter(pk=place.box.pk).update(booted_at=booted_at)

    ExternalEngines(place.box).look(None)

    assert (_fresh(first).state, first.failure) == (RunState.STOPPED, "")
    assert first.status_message == "The box was restarted, and its container started again."
    assert hands.next_run(first).container_id == container


def test_a_restart_of_the_box_starts_nothing(place: ChaosSite, hands: Hands) -> None:
    """Its watcher sees a new boot: what was watched and does not run is nobody's failure."""
    watcher = place.watcher()
    container = hands.run("boots", restart_policy={"Name": "always"})
    run = hands.is_ready(hands.watches(container))
    place.kill(watcher)
    hands.client.stop(container, timeout=1)
    later = timezone.now() + timedelta(seconds=1)

    lifecycle.note_boot(place.box, "one", later, seen_before=None)
    lifecycle.note_boot(place.box, "two", later, seen_before=timezone.now())

    assert (_fresh(run).state, run.restart_at) == (RunState.STOPPED, None)
    assert run.status_message.startswith("The box was restarted. Docker starts it again")
    assert not Run.objects.exclude(pk=run.pk).exists()
    # Other tests' engines end on this machine, too.
    left = memory.look_for_orphans(place.box, None)
    assert [each for each in left if each.container == container or each.server] == []
