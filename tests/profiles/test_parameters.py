"""One profile for a table of models: named parameters, with values of each server's own."""

from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from servers import lifecycle
from servers.judge.profiles.facts import Subject
from servers.judge.profiles.lint import lint
from servers.launch.commandline import export, text_boxes
from servers.launch.commandline.text_boxes import WordsError
from servers.launch.engines.change import compare_launches
from servers.launch.engines.launch import Launch, fill_parameters
from servers.launch.recipes.document import read
from servers.models import AuditEntry, Box, Role, Server
from servers.models.runs.run import ManagedServer, RunState
from tests import factories

TABLE = Launch(
    engine="vllm",
    image="vllm/vllm-openai:v0.20.2",
    checkpoint="{{model}}",
    served_name="{{ model }}",
    flags=("--max-model-len", "{{context}}", "--x={{context}},{{context}}"),
    env={"MODEL": "{{model}}"},
    volumes=("/{{model}}:/m",),
    parameters={"model": "Qwen/Qwen3-8B", "context": "32768"},
)


def test_a_server_s_values_come_before_the_profiles() -> None:
    filled = fill_parameters(TABLE, {"model": "zai-org/GLM-5", "gone": "x"})

    assert filled.checkpoint == filled.served_name == filled.env["MODEL"] == "zai-org/GLM-5"
    assert filled.flags == ("--max-model-len", "32768", "--x=32768,32768")


def test_a_value_stays_in_its_word_and_is_not_read_again() -> None:
    filled = fill_parameters(TABLE, {"context": "8192 --trust-remote-code {{model}}"})

    assert filled.flags[1] == "8192 --trust-remote-code {{model}}"
    assert len(filled.flags) == len(TABLE.flags)


def test_what_the_container_gets_of_its_box_takes_no_parameters() -> None:
    assert fill_parameters(TABLE).volumes == ("/{{model}}:/m",)


def test_a_chat_template_is_left_alone() -> None:
    template = "{% for m in messages %}{{ m.content }}{{ messages }}{% endfor %}"
    launch = Launch(engine="vllm", image="x", checkpoint="y", flags=("--chat-template", template))

    assert fill_parameters(launch, {"messages": "no"}) == launch


@pytest.mark.parametrize("text", ["context", "a-b=1", "1a=2", "x=" + "y" * 301, "a=\x07"])
def test_names_and_values_are_checked(text: str) -> None:
    with pytest.raises(WordsError):
        text_boxes.parameters(text)


def test_the_form_reads_a_value_to_its_end() -> None:
    assert text_boxes.parameters("model = a/b \n# why\n\ncontext=--x=1") == {
        "model": "a/b",
        "context": "--x=1",
    }


def test_the_check_sees_the_values() -> None:
    wrong = Launch(
        engine="vllm",
        image="vllm/vllm-openai:v0.20.2",
        checkpoint="a/b",
        flags=("{{flag}}", "4096"),
        parameters={"flag": "--max-modle-len"},
    )

    assert any("--max-model-len" in each.says for each in lint(Subject(launch=wrong)))


def test_docker_run_is_exported_with_the_profiles_values_and_says_which() -> None:
    text = export.docker_run(TABLE)

    assert "# {{model}}: Qwen/Qwen3-8B\n" in text
    assert "--max-model-len 32768" in text


def test_a_changed_value_is_a_difference() -> None:
    other = Launch(**{**TABLE.__dict__, "parameters": {"model": "Qwen/Qwen3-8B", "context": "1"}})

    [found] = compare_launches(TABLE, other)

    assert (found.name, found.after) == ("parameters", "model=Qwen/Qwen3-8B\ncontext=1")


def test_the_documented_example_is_one() -> None:
    text = (Path(__file__).parents[2] / "docs/profiles.md").read_text()
    example = text.split("## Parameters")[1].split("```yaml\n")[1].split("```")[0]

    launch = fill_parameters(read(example, where="docs").launch)

    assert launch.checkpoint == "Qwen/Qwen3-8B"
    assert launch.flags == ("--max-model-len", "32768")


# Servers


@pytest.fixture
def server(box: Box) -> ManagedServer:
    values = {f: getattr(TABLE, f) for f in ("checkpoint", "flags", "parameters")}
    return factories.server(box, "table", "gpt-oss-120b", **values)


def browser(role: Role = Role.EDITOR) -> Client:
    return factories.log_in(factories.person(f"a-{role.label}", role))


pages = pytest.mark.usefixtures("own_redis", "db")


def place(client: Client, **values: str) -> Any:
    return client.post("/profiles/table/place/", {"box": "rtx8", **values})


@pages
def test_one_profile_has_several_servers_on_a_box_each_with_its_values(
    server: ManagedServer,
) -> None:
    place(browser(), **{"value-model": "zai-org/GLM-5", "value-context": "32768"})

    made = Server.objects.get(slug="table-glm-5")
    assert made.values == {"model": "zai-org/GLM-5"}, "the profile's own value is not repeated"
    assert made.launch.checkpoint == "zai-org/GLM-5"
    page = browser(Role.VIEWER).get("/profiles/table/").content.decode()
    assert "model=zai-org/GLM-5" in page
    assert "--max-model-len 32768" in page
    assert "v0.20.2 zai-org/GLM-5" in page.replace("\\\n", "")


@pages
def test_without_values_a_box_gets_one_server(server: ManagedServer) -> None:
    place(browser())

    assert Server.objects.count() == 1


@pages
def test_values_count_from_the_next_start_on_and_the_run_keeps_them(server: ManagedServer) -> None:
    client = browser()
    client.post("/servers/table/values/", {"value-model": "a/small", "value-context": ""})
    server.refresh_from_db()
    run = lifecycle.start(server, by=None)
    assert run is not None
    client.post("/servers/table/values/", {"value-model": "a/large"})

    run.refresh_from_db()
    assert run.launch.checkpoint == "a/small"
    assert Server.objects.get().launch.checkpoint == "a/small", "what runs now"
    type(run).objects.filter(pk=run.pk).update(state=RunState.STOPPED)
    assert Server.objects.get().launch.checkpoint == "a/large"
    repeated = lifecycle.start(Server.objects.filter_managed().get(), by=None, like=run)
    assert repeated is not None
    assert repeated.launch.checkpoint == "a/small"
    assert AuditEntry.objects.filter(action="set parameters").count() == 2


@pages
def test_a_value_that_cannot_be_one_is_refused(server: ManagedServer) -> None:
    assert browser().post("/servers/table/values/", {"value-model": "a\x07"}).status_code == 400


@pages
def test_values_of_a_privileged_profile_are_an_admins(box: Box) -> None:
    of = factories.server(box, "table", privileged=True, parameters={"model": "a/b"})

    refused = browser().post("/servers/table/values/", {"value-model": "evil/code"})

    assert refused.status_code == 403
    assert place(browser(), **{"value-model": "evil/code"}).status_code == 403
    of.refresh_from_db()
    assert of.values == {}
    browser(Role.ADMIN).post("/servers/table/values/", {"value-model": "good/code"})
    of.refresh_from_db()
    assert of.values == {"model": "good/code"}
