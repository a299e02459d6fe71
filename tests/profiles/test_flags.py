"""The list of flags that the profile form's help and completion go by."""

import re
from typing import Any

import pytest
from django.test import Client

from servers.launch.engines import SERVING
from servers.launch.engines.flaglist import newest
from servers.models import Role
from tests import factories

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]

LARGEST = 120_000  # bytes: it is sent to every open form


@pytest.fixture
def eva() -> Client:
    return factories.log_in(factories.person("eva", Role.EDITOR))


def asked(client: Client, **query: str) -> dict[str, Any]:
    response = client.get("/profiles/flags.json", query)
    assert response.status_code == 200
    assert len(response.content) < LARGEST
    said: dict[str, Any] = response.json()
    return said


def names(said: dict[str, Any]) -> set[str]:
    return {name for flag in said["flags"] for name in (*flag["names"], *flag.get("off", ()))}


def test_an_image_that_names_a_known_version_gets_exactly_its_flags(eva: Client) -> None:
    said = asked(eva, engine="vllm", image="vllm/vllm-openai:v0.20.2")

    assert (said["title"], said["version"], said["is_exact"]) == ("vLLM", "0.20.2", True)
    assert "--max-model-len" in names(said)


@pytest.mark.parametrize("image", ["vllm/vllm-openai:latest", "somebody/vllm:v9", "", "?%"])
def test_another_image_gets_the_newest_list_and_is_told_so(eva: Client, image: str) -> None:
    said = asked(eva, engine="vllm", image=image)

    assert (said["version"], said["is_exact"]) == (newest("vllm").version, False)


def test_what_a_list_does_not_say_of_a_flag_is_lent_by_another_version(eva: Client) -> None:
    said = asked(eva, engine="vllm", image="vllm/vllm-openai:v0.20.2")

    lent = said["lent"]["--kv-cache-dtype"]
    assert lent["version"] != "0.20.2"
    assert "fp8" in (*lent.get("choices", ()), *lent.get("known", ()))
    assert said["env"] is None
    assert "VLLM_LOGGING_LEVEL" in said["lent_env"]["names"]


def test_a_list_that_says_everything_borrows_nothing_about_it(eva: Client) -> None:
    said = asked(eva, engine="sglang", image="lmsysorg/sglang:v0.5.23")

    assert "--kv-cache-dtype" not in said["lent"]
    assert "lent_env" not in said


@pytest.mark.parametrize("engine", SERVING)
def test_every_engine_has_flags_and_its_own_variables(eva: Client, engine: str) -> None:
    said = asked(eva, engine=engine)

    assert len(said["flags"]) > 100
    assert any(name.startswith(tuple(said["env_prefixes"])) for name in said["env"])


@pytest.mark.parametrize("engine", SERVING)
def test_flags_that_inferdash_writes_itself_are_named(eva: Client, engine: str) -> None:
    said = asked(eva, engine=engine)

    assert {"--host", "--port"} < set(said["written"])
    assert set(said["written"]) <= names(said)


@pytest.mark.parametrize("engine", ["", "ollama", "../vllm"])
def test_an_engine_that_does_not_exist_has_none(eva: Client, engine: str) -> None:
    assert eva.get("/profiles/flags.json", {"engine": engine}).status_code == 404


def test_the_form_loads_help_and_completion(eva: Client) -> None:
    page = eva.get("/profiles/new/").content.decode()

    assert re.search(r'<script type="module" src="[^"]*js/profiles/flags/help', page)
    assert re.search(r'<link rel="stylesheet" href="[^"]*css/profiles/flags', page)
