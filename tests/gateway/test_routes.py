"""Which servers the gateway knows, from rows."""

import pytest
from django.conf import settings

from servers.gateway.routes import look
from servers.models import Secret, Server
from servers.models.runs.run import RunState
from tests import factories

pytestmark = pytest.mark.django_db


def watched(state: RunState) -> Server:
    made = factories.server(factories.box(settings.BOX), "speech-llm")
    Server.objects.filter(pk=made.pk).update(watches={"command": "vllm serve", "user": "ben"})
    factories.external_run(made, state, served_name="Qwen3")
    return made


def test_what_is_only_watched_is_asked_by_its_name_like_any_other(own_redis: None) -> None:
    watched(RunState.READY)

    (route,), absences = look()

    assert route.names == ("Qwen3", "speech-llm", "Qwen/Qwen3-8B")
    assert absences == []


def test_what_is_only_watched_and_not_running_is_started_by_no_request(own_redis: None) -> None:
    watched(RunState.STOPPED)

    routes, (absence,) = look()

    assert (routes, absence.may_start) == ([], False)
    assert absence.says == "speech-llm is not running, and is started by whoever else runs it."


@pytest.mark.parametrize("how", ["deleted", "sealed with another key", "without its value"])
def test_a_key_that_cannot_be_read_takes_no_other_server_along(own_redis: None, how: str) -> None:
    box = factories.box(settings.BOX)
    secret = Secret.seal("VLLM_API_KEY", "sk-1", None)
    locked = factories.server(box, "locked", secret_env={"VLLM_API_KEY": secret.pk})
    factories.run(locked, served_name="Locked")
    factories.run(factories.server(box, "open"), served_name="Open")
    if how == "deleted":
        secret.delete()
    else:
        sealed = b"" if how == "without its value" else b"no token of ours"
        Secret.objects.filter(pk=secret.pk).update(sealed=sealed)

    routes, _absences = look()

    assert {route.server: route.endpoint.key for route in routes} == {"locked": "", "open": ""}
