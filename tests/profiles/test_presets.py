import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from servers.forms import environment as form
from servers.launch.engines.launch import Launch
from servers.launch.engines.sampling import describe_defaults
from servers.models import Preset, Role, Server, User
from tests import factories

VALUES = {"params": {"temperature": "0.3"}, "tools": None, "schema": {"mode": "json"}}


@pytest.fixture
def server(db: None) -> Server:
    return factories.server(factories.box())


@pytest.fixture
def ada(server: Server) -> Client:
    return client_of("grace")


def client_of(name: str) -> Client:
    return factories.log_in(User.objects.create(username=name, role=Role.OPERATOR))


def save(client: Client, server: Server, name: str, **values: Any) -> Any:
    body = json.dumps({"name": name, "values": VALUES | values})
    return client.post(
        reverse("presets", args=[server.slug]), data=body, content_type="application/json"
    )


def test_a_preset_is_the_teams(ada: Client, server: Server) -> None:
    save(ada, server, " careful ")

    (found,) = client_of("lin").get(reverse("presets", args=[server.slug])).json()["presets"]

    assert {key: found[key] for key in ("name", "by", *VALUES)} == {
        "name": "careful", "by": "grace", **VALUES,
    }  # fmt: skip


def test_a_second_save_under_a_name_overwrites_the_first(ada: Client, server: Server) -> None:
    save(ada, server, "careful")

    save(client_of("lin"), server, "careful", params={"temperature": "0.4"})

    preset = Preset.objects.get()
    assert preset.values["params"] == {"temperature": "0.4"}
    assert preset.by is not None
    assert preset.by.username == "lin"


def test_presets_are_of_one_profile(ada: Client, server: Server) -> None:
    save(ada, server, "careful")
    other = factories.server(server.box, "glm-5")
    pk = Preset.objects.get().pk

    assert ada.get(reverse("presets", args=[other.slug])).json()["presets"] == []
    assert ada.post(reverse("preset_delete", args=[other.slug, pk])).status_code == 404
    assert ada.post(reverse("preset_delete", args=[server.slug, pk])).status_code == 204
    assert not Preset.objects.exists()


@pytest.mark.parametrize("name", ["", "  ", "x" * 61])
def test_a_preset_needs_a_name(ada: Client, server: Server, name: str) -> None:
    answer = save(ada, server, name)

    assert answer.status_code == 400
    assert "1 to 60 characters" in answer.json()["message"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"{", "not JSON"),
        (b"[]", "no parameters"),
        (b" " * (form.LIMIT + 1), "larger than 256 KiB"),
    ],
)
def test_what_is_no_preset_is_said(text: bytes, said: str) -> None:
    with pytest.raises(form.PresetError, match=said):
        form.read_preset(text)


def test_there_is_an_end_to_presets(
    ada: Client, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(form, "MOST", 1)
    save(ada, server, "careful")

    assert "Delete one first" in save(ada, server, "bold").json()["message"]
    assert save(ada, server, "careful").status_code == 200


@pytest.mark.parametrize(
    ("engine", "flags", "said"),
    [
        ("vllm", (), "the model’s own generation_config.json"),
        ("vllm", ("--generation-config", "vllm"), "vLLM’s own defaults, not those"),
        ("vllm", ("--generation-config", "/mnt/g"), "generation_config.json in /mnt/g"),
        ("vllm", ('--override-generation-config={"top_k": 20}',), 'change that to {"top_k": 20}'),
        ("sglang", (), "the model’s own generation_config.json"),
        ("sglang", ("--sampling-defaults", "openai"), "SGLang’s own defaults"),
        ("llamacpp", (), "llama.cpp’s own defaults"),
    ],
)
def test_what_the_engine_samples_with_is_said(
    engine: str, flags: tuple[str, ...], said: str
) -> None:
    assert said in describe_defaults(Launch(engine=engine, image="i", checkpoint="c", flags=flags))


def test_an_engine_that_nobody_knows_is_said_nothing_of() -> None:
    assert describe_defaults(Launch(engine="other", image="i", checkpoint="")) == ""
