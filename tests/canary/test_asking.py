"""Canaries of servers whose engine answers wrongly by command."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from servers.judge.canary import items
from servers.lifecycle.benchmarks import commands as benchmarks
from servers.lifecycle.benchmarks.commands import BenchmarkRequestError
from servers.lifecycle.canary import commands, results
from servers.lifecycle.canary.commands import CanaryRequestError
from servers.models import Canary, Job, Request, Run, Server, Usage
from servers.models.jobs import JobState
from servers.models.runs.run import ManagedServer, RunState
from tests import factories
from tests.canary.engine import CanaryModel
from tests.cases import Cases
from tests.jobs import obey, runner
from tests.scripted_engine import ScriptedEngine

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_redis")]


@pytest.fixture
def model() -> CanaryModel:
    return CanaryModel()


@pytest.fixture
def engine(model: CanaryModel) -> Iterator[ScriptedEngine]:
    with ScriptedEngine(plan=lambda body: model.plan(body)) as made:
        made.answers["/metrics"] = (200, "")
        yield made


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here is about how busy this machine is."""
    sets = items.load_sets()
    patient = {key: replace(each, limit_seconds=3600) for key, each in sets.items()}
    monkeypatch.setattr("servers.lifecycle.canary.asking.load_sets", lambda: patient)


@pytest.fixture
def server(engine: ScriptedEngine) -> ManagedServer:
    flags = ("--kv-cache-dtype", "fp8_e5m2", "--context-length", "32768")
    made = factories.server(factories.box("rtx8", driver="580.95.05"), flags=flags)
    factories.run(made, port=engine.port, address=engine.host)
    return made


def checked(server: ManagedServer, canary_set: str = "quick") -> Canary:
    made = commands.ask(server, canary_set, by=factories.person())
    obey(server.box)
    return Canary.objects.with_details().get(pk=made.pk)


def told(canary: Canary) -> dict[str, tuple[str, str]]:
    """By item its verdict and text."""
    return {each.key: (each.verdict, each.text) for each in results.read_verdicts(canary)}


def test_a_sound_model_passes_and_is_the_one_to_compare_with(
    server: ManagedServer, model: CanaryModel
) -> None:
    first = checked(server)
    again = checked(server)

    with Cases() as cases:
        for canary in (first, again):
            with cases.named(f"canary {canary.pk}"):
                assert (canary.state, canary.why, canary.verdict) == ("done", "", "pass")
                assert canary.left_out == 0
                others = {key: verdict for key, (verdict, _text) in told(canary).items()}
                # The first one has nothing to compare its fingerprint with.
                assert others.pop("fingerprint") == ("pass" if canary == again else "unknown")
                assert set(others.values()) == {"pass"}
        with cases.named("compared"):
            assert first.compared_with is None
            assert again.compared_with == first
            assert told(again)["fingerprint"][1] == "All 8 answers begin as before."
            assert told(again)["arithmetic"][1] == "12 of 12 right; before, 12."
        with cases.named("counted nowhere"):
            assert not Request.objects.exists()
            assert not Usage.objects.exists()
        with cases.named("nothing from a cache"):
            long = [each for each in model.asked if len(each) > 5000]
            assert len(set(long)) == len(long)


def test_damage_is_called_wrong_in_the_place_where_it_shows(
    server: ManagedServer, model: CanaryModel
) -> None:
    checked(server, "full")
    model.forgets_beyond = 50_000

    found = checked(server, "full")

    assert found.verdict == "wrong"
    wrong = [key for key, (verdict, _text) in told(found).items() if verdict == "wrong"]
    assert wrong == ["needle-16000-90", "needle-30715-50", "needle-30715-90"]


def test_what_has_changed_is_accepted_by_a_person(
    server: ManagedServer, model: CanaryModel
) -> None:
    checked(server)
    model.is_other = True
    other = checked(server)

    assert commands.accept(other, by=factories.person())
    assert not commands.accept(other, by=factories.person())

    again = checked(server)
    assert (again.verdict, again.compared_with) == ("pass", other)


def test_it_ends_when_somebody_stops_it(server: ManagedServer, engine: ScriptedEngine) -> None:
    made = commands.ask(server, "quick", by=factories.person())
    asked = threading.Event()
    plan = engine.plan

    def hold(body: dict[str, Any]) -> Any:
        script = plan(body)
        if "tools" in body:
            asked.set()
            return replace(script, content_type="text/event-stream", error=None, then="hang")
        return script

    engine.plan = hold
    at_work = runner(server.box)
    at_work.step()
    assert asked.wait(60)

    commands.stop(Canary.objects.get(pk=made.pk), by=factories.person())
    at_work.step()
    at_work.wait()

    found = Canary.objects.with_details().get(pk=made.pk)
    assert (found.state, found.verdict) == ("stopped", "")
    assert [each["key"] for each in found.items] == ["language-en", "language-zh", "schema"]
    assert Job.objects.get().state == JobState.CANCELLED


def test_only_what_serves_is_asked_and_one_at_a_time(server: ManagedServer) -> None:
    ada = factories.person()
    with pytest.raises(CanaryRequestError, match="no canary"):
        commands.ask(server, "nothing", by=ada)
    Run.objects.update(state=RunState.STARTING)
    with pytest.raises(CanaryRequestError, match="not ready"):
        commands.ask(Server.objects.get(pk=server.pk), "quick", by=ada)
    Run.objects.update(state=RunState.READY)
    commands.ask(Server.objects.get(pk=server.pk), "quick", by=ada)
    with pytest.raises(CanaryRequestError, match="Another check-up"):
        commands.ask(Server.objects.get(pk=server.pk), "quick", by=ada)
    with pytest.raises(BenchmarkRequestError, match="Another check-up"):
        benchmarks.ask(Server.objects.get(pk=server.pk), "quick", by=ada)
