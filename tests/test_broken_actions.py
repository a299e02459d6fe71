"""What becomes of an action whose thread breaks, by a fault of ours or of the database."""

from collections.abc import Callable

import pytest
from django.db import OperationalError

from servers.lifecycle.external import takeover
from servers.lifecycle.images import work
from servers.lifecycle.jobs import actions
from servers.lifecycle.weights import deletion
from servers.models import Action, Box
from servers.models.jobs.action import ActionKind
from tests import factories

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_redis")]


@pytest.fixture
def box() -> Box:
    return factories.box("rtx8")


def breaks(error: Exception) -> Callable[..., str]:
    def break_(*_args: object, **_named: object) -> str:
        raise error

    return break_


def obey(box: Box) -> Action:
    actions.obey(box, None, lambda _event: None)
    actions.wait_for_threads()
    return Action.objects.latest("pk")


@pytest.mark.parametrize(
    ("kind", "module", "name"),
    [
        (ActionKind.TAKE_OVER, takeover, "take_over"),
        (ActionKind.DELETE, deletion, "delete"),
        (ActionKind.PULL, work, "is_used"),
    ],
)
@pytest.mark.parametrize("error", [KeyError("models"), OperationalError("the server is gone")])
def test_one_whose_thread_breaks_does_not_go_on_for_ever(
    box: Box,
    monkeypatch: pytest.MonkeyPatch,
    kind: ActionKind,
    module: object,
    name: str,
    error: Exception,
) -> None:
    monkeypatch.setattr(module, name, breaks(error))
    Action.objects.create(box=box, kind=kind, what="theirs", target="abc")

    obey(box)
    ended = obey(box)

    assert ended.state == Action.State.REFUSED
    assert ended.said
    assert not actions._aside
