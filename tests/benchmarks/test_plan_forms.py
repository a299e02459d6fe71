"""Forms of check-ups: an editor's own points, a replay's hour."""

from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from servers.forms.benchmarks import CustomForm
from servers.judge.benchmarks.custom import CustomPoints
from servers.models import Benchmark, BenchmarkJob, Request, Role
from servers.models.runs.run import ManagedServer
from tests import factories
from tests.cases import Cases

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]

USUAL = {
    "prompts": "500, 4000", "output": "128", "people": "1, 8", "rates": "", "rounds": "3",
    "seconds": "20",
}  # fmt: skip
WRONG: list[tuple[dict[str, str], str, str]] = [
    ({"prompts": "many"}, "prompts", "Write whole numbers with commas between, such as 500, 4000."),
    ({"prompts": "500.5"}, "prompts", "Write whole numbers with commas between"),
    ({"prompts": ""}, "prompts", "required"),
    ({"people": "1,2,3,4,5,6,7,8,9"}, "people", "Write at most 8 numbers."),
    ({"people": "0"}, "people", "Write numbers from 1 to 256."),
    ({"rates": "nan", "people": ""}, "rates", "Write numbers from 0.01 to 100."),
    ({"rates": "2"}, "rates", "leave the other one empty"),
    ({"people": ""}, "people", "Fill in people at once or requests a second"),
    ({"rounds": "10", "seconds": "300"}, "__all__", "4 points take 200 minutes"),
]


@pytest.fixture
def server() -> ManagedServer:
    made = factories.server(factories.box("rtx8"))
    factories.run(made)
    return made


def test_what_is_wrong_is_said_where_it_stands() -> None:
    with Cases() as cases:
        for values, field, said in WRONG:
            with cases.named(f"{values}"):
                form = CustomForm(USUAL | values)
                assert not form.is_valid()
                assert list(form.errors) == [field]
                assert said in form.errors[field][0]
    assert CustomForm(USUAL).is_valid()


def test_points_of_ones_own_are_asked_for(server: ManagedServer) -> None:
    eve = factories.log_in(factories.person("eve", Role.EDITOR))
    path = reverse("server_checkup_custom", args=[server.slug])

    wrong = eve.post(path, USUAL | {"prompts": "many"})
    right = eve.post(path, USUAL | {"people": "", "rates": "0.5, 2", "insists": "on"})

    assert "Write whole numbers" in wrong.content.decode()
    assert 'value="many"' in wrong.content.decode()
    made = Benchmark.objects.get()
    assert right["Location"] == reverse("benchmark", args=[made.pk])
    job = BenchmarkJob.objects.get()
    assert not job.gives_way
    points = CustomPoints.from_json(job.custom)
    assert (points.prompts, points.people, points.rates) == ((500, 4000), (), (0.5, 2.0))
    assert "is under way" in eve.post(path, USUAL).content.decode()


def test_a_replay_is_of_an_hour_that_had_requests(server: ManagedServer) -> None:
    olaf = factories.log_in(factories.person("olaf", Role.OPERATOR))
    path = reverse("server_checkup_replay", args=[server.slug])
    assert "No requests to repeat." in olaf.get(path).content.decode()
    hour = timezone.now().replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
    usual: dict[str, Any] = {
        "server": server.slug, "path": "/v1/chat/completions", "status": 200, "duration": 1.0,
        "prompt_tokens": 100, "completion_tokens": 10,
    }  # fmt: skip
    for minute in (1, 2):
        Request.objects.create(at=hour + timedelta(minutes=minute), **usual)
    Request.objects.create(at=hour - timedelta(minutes=5), **usual | {"status": 500})

    page = olaf.get(path)
    form = page.context["form"]
    wanted = {"hour": hour.isoformat(), "pace": "4", "arrivals": "random"}
    asked = olaf.post(path, wanted)

    assert [label.partition(": ")[2] for _value, label in form.fields["hour"].choices] == [
        "2 requests"
    ]
    assert "insists" not in form.fields
    assert asked["Location"] == reverse("benchmark", args=[Benchmark.objects.get().pk])
    job = BenchmarkJob.objects.get()
    assert job.replay == {"hour": hour.isoformat(), "pace": 4, "is_random": True}
