"""The rows of a busy team, and how many queries a page takes; runs where Django is set up."""

from datetime import timedelta

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from servers.launch.engines.launch import Launch
from servers.models import AuditEntry, Box, Profile, Run, Server
from servers.models.runs.run import PARTS, RunState
from tests import factories, samples


def fill(*, servers: int, profiles: int, runs: int) -> None:
    """This many of each and nothing else."""
    factories.clear()
    factories.many(servers)
    _more_profiles(profiles - Profile.objects.count())
    _more_runs(runs - Run.objects.count())
    for profile in Profile.objects.all():
        AuditEntry.note(factories.person(), "create profile", profile)
    found = Server.objects.count(), Profile.objects.count(), Run.objects.count()
    assert found == (servers, profiles, runs), found


def tell_sample() -> None:
    """Redis forgets a box's sample after a minute."""
    cards = [samples.card(index, []) for index in range(8)]
    factories.tell(Box.objects.get(), samples.sample(cards, []))


def count_queries(paths: list[str]) -> dict[str, int]:
    client = Client(headers={"host": "127.0.0.1"})
    client.force_login(factories.person())
    counts = {}
    for path in paths:
        with CaptureQueriesContext(connection) as queries:
            answer = client.get(path)
        assert answer.status_code == 200, (path, answer.status_code)
        counts[path] = len(queries)
    return counts


def _more_profiles(count: int) -> None:
    person = factories.person()
    for number in range(count):
        name = f"kept-for-later-{number:03d}"
        profile = Profile.objects.create(slug=name, name=name, owner=person)
        launch = Launch(engine="vllm", image="vllm/vllm-openai:v0.20.2", checkpoint="Qwen/Qwen3-8B")
        profile.save_version(launch, by=person, message="First version")


def _more_runs(count: int) -> None:
    """Ended runs, evenly among the servers, older than the newest of each."""
    person, now = factories.person(), timezone.now()
    servers = list(Server.objects.select_related("profile__current"))
    made = []
    for number in range(count):
        server = servers[number % len(servers)]
        assert server.profile.current is not None
        clicked = now - timedelta(hours=3 + number // len(servers))
        made.append(
            Run.build(
                server=server,
                version=server.profile.current,
                state=RunState.FAILED if number % 7 == 0 else RunState.STOPPED,
                started_by=person,
                stopped_by=person,
                created_at=clicked,
                started_at=clicked + timedelta(seconds=9),
                ready_at=clicked + timedelta(seconds=200),
                moved_at=clicked + timedelta(minutes=40),
                ended_at=clicked + timedelta(minutes=40),
                log__is_complete=True,
            )
        )
    Run.objects.bulk_create(made, batch_size=200)
    for name, table in PARTS.items():
        parts = [getattr(run, name) for run in made]
        for run, part in zip(made, parts, strict=True):
            part.run = run
        table._default_manager.bulk_create(parts, batch_size=200)
