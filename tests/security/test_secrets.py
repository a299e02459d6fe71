import json
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest
from django.conf import settings as configured
from django.test import Client

from inferdash.urls import handler400, handler403
from servers.lifecycle.runs import starts
from servers.models import Run, Secret
from servers.models.people.key import MASK, SecretError, _fernet, mask
from servers.watcher.logs.writer import secrets_pattern
from servers.watcher.runs.runs import Runs
from tests import factories

assert handler400


assert handler403


# Secrets


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("token=hf_AbCd/12+x", f"token={MASK}"),
        ("?token=hf_AbCd%2F12%2Bx", f"?token={MASK}"),
        ("hf_AbCd/12+xhf_AbCd/12+x", MASK + MASK),
        ("hf_AbCd/12", "hf_AbCd/12"),
        ("", ""),
    ],
)
def test_a_secret_is_masked_wherever_it_stands(text: str, masked: str) -> None:
    assert mask(text, ["hf_AbCd/12+x"]) == masked


def test_a_secret_is_masked_in_json_and_in_a_python_error() -> None:
    secret = 'pass"word\\with é'

    for text in (json.dumps({"key": secret}), repr({"key": secret}), secret):
        assert secret not in mask(text, [secret])
        assert "word" not in mask(text, [secret])


def test_every_line_of_a_secret_is_masked_by_itself() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBg\r\n  k3xAoIBAQ==\n"

    assert mask("line 2: MIIEvQIBADANBg; line 3: k3xAoIBAQ==", [key]) == (
        f"line 2: {MASK}; line 3: {MASK}"
    )


def test_logs_are_masked_like_everything_else() -> None:
    value = 'p@ss"word/\u00e9'
    pattern = secrets_pattern([value])
    assert pattern

    for shape in (value, json.dumps(value), quote(value, safe=""), repr(value)):
        assert pattern.sub(b"", shape.encode()).strip(b"\"'") == b"", shape


@pytest.mark.parametrize(
    "flags",
    [
        ("--api-key", "sk-of-the-team"),
        ("--api-key=sk-of-the-team",),
        ("--api_key", "other", "sk-of-the-team", "--port", "1"),
        ("--api-key", "sk-other,sk-of-the-team"),
        ("--hf-token", "sk-of-the-team"),
    ],
)
def test_a_key_among_the_flags_is_masked_in_what_is_shown(
    flags: tuple[str, ...], client: Client
) -> None:
    server = factories.server(factories.box(), flags=flags)
    run = factories.run(server)
    launch = replace(server.profile.launch, flags=("--seed", "1", *flags))
    server.profile.save_version(launch, by=None)
    server.profile.save_version(replace(launch, flags=(*flags, "--seed", "1")), by=None)
    server.profile.save_version(replace(launch, flags=()), by=None)
    server.profile.save_version(replace(launch, flags=flags), by=None)

    for address in ("", "versions/3/", "versions/4/", "versions/5/"):
        page = client.get(f"/profiles/{server.profile.slug}/{address}")
        assert page.status_code == 200
        assert "of-the-team" not in page.content.decode(), address
    assert "of-the-team" not in starts.mask_secrets(run, "api_key: ['sk-of-the-team']")


def test_a_replaced_secret_stays_masked_in_what_the_container_prints(client: Client) -> None:
    old = Secret.seal("MY_TOKEN", "the-old-value", None)
    token = Secret.seal("HF_TOKEN", "hf_the_boxs_old_one", None)
    box = factories.box(hf_token=token)
    run = factories.run(factories.server(box, secret_env={"MY_TOKEN": old.pk}))
    starts.remember(run, starts.site(run))

    old.replace("the-new-value", None)
    token.delete()
    run.refresh_from_db()

    assert b"the-old-value" not in bytes(run.plan.sealed_secrets or b"")
    text = starts.mask_secrets(run, "the-old-value the-new-value hf_the_boxs_old_one")
    assert text == f"{MASK} {MASK} {MASK}"

    runs = Runs(box)
    runs.forget_secrets()
    assert Run.objects.exclude(plan__sealed_secrets=None).count() == 1
    Run.objects.write(state="stopped", log__is_complete=True)
    runs.forget_secrets()
    assert Run.objects.exclude(plan__sealed_secrets=None).count() == 0


def test_an_engine_is_asked_with_the_key_that_it_was_started_with(client: Client) -> None:
    key = Secret.seal("VLLM_API_KEY", "the-old-key", None)
    box, env = factories.box(), {"VLLM_API_KEY": key.pk}
    running = factories.run(factories.server(box, "one", secret_env=env), address="::1", port=8000)
    starts.remember(running, starts.site(running))
    key.replace("the-new-key", None)
    new = factories.run(factories.server(box, "two", secret_env=env), address="::1", port=8001)

    endpoints = map(starts.find_endpoint, Run.objects.order_by("pk"))
    keys = [each.key for each in endpoints if each]

    assert keys == ["the-old-key", "the-new-key"]
    new.plan.sealed_secrets = _fernet().encrypt(json.dumps(["from an earlier release"]).encode())
    endpoint = starts.find_endpoint(new)
    assert endpoint is not None
    assert endpoint.key == "the-new-key"
    assert starts.mask_secrets(new, "from an earlier release") == MASK


def test_one_lost_secret_does_not_unmask_the_others(client: Client) -> None:
    lost = Secret.seal("MY_TOKEN", "lost-value", None)
    other = Secret.seal("OTHER_KEY", "other-value", None)
    launch = {"MY_TOKEN": lost.pk, "OTHER_KEY": other.pk}
    run = factories.run(factories.server(factories.box(), secret_env=launch))
    lost.delete()

    assert starts.mask_secrets(run, "other-value") == MASK


def test_of_two_secrets_that_begin_alike_both_are_masked_whole() -> None:
    assert mask("hf_abcdef hf_abc", ["hf_abc", "hf_abcdef"]) == f"{MASK} {MASK}"


@pytest.mark.parametrize("value", ["", "abc", "\n", " a "])
def test_what_is_too_short_to_be_a_secret_hides_nothing(value: str) -> None:
    assert mask("abc a\nabc", [value]) == "abc a\nabc"


def test_a_secret_of_another_key_says_what_to_do(db: None, settings: Any) -> None:
    secret = Secret.seal("HF_TOKEN", "hf_one_value", None)
    settings.SECRETS_KEY = "A" * 43 + "="
    _fernet.cache_clear()

    with pytest.raises(SecretError, match="secrets.key there is not the one"):
        secret.reveal()

    _fernet.cache_clear()


def test_keys_are_the_owners_alone() -> None:
    for name in ("secrets.key", "django.key"):
        assert (configured.DATA / name).stat().st_mode & 0o077 == 0
    assert configured.DATA.stat().st_mode & 0o077 == 0
