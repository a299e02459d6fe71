"""The profile of what is only watched tells of no start that inferdash has made."""

import pytest

from servers.lifecycle.profiles import attempts, checks
from servers.lifecycle.profiles.knowledge import LaunchContext
from servers.models import Box, Run
from servers.models.runs.run import RunState
from tests import factories
from tests.external.monitoring import rows

pytestmark = pytest.mark.django_db


@pytest.fixture
def box(own_redis: object) -> Box:
    return factories.box("rtx8")


@pytest.mark.parametrize("is_watched", [True, False])
def test_a_start_is_claimed_by_who_made_it(box: Box, is_watched: bool) -> None:
    if is_watched:
        run: Run = rows.watched(box, peak_memory=60 * 2**30)
    else:
        run = factories.run(factories.server(box), peak_memory=60 * 2**30)
    profile = run.server.profile
    client = factories.log_in(factories.person())

    found = attempts.compute_record(profile)
    page = client.get(f"/profiles/{profile.slug}/").content.decode()

    assert (found.starts, found.ready) == ((0, 0) if is_watched else (1, 1))
    assert ("Starts that worked" in page) is not is_watched
    assert "60.0 GiB" in page, "what it holds was seen all the same"
    start = LaunchContext(profile.launch, box, profile)
    assert (checks.find_last_good_run(start) is None) is is_watched


def test_a_life_of_others_that_failed_is_no_start_of_ours(box: Box) -> None:
    run = rows.watched(box, state=RunState.FAILED, saw_start=True)

    assert attempts.compute_record(run.server.profile).starts == 0
