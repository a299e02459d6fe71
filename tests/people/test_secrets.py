import re
from dataclasses import replace

import pytest
from django.urls import reverse

from servers.models import Box, Run, Secret, User
from servers.models.runs.run import RunState
from tests import factories
from tests.people.desk import as_, said

# Secrets and boxes


def test_a_secret_goes_in_and_never_comes_out(ada: User) -> None:
    client = as_(ada)
    value = "hf_QwErTyUiOpAsDf"

    pages = [
        client.post(reverse("secret_add"), {"name": "HF_TOKEN", "value": value}, follow=True),
        client.post(reverse("secret_add"), {"name": "not a name", "value": value}),
        client.get("/settings/secrets/"),
        client.get("/settings/boxes/"),
        client.get("/activity/"),
    ]

    assert Secret.objects.get().reveal() == value
    assert value.encode() not in bytes(Secret.objects.get().sealed)
    assert "Write it as a variable" in said(pages[1])
    assert all(value not in page.content.decode() for page in pages)


def test_tokens_of_one_name_are_told_apart_where_a_box_gets_one(ada: User) -> None:
    of_profile = Secret.seal("HF_TOKEN", "hf_of_a_profile", ada)
    factories.server(factories.box("rtx8"), "qwen3-8b", secret_env={"HF_TOKEN": of_profile.pk})

    typed = {"name": "HF_TOKEN", "value": "hf_of_the_box"}
    response = as_(ada).post(reverse("secret_add"), typed, follow=True)

    assert "Choose it on the page of each box" in said(response)
    page = as_(ada).get("/settings/boxes/rtx8/").content.decode()
    (mine, theirs) = re.findall(r"<option[^>]*>(HF_TOKEN, added [^<]+)</option>", page)
    assert theirs.endswith(" by ada, used by qwen3-8b")
    assert mine.endswith(" by ada")


@pytest.mark.parametrize("name", ["# x", "export HF_TOKEN", "A=B", "A\nB=c", "1A", " "])
def test_a_secrets_name_is_a_variables(name: str, ada: User) -> None:
    as_(ada).post(reverse("secret_add"), {"name": name, "value": "hf_abcdefgh"})

    assert not Secret.objects.exists()


def test_a_secret_too_short_to_be_masked_is_refused(ada: User) -> None:
    response = as_(ada).post(reverse("secret_add"), {"name": "PIN", "value": "1234567"})

    assert "at least 8 characters" in said(response)
    assert not Secret.objects.exists()


def test_a_secret_is_replaced(ada: User) -> None:
    secret = Secret.seal("HF_TOKEN", "hf_the_old_one", ada)

    as_(ada).post(reverse("secret_replace", args=[secret.pk]), {"value": "hf_the_new_one"})

    secret.refresh_from_db()
    assert secret.reveal() == "hf_the_new_one"


def test_a_secret_in_use_is_not_deleted(ada: User) -> None:
    used, idle = Secret.seal("HF_TOKEN", "hf_one_value", ada), Secret.seal("B", "hf_two_value", ada)
    box = factories.box("rtx8", hf_token=used)
    factories.server(box, "qwen3-8b", secret_env={"KEY": idle.pk})

    response = as_(ada).post(reverse("secret_delete", args=[used.pk]), follow=True)
    assert "HF_TOKEN is used by rtx8" in said(response)
    response = as_(ada).post(reverse("secret_delete", args=[idle.pk]), follow=True)
    assert "B is used by qwen3-8b" in said(response)
    assert Secret.objects.count() == 2

    Box.objects.update(hf_token=None)
    as_(ada).post(reverse("secret_delete", args=[used.pk]))
    assert Secret.objects.get() == idle


def test_a_secret_that_runs_in_an_earlier_version_is_not_deleted(ada: User) -> None:
    """Its engine asks callers for it: nobody could ask it anything any more."""
    secret = Secret.seal("VLLM_API_KEY", "sk-one-value", ada)
    server = factories.server(factories.box(), "coder", secret_env={"VLLM_API_KEY": secret.pk})
    run = factories.run(server)
    without = replace(server.profile.launch, secret_env={})
    server.profile.save_version(without, by=ada)

    response = as_(ada).post(reverse("secret_delete", args=[secret.pk]), follow=True)

    assert "VLLM_API_KEY is used by coder as it runs now" in said(response)
    assert Secret.objects.get() == secret
    Run.objects.filter(pk=run.pk).update(state=RunState.STOPPED)
    as_(ada).post(reverse("secret_delete", args=[secret.pk]))
    assert not Secret.objects.exists()
