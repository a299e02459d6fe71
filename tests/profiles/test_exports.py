"""A profile taken along and pasted elsewhere is the same profile."""

from typing import Any

import pytest
from django.test import Client

from servers.launch.engines.launch import Launch
from servers.models import Box, Profile, Secret
from tests import factories

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]


@pytest.fixture
def ada() -> Client:
    return factories.log_in(factories.person())


@pytest.fixture
def profile() -> Profile:
    secret = Secret.seal("MY_TOKEN", "hunter2-value", None)
    found = factories.server(
        factories.box(),
        "coder",
        "gpt-oss-120b",
        flags=("--max-model-len", "8192", "--api-key", "key-in-the-open"),
        env={"NCCL_P2P_LEVEL": "SYS"},
        secret_env={"MY_TOKEN": secret.pk},
        reasons={"--max-model-len": "more does not fit"},
        shm_size=16 << 30,
        grace=300,
        ready_path="/health_generate",
        ready_limit=1200,
        free_memory=90 << 30,
        drop_cache=True,
        digests={"/t/chat template.jinja": "ab" * 32},
        restart="on-failure",
        restart_tries=5,
        restart_unhealthy=300,
        start_with_box=True,
        ask_when_ready=False,
        measure_when_ready=True,
        check_answers=True,
        ask_every=600,
        parameters={"context": "8192", "model": "Qwen/Qwen3-8B"},
        log_must=("Capture cuda graph end",),
        log_must_not=("# falling back to", "OOM"),
        hardware="2x RTX PRO 6000",
        expected={"tokens per second": "30-35"},
    ).profile
    Profile.objects.update(notes="A *note*.", tags="moe nvfp4", source="https://example.org/a")
    return found


def exported(client: Client, form: str) -> str:
    answer = client.get(f"/profiles/coder/export/{form}/?download")
    assert answer.status_code == 200
    assert "attachment" in answer["Content-Disposition"]
    return answer.content.decode()


def imported(client: Client, text: str, **changes: Any) -> Profile:
    answer = client.post("/profiles/paste/", {"text": text})
    form = answer.context["form"]
    values = {field.html_name: field.value() for field in form} | {"name": "again"}
    values |= {"box": Box.objects.get().pk, **changes}
    kept = {k: v for k, v in values.items() if v is not None and v is not False}
    answer = client.post("/profiles/new/", kept)
    assert answer.status_code == 302, answer.context["form"].errors
    return Profile.objects.get(slug="again")


def without_secrets(launch: Launch) -> dict[str, Any]:
    said = launch.to_json()
    assert said.pop("secret_env").keys() == {"MY_TOKEN"}
    said["flags"] = said["flags"][:2]
    return said


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_inferdashs_own_forms_hold_all_of_a_profile(
    form: str, ada: Client, profile: Profile
) -> None:
    text = exported(ada, form)

    again = imported(ada, text, env="NCCL_P2P_LEVEL=SYS\nMY_TOKEN=another-value")

    profile.refresh_from_db()
    assert without_secrets(again.launch) == without_secrets(profile.launch)
    assert (again.notes, again.tags, again.source) == (profile.notes, profile.tags, profile.source)


@pytest.mark.parametrize("form", ["docker", "compose", "yaml", "json"])
def test_no_secret_leaves_with_an_export(form: str, ada: Client, profile: Profile) -> None:
    text = exported(ada, form)
    page = ada.get(f"/profiles/coder/export/{form}/").content.decode()

    for each in (text, page):
        assert "MY_TOKEN" in each
        assert "hunter2-value" not in each
        assert "key-in-the-open" not in each


def test_a_mistake_in_a_profiles_yaml_is_told_with_its_line(ada: Client, profile: Profile) -> None:
    text = exported(ada, "yaml").replace("shm_size:", "shmsize:")

    answer = ada.post("/profiles/paste/", {"text": text}).content.decode()

    assert "Did you mean shm_size?" in answer
