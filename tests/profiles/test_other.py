"""Engine “other”: any container with a port and a path that answers; no model, and no chat."""

from typing import Any

import pytest
from django.test import Client

from servers import lifecycle
from servers.forms.profile import ProfileForm
from servers.host.runs.probes import Endpoint
from servers.judge.profiles.facts import Subject
from servers.judge.profiles.lint import lint
from servers.launch.commandline import export
from servers.launch.commandline.draft import draft
from servers.launch.commandline.paste import read
from servers.launch.engines import ENGINES, other, placement
from servers.launch.engines.launch import Launch
from servers.launch.engines.placement import Site
from servers.launch.recipes import document
from servers.launch.recipes.document import Document
from servers.lifecycle.runs.ownership import require_managed
from servers.models import Box, Profile, Server
from servers.models.runs.run import ManagedServer, RunState
from servers.watcher.runs import probes
from tests import factories
from tests.scripted_engine import ScriptedEngine

ASR = Launch(
    engine="other",
    image="team/parakeet-asr:1",
    checkpoint="",
    flags=("serve", "--workers", "2"),
    env={"LANG": "C"},
    port=9000,
    ready_path="/healthz",
    gpus="none",
)
SITE = Site(home="/home/ada", hf_cache="/home/ada/.cache/huggingface", hf_token="hf_" + "q" * 34)


@pytest.fixture
def box(db: None, own_redis: object) -> Box:
    return factories.box()


@pytest.fixture
def client(box: Box) -> Client:
    return factories.log_in(factories.person())


def server(on: Box) -> ManagedServer:
    profile = Profile.objects.create(slug="asr", name="asr", owner=factories.person())
    profile.save_version(ASR, by=None)
    return require_managed(Server.objects.create(slug="asr", profile=profile, box=on))


def test_it_gets_its_own_words_and_nothing_of_the_box() -> None:
    spec = placement.spec(
        ASR, SITE, name="x", labels={}, host_port=18000, entrypoint=("asr",), kernels_volume="k"
    )

    assert spec.command == ("serve", "--workers", "2")
    assert spec.env == {"LANG": "C"}, "neither the box's token nor variables for engines"
    assert spec.mounts == ()
    assert [(each.container_port, each.host_port) for each in spec.ports] == [(9000, 18000)]


def test_it_is_ready_when_its_path_answers_and_asked_nothing_else() -> None:
    with ScriptedEngine() as api:
        api.answers = {"/healthz": (200, "ok")}
        endpoint = Endpoint(address="127.0.0.1", port=api.port)
        engine = ENGINES["other"]
        path = engine.watched_path(ASR)

        assert probes.probe_start(endpoint, engine, path=path, served_name="").is_ready
        said = probes.probe_status(endpoint, engine, path=path, spare_health=False)

        assert (said.health.name, said.figures, said.requests(engine)) == ("OK", {}, None)
        assert {each["path"] for each in api.headers} == {"/healthz"}
        api.answers = {"/healthz": (503, "loading")}
        assert not probes.probe_start(endpoint, engine, path=path, served_name="").is_ready


def test_no_chat_and_no_rule_of_engines_is_about_it() -> None:
    assert not other.can_chat(ASR)
    assert ENGINES["other"].served_name(ASR) == ""
    assert lint(Subject(launch=ASR)) == []


def test_it_is_written_out_and_read_back() -> None:
    kept = document.write(Document(name="asr", launch=ASR))

    assert document.read(kept, where="x").launch == ASR
    said = export.docker_run(ASR, name="asr")
    assert "HF_TOKEN" not in said
    assert "huggingface" not in said


def test_a_pasted_command_of_any_program_becomes_one() -> None:
    (command,) = read(
        "docker run -d --name asr -p 9000:80 -e ASR_KEY=hush-hush -v /mnt/a:/a:ro team/asr:1 serve"
    )
    made = draft(command, engine="other")

    launch = made.launch
    assert (launch.engine, launch.image, launch.flags) == ("other", "team/asr:1", ("serve",))
    assert (launch.port, launch.host_port, launch.gpus) == (80, 9000, "none")
    assert (launch.volumes, made.secrets) == (("/mnt/a:/a:ro",), {"ASR_KEY": "hush-hush"})
    assert any("path that answers" in each.says for each in made.remarks)


def typed(box: Box, **values: str) -> ProfileForm:
    data: dict[str, Any] = {
        "name": "asr", "box": box.pk, "engine": "other", "image": "team/asr:1", "port": "9000",
        "ready_path": "/healthz", "host_address": "127.0.0.1", "network": "bridge", "gpus": "none",
        "grace": "120", "restart_tries": "2", "checkpoint": "left/over",
    }  # fmt: skip
    return ProfileForm(data | values, person=factories.person())


def test_the_form_wants_a_port_and_a_path_and_no_model(box: Box) -> None:
    form = typed(box)
    assert form.is_valid(), form.errors
    assert form.launch().checkpoint == ""

    assert set(typed(box, port="", ready_path="").errors) == {"port", "ready_path"}
    assert set(typed(box, engine="vllm", checkpoint="", port="").errors) == {"checkpoint"}


def test_its_pages_speak_of_no_model(box: Box, client: Client) -> None:
    factories.run(server(box), RunState.READY, served_name="")

    for path in ("/", "/servers/asr/", "/profiles/asr/", "/profiles/", "/profiles/asr/edit/"):
        told = client.get(path).content.decode()
        assert "/chat/?server=asr" not in told, path
        assert "tok/s</dt>" not in told, path
    assert "/v1/chat" not in client.get("/servers/asr/").content.decode()
    assert 'data-slug="asr"' not in client.get("/chat/").content.decode()
    assert client.get("/profiles/flags.json?engine=other").json()["flags"] == []
    assert client.get("/profiles/asr/export/docker/").status_code == 200
    answer = client.get("/profiles/asr/known/asr/").content.decode()
    assert "Checkpoint" not in answer


def test_its_start_is_queued_as_any_other(box: Box) -> None:
    run = lifecycle.start(server(box), by=factories.person())

    assert run is not None
    assert run.launch == ASR
