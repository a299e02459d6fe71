"""The log of a run that an older database has forgotten, while a watcher follows it."""

import pytest

from servers.host.docker.containers import DockerContainers
from servers.models import LogChunk, Run, Server
from servers.watcher.logs.follower import Follower
from tests import factories
from tests.logs.store import container, stored
from tests.waiting import PATIENCE, wait_until

pytestmark = [
    pytest.mark.docker,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("own_redis"),
]

# Says its last word when it is told to.
WORDS = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: (print("last", flush=True), sys.exit(0)))
print("one", flush=True)
print("two", flush=True)
signal.pause()
"""


def test_what_the_database_has_lost_is_read_again(docker: DockerContainers) -> None:
    run = factories.run(factories.server(factories.box()))
    engine = container(docker, WORDS)
    follower = Follower(run.pk, engine, masks=(), docker=docker)
    follower.start()
    wait_until(lambda: len(stored(run)) == 2, "both lines are stored")

    # As if the database of before the start were put back, and the container adopted.
    LogChunk.objects.filter(run_id=run.pk).delete()
    Server.objects.update(run=None)
    Run.objects.filter(pk=run.pk).write(log__lines=0, log__size=0)
    docker.signal(engine, "SIGTERM")
    follower.join(PATIENCE)

    assert not follower.is_alive()
    assert [line.text for line in stored(run)] == ["one", "two", "last"]
    assert Run.objects.get(pk=run.pk).log.is_complete
