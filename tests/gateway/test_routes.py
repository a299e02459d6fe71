"""Which servers the gateway knows, from rows."""

import pytest
from django.conf import settings

from servers.gateway.routes import look
from servers.models import Server
from servers.models.run import State
from tests import factories

pytestmark = pytest.mark.django_db


def watched(state: State) -> Server:
    made = factories.server(factories.box(settings.BOX), "speech-llm")
    Server.objects.filter(pk=made.pk).update(watches={"command": "vllm serve", "user": "ben"})
    factories.run(made, state, is_watched=True, served_name="Qwen3", started_by=None)
    return made


def test_what_is_only_watched_is_asked_by_its_name_like_any_other(own_redis: None) -> None:
    watched(State.READY)

    (route,), absences = look()

    assert route.names == ("Qwen3", "speech-llm", "Qwen/Qwen3-8B")
    assert absences == []


def test_what_is_only_watched_and_not_running_is_started_by_no_request(own_redis: None) -> None:
    watched(State.STOPPED)

    routes, (absence,) = look()

    assert (routes, absence.may_start) == ([], False)
    assert absence.says == "speech-llm is not running, and is started by whoever else runs it."
