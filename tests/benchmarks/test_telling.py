"""People who use a server that is measured are told."""

import pytest
from django.urls import reverse
from django.utils import timezone

from servers.contexts import pages
from servers.lifecycle.benchmarks import commands
from servers.models import Benchmark, BenchmarkJob, Job, Role, User
from servers.models.jobs import JobState
from servers.models.runs.run import ManagedServer
from tests import factories
from tests.cases import Cases

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]

RUNNING = "A check-up is running, started by olaf, about 4 min left. Answers may be slower."


@pytest.fixture
def server() -> ManagedServer:
    made = factories.server(factories.box("rtx8"))
    factories.run(made)
    return made


@pytest.fixture
def checkup(server: ManagedServer) -> Benchmark:
    made = commands.ask(server, "quick", by=factories.person("olaf", Role.OPERATOR))
    found = BenchmarkJob.objects.get()
    found.write(state=JobState.DOING, left=200.0)
    return made


def show(path: str, who: User) -> str:
    return factories.log_in(who).get(path).content.decode()


def test_whoever_uses_the_server_is_told(server: ManagedServer, checkup: Benchmark) -> None:
    viewer = factories.person("vera", Role.VIEWER)
    chatter = factories.person("cleo", Role.CHAT)
    operator = factories.person("olaf", Role.OPERATOR)
    everything: set[pages.Key] = {("everything", None)}
    with Cases() as cases:
        for name, path in [
            ("card", reverse("dashboard")),
            ("page", reverse("server", args=[server.slug])),
            ("log", reverse("server_log", args=[server.slug])),
        ]:
            stop = reverse("benchmark_stop", args=[checkup.pk])
            with cases.named(name):
                assert RUNNING in show(path, viewer)
                assert stop not in show(path, viewer)
                assert stop in show(path, operator)
        with cases.named("playground"):
            assert RUNNING in show(reverse("chat"), operator)
        with cases.named("who only chats"):
            said = show(reverse("chat"), chatter)
            assert RUNNING in said
            assert reverse("benchmark", args=[checkup.pk]) not in said
        for who, page in [(viewer, "dashboard"), (viewer, "server"), (chatter, "chat")]:
            with cases.named(f"live, {page}"):
                assert RUNNING in pages.render(everything, who, page=page, pk=server.pk)
        with cases.named("paused"):
            BenchmarkJob.objects.get().write(is_paused=True)
            said = show(reverse("server", args=[server.slug]), viewer)
            assert "olaf, is paused while people use this server." in said
        with cases.named("over"):
            Job.objects.update(state=JobState.DONE)
            Benchmark.objects.update(ended_at=timezone.now())
            assert "A check-up" not in show(reverse("server", args=[server.slug]), viewer)
