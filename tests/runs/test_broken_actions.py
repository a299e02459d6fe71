"""What becomes of an action whose thread breaks, by a fault of ours or of the database."""

from collections.abc import Callable

import pytest
from django.db import OperationalError

from servers.lifecycle.external import takeover
from servers.lifecycle.weights import deletion
from servers.models import Box, Job
from servers.models.jobs import JobKind
from tests import jobs

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_redis")]


def breaks(error: Exception) -> Callable[..., str]:
    def break_(*_args: object, **_named: object) -> str:
        raise error

    return break_


def obey(box: Box) -> Job:
    jobs.obey(box)
    return Job.objects.latest("pk")


@pytest.mark.parametrize(
    ("kind", "module", "name"),
    [
        (JobKind.TAKE_OVER, takeover, "take_over"),
        (JobKind.DELETE, deletion, "delete"),
    ],
)
@pytest.mark.parametrize("error", [KeyError("models"), OperationalError("the server is gone")])
def test_one_whose_thread_breaks_does_not_go_on_for_ever(
    box: Box,
    monkeypatch: pytest.MonkeyPatch,
    kind: JobKind,
    module: object,
    name: str,
    error: Exception,
) -> None:
    monkeypatch.setattr(module, name, breaks(error))
    Job.objects.create(box=box, kind=kind, what="theirs", target="abc")

    obey(box)
    ended = obey(box)

    assert ended.state == Job.State.REFUSED
    assert ended.said
