"""The profile form as a page: what an import says of itself, and what its sections say is set."""

from typing import Any

import pytest
from django.test import Client

from servers.forms.profile import ProfileForm
from servers.models import Box, Profile, Role
from tests import factories

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]


@pytest.fixture
def eva(box: Box) -> Client:
    return factories.log_in(factories.person("eva", Role.EDITOR))


def imported(client: Client, text: str) -> Any:
    return client.post("/profiles/paste/", {"text": text}).context["imported"]


def test_an_import_is_told_in_one_line(eva: Client) -> None:
    text = (
        "docker run -d --gpus all --shm-size 16g vllm/vllm-openai:v0.20.2 a/b --max-model-len 8192"
    )

    found = imported(eva, text)

    assert found.source == "docker run … vllm/vllm-openai:v0.20.2"
    # Image, GPUs, shared memory, model, one flag; -d has no place here.
    assert found.counts.startswith("5 options read")
    assert found.counts.endswith("1 left out")


def test_a_name_that_is_taken_gets_a_number(eva: Client, box: Box) -> None:
    factories.server(box, "coder")
    text = "docker run --gpus all --name coder vllm/vllm-openai:v0.20.2 a/b"

    form = eva.post("/profiles/paste/", {"text": text}).context["form"]

    assert form.initial["name"] == "coder 2"


def test_a_section_says_what_is_set_in_it_and_no_secret(box: Box) -> None:
    flags = "--api-key sesame --max-model-len 8192"
    typed = {"flags": flags, "env": "HF_TOKEN=hf_abc\nA=b", "init": "", "volumes": "a:/a\nb:/b"}
    form = ProfileForm(typed, person=factories.person())
    said = {each.title: (each.summary, each.count) for each in form.sections()}

    assert said["Engine flags"] == ("--api-key (secret), --max-model-len 8192", "2 set")
    assert said["Environment"][0].startswith("HF_TOKEN (secret), A=b")
    assert "volumes (2)" in said["Files and network"][0]
    empty = {each.title: each for each in ProfileForm(person=factories.person()).sections()}
    assert {each.count for each in empty.values()} == {"default"}
    assert empty["Model"].summary == "revision, served model name, model aliases"


def test_save_and_start_begins_the_start_on_the_server_s_page_once(eva: Client, box: Box) -> None:
    values = {"name": "Coder", "box": box.pk, "engine": "vllm", "image": "x:1", "checkpoint": "a/b"}
    values |= {"gpus": "all", "network": "bridge", "host_address": "127.0.0.1"}
    values |= {"grace": 120, "restart_tries": 2, "start": "yes"}

    saved = eva.post("/profiles/new/", values)

    assert saved.headers["Location"] == "/servers/coder/"
    assert Profile.objects.get().slug == "coder"
    begins = 'hx-post="/servers/coder/start/" hx-trigger="load"'
    assert begins in eva.get("/servers/coder/").content.decode()
    assert begins not in eva.get("/servers/coder/").content.decode()
