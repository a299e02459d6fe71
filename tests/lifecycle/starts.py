from servers import lifecycle
from servers.host.docker.containers import DockerContainers
from servers.models.runs.run import ManagedRun, ManagedServer
from tests import factories


def started(server: ManagedServer) -> ManagedRun:
    run = lifecycle.start(server, by=factories.person())
    assert run is not None
    lifecycle.advance(run)
    run.refresh_from_db()
    return run


def wait_until_ended(docker: DockerContainers, run: ManagedRun) -> None:
    for _line in docker.logs(run.container_id, follow=True):
        pass
