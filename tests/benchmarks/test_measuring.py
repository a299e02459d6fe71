"""Check-ups of servers whose engine has speeds that are known."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest
from django.utils import timezone

from servers.host.benchmarks.timings import RequestTiming
from servers.judge.benchmarks import points
from servers.judge.benchmarks.capacity import CapacityLimits
from servers.judge.benchmarks.points import PointFigures
from servers.judge.benchmarks.presets import BenchmarkPreset, load_presets
from servers.lifecycle.benchmarks import commands, giving_way, in_flight
from servers.lifecycle.benchmarks.commands import BenchmarkRequestError
from servers.lifecycle.benchmarks.results import read_points
from servers.lifecycle.jobs.runner import JobWork
from servers.models import Alert, AuditEntry, Benchmark, Job, Request, Role, Run, RunHealth, Usage
from servers.models.jobs import JobState
from servers.models.runs.run import DesiredState, ManagedServer, RunState
from servers.watcher.alerts import AlertMonitor
from servers.watcher.runs.runs import Runs
from tests import factories, measurements
from tests.cases import Cases
from tests.jobs import obey, runner
from tests.samples import card, process, sample
from tests.scripted_engine import EngineScript, ScriptedEngine

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_redis")]

FIRST, TOKEN = 0.03, 0.002  # seconds that the engine takes, beside its loop's own


def answer(body: dict[str, Any], **values: Any) -> EngineScript:
    """As many tokens as were wanted, and a count of the prompt's: four letters each."""
    prompt = body["messages"][0]["content"]
    words = [{"content": "word "}] * body["max_tokens"]
    used = {"prompt_tokens": len(prompt) // 4}
    usual = {"deltas": words, "first_delay": FIRST, "delay": TOKEN, "used": used}
    return EngineScript(**{**usual, **values})


@pytest.fixture
def engine() -> Iterator[ScriptedEngine]:
    with ScriptedEngine(plan=answer) as made:
        made.answers["/metrics"] = (200, "")
        made.answers["/v1/models"] = (200, '{"data": [{"id": "m", "max_model_len": 4096}]}')
        yield made


PRESETS = cast(dict[str, BenchmarkPreset], load_presets())
TOKENS = 16


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> BenchmarkPreset:
    """The check-up of 20 seconds, in a few; and nothing here is about how busy this machine is."""
    whole = PRESETS["quick"]
    fewer = tuple(
        replace(each, output_tokens=TOKENS, rounds=2, requests=requests)
        for each, requests in zip(whole.points, (3, 16), strict=True)
    )
    made = replace(whole, points=fewer)
    monkeypatch.setitem(PRESETS, "quick", made)
    monkeypatch.setattr(points, "LATE", 60.0)
    return made


@pytest.fixture
def server(engine: ScriptedEngine) -> ManagedServer:
    made = factories.server(factories.box("rtx8", driver="580.95.05"))
    factories.run(made, port=engine.port, address=engine.host)
    return made


def find_run(server: ManagedServer) -> Run:
    assert server.run is not None
    return server.run


def measured(
    server: ManagedServer, preset: str = "quick", *, gives_way: bool = True, **how: Any
) -> Benchmark:
    made = commands.ask(server, preset, by=factories.person(), gives_way=gives_way)
    obey(server.box, **how)
    return Benchmark.objects.with_details().get(pk=made.pk)


def test_a_check_up_finds_the_speeds_of_an_engine(
    server: ManagedServer, engine: ScriptedEngine
) -> None:
    of_engine = card(0, [(4001, 60.0)])
    on_card = process(4001, find_run(server).container_id)

    found = measured(server, sample=sample([of_engine], [on_card]))

    assert (found.state, found.why, found.is_clean) == ("done", "", True)
    told = read_points(found)
    assert [point.label for point in told] == ["One person", "People at once: 8"]
    with Cases() as cases:
        for point in told:
            for figures in point.rounds:
                with cases.named(point.label):
                    assert figures.failed == 0
                    assert figures.ttft
                    assert figures.tpot
                    # Never sooner than the engine sends; how much later, this machine decides.
                    assert figures.ttft.median >= FIRST
                    assert figures.tpot.median >= TOKEN
                    assert figures.ttft.median + (TOKENS - 1) * TOKEN <= figures.seconds
                    assert figures.output_tokens == TOKENS * figures.requests
        with cases.named("prompts"):
            asked = [body["messages"][0]["content"] for body in engine.requests]
            assert len(set(asked)) == len(asked), "a prompt that was asked twice may be cached"
            long = [text for text in asked if len(text) > 100]
            # 200 tokens of four letters, but for the first, by which they are counted.
            assert all(700 < len(text) < 900 for text in long[2:])
        with cases.named("kept"):
            kept = found.points.get(place=0).requests
            assert [len(each) for each in kept] == [3, 3]
            assert kept[0][0]["output_tokens"] == TOKENS
        with cases.named("measured on"):
            on = found.measured_on
            assert on["driver"] == "580.142"
            assert on["version"] == 1
            assert on["engine_version"] == "0.5.12"
            assert on["cards"][0]["power_limit_w"] == 600.0
        with cases.named("counted nowhere"):
            run = Run.objects.get(pk=find_run(server).pk)
            assert run.health.last_request_at is None
            assert not Request.objects.exists()
            assert not Usage.objects.exists()
        with cases.named("audit"):
            said = AuditEntry.objects.values_list("action", flat=True)
            assert {"benchmark", "benchmark done"} <= set(said)


def metrics(running: int, preempted: int = 0) -> str:
    return (
        f"sglang:num_running_reqs {running}\nsglang:num_queue_reqs 0\n"
        f"sglang:num_retracted_reqs {preempted}\n"
    )


def test_a_point_says_why_it_is_not_clean(server: ManagedServer, engine: ScriptedEngine) -> None:
    container = find_run(server).container_id
    mine, other = process(4001, container), process(4002, "another")
    hot = card(0, [(4001, 60.0), (4002, 20.0)], throttle=["hw_thermal"])
    engine.answers["/metrics"] = (200, metrics(running=12))
    replies = iter(range(10_000))
    engine.plan = lambda body: (
        EngineScript(deltas=[], status=500, error={"error": "busy"})
        if next(replies) == 9
        else answer(body)
    )

    found = measured(server, gives_way=False, sample=sample([hot], [mine, other]))

    assert found.state == "done"
    assert found.is_clean is False
    taints = found.points.get(place=1).taints
    assert taints == ["benchmarks.other-engine", "benchmarks.others", "benchmarks.throttled"]
    assert "benchmarks.failed-requests" in found.points.get(place=0).taints


def test_requests_of_a_check_up_are_not_taken_for_peoples(
    server: ManagedServer, engine: ScriptedEngine
) -> None:
    """They would reset the idle timeout, and a server that only check-ups use would never stop."""

    def look(running: int) -> RunHealth:
        engine.answers["/metrics"] = (200, metrics(running))
        Runs(server.box).tick(within=60)
        return RunHealth.objects.get(run=find_run(server).pk)

    with in_flight.note_run(find_run(server).pk):
        in_flight.note_most(find_run(server).pk, 8)
        alone = look(running=8)
        in_flight.note_most(find_run(server).pk, 0)
        paused = look(running=8)  # the engine may still tell of its last round
        beside = look(running=9)

    assert (alone.requests_running, alone.last_request_at) == (0, None)
    assert (paused.requests_running, paused.last_request_at) == (0, None)
    assert beside.requests_running == 1
    assert beside.last_request_at is not None


def test_it_gives_way_to_people_and_measures_once_more_what_they_disturbed(
    server: ManagedServer, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = []

    def wait(work: JobWork[Job], _seconds: float) -> None:
        states.append(Benchmark.objects.select_related("job").get().state)
        if len(states) == 2:
            engine.answers["/metrics"] = (200, metrics(running=0))

    monkeypatch.setattr(JobWork, "wait", wait)
    # Behind the look before all, five to count with, and the warm-up: the first round.
    replies = iter(range(10_000))

    def script(body: dict[str, Any]) -> EngineScript:
        if next(replies) == 6:
            engine.answers["/metrics"] = (200, metrics(running=2))
        return answer(body)

    engine.plan = script

    found = measured(server)

    assert (found.state, found.is_clean) == ("done", True)
    assert "1 round with such requests did not count" in found.why
    assert [len(point.rounds) for point in read_points(found)] == [2, 2]
    assert set(states) == {"paused"}
    assert len(states) == 2 + giving_way.CALM_LOOKS


def test_it_waits_no_longer_than_its_limit(
    server: ManagedServer,
    engine: ScriptedEngine,
    short: BenchmarkPreset,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(PRESETS, "quick", replace(short, limit_seconds=2))
    engine.answers["/metrics"] = (200, metrics(running=1))

    found = measured(server)

    assert (found.state, found.is_clean) == ("limit reached", None)
    assert "for people’s requests" in found.why
    assert engine.requests == []


def test_an_editor_may_insist(server: ManagedServer, engine: ScriptedEngine) -> None:
    other = factories.server(server.box, "other")
    factories.run(other, port=engine.port, address=engine.host)
    operator = factories.person("olaf", Role.OPERATOR)
    editor = factories.person("eve", Role.EDITOR)

    with pytest.raises(BenchmarkRequestError, match="Only an editor"):
        commands.ask(server, "quick", by=operator, gives_way=False)
    commands.ask(server, "quick", by=operator)
    with pytest.raises(BenchmarkRequestError, match="Another check-up"):
        commands.ask(other, "quick", by=editor)
    with pytest.raises(BenchmarkRequestError, match="Another check-up"):
        commands.ask(server, "quick", by=editor, gives_way=False)
    commands.ask(other, "quick", by=editor, gives_way=False)

    runner_of_box = runner(server.box)
    runner_of_box.step()
    begun = Job.objects.exclude(state=JobState.ASKED).count()
    runner_of_box.wait()

    assert begun == 2
    assert {each.state for each in Benchmark.objects.with_details()} == {"done"}


def test_what_is_whole_is_kept_when_somebody_stops_it(
    server: ManagedServer, engine: ScriptedEngine
) -> None:
    made = commands.ask(server, "quick", by=factories.person())
    at_once = threading.Event()

    def script(body: dict[str, Any]) -> EngineScript:
        if engine.running >= 7:
            at_once.set()
            return answer(body, delay=0.5)
        return answer(body)

    engine.plan = script
    at_work = runner(server.box)
    at_work.step()
    assert at_once.wait(60)
    assert in_flight.is_measured(find_run(server).pk)

    commands.stop(Benchmark.objects.get(pk=made.pk), by=factories.person())
    at_work.step()
    at_work.wait()

    found = Benchmark.objects.with_details().get(pk=made.pk)
    assert found.state == "stopped"
    assert [point.name for point in found.points.all()] == ["One person"]
    assert Job.objects.get().state == JobState.CANCELLED
    assert not in_flight.is_measured(find_run(server).pk)
    assert engine.running == 0


def test_one_that_was_cut_off_says_so(server: ManagedServer) -> None:
    made = commands.ask(server, "quick", by=factories.person())
    Job.objects.update(state=JobState.DOING)

    obey(server.box)

    found = Benchmark.objects.with_details().get(pk=made.pk)
    assert found.state == "failed"
    assert "inferdash was ended in the middle of it" in found.why


def test_a_crowd_is_measured_up_to_its_edge(
    server: ManagedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of more than five at once, requests fail. Sizes are doubled, then halved between."""
    whole = PRESETS["crowd"]
    sizes = tuple(
        replace(each, prompt_tokens=50, output_tokens=4, rounds=1, requests=2 * each.concurrency)
        for each in whole.points
        if each.concurrency <= 8
    )
    monkeypatch.setitem(PRESETS, "crowd", replace(whole, points=sizes))
    where = "servers.lifecycle.benchmarks.measuring"
    monkeypatch.setattr(f"{where}.is_saturated", lambda _rates: False)
    # Nothing here is about how fast this machine is.
    limits = CapacityLimits(first=600.0, speed=0.001)
    monkeypatch.setattr(f"{where}.CapacityLimits", lambda: limits)

    def judge(requests: Sequence[RequestTiming], **how: Any) -> PointFigures:
        return replace(points.summarise(requests, **how), failed=int(how["concurrency"] > 5))

    monkeypatch.setattr(f"{where}.summarise", judge)

    found = measured(server, "crowd")

    assert [point.concurrency for point in read_points(found)] == [1, 2, 4, 5, 6, 8]


def test_limits_end_it_with_what_is_whole(
    server: ManagedServer, short: BenchmarkPreset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PRESETS, "quick", replace(short, limit_requests=20))

    found = measured(server)

    assert found.state == "limit reached"
    assert "20 requests" in found.why
    assert found.points.count() == 1


def test_a_start_is_checked_while_nobody_uses_the_server(
    server: ManagedServer, engine: ScriptedEngine
) -> None:
    run = find_run(server)
    launch = run.version.launch
    run.version.spec = replace(launch, measure_when_ready=True, ask_when_ready=False).to_json()
    run.version.save(update_fields=["spec"])
    measurements.benchmark(server, run=None, speed=100, measured_on=measurements.MEASURED_ON)
    mine = Benchmark.objects.filter(after_start=True).order_by("pk")
    watcher = Runs(server.box)

    def look(running: int) -> None:
        engine.answers["/metrics"] = (200, metrics(running))
        Run.objects.filter(pk=run.pk).update(ready_at=timezone.now())
        watcher._asked.clear()  # every other second is too long for a test
        watcher.tick(within=60)

    look(running=1)
    assert not mine.exists(), "somebody uses it"
    RunHealth.objects.update(last_request_at=timezone.now() - timedelta(minutes=1))
    look(running=0)
    [first] = mine.all()
    assert (first.preset, first.by, first.state) == ("quick", None, "waiting")
    look(running=0)
    assert mine.count() == 1
    with in_flight.note_run(run.pk):
        look(running=3)
    assert mine.get().state == "stopped", "somebody came"
    in_flight._loads.clear()
    RunHealth.objects.update(last_request_at=timezone.now() - timedelta(minutes=1))
    look(running=0)
    engine.answers["/metrics"] = (200, metrics(0))
    obey(server.box)
    last = mine.last()
    assert last is not None
    assert (mine.count(), last.is_clean) == (2, True), [point.taints for point in last.points.all()]
    look(running=0)
    assert mine.count() == 2, "one clean result is enough"

    client = factories.log_in(factories.person("vera", Role.VIEWER))
    page = client.get(f"/servers/{server.slug}/").content.decode()
    assert "slower than usual" in page
    assert "v0.20.2" in page, "what changed is said"
    AlertMonitor(server.box).step(None)
    alert = Alert.objects.open().get(kind="slower")
    assert alert.title.startswith("qwen3-8b on rtx8 is ")
    assert alert.title.endswith(" % slower than usual")
    assert "Image vllm/vllm-openai:v0.20.2 → " in alert.advice


def test_points_that_are_too_long_for_the_engine_are_left_out(
    server: ManagedServer, engine: ScriptedEngine
) -> None:
    engine.answers["/v1/models"] = (200, '{"data": [{"id": "m", "max_model_len": 100}]}')

    found = measured(server)

    assert found.state == "failed"
    assert found.why == "It takes 100 tokens, and every point has more."


REFUSALS: list[tuple[dict[str, Any], str]] = [
    ({"state": RunState.STARTING}, "not ready"),
    ({"wanted": DesiredState.STOPPED}, "not ready"),
    ({"sleep": "asleep"}, "asleep"),
    ({"is_watched": True}, "Somebody else"),
]


def test_only_what_serves_is_measured_and_one_at_a_time(
    server: ManagedServer, settings: Any
) -> None:
    ada = factories.person()
    with Cases() as cases:
        settings.HAS_BENCHMARKS = False
        with cases.named("off"), pytest.raises(BenchmarkRequestError, match="turned off"):
            commands.ask(server, "quick", by=ada)
        settings.HAS_BENCHMARKS = True
        with cases.named("no such"), pytest.raises(BenchmarkRequestError, match="no check-up"):
            commands.ask(server, "nothing", by=ada)
        for values, said in REFUSALS:
            Run.objects.update(
                **{"state": RunState.READY, "wanted": "running", "sleep": "", **values}
            )
            find_run(server).refresh_from_db()
            with cases.named(said), pytest.raises(BenchmarkRequestError, match=said):
                commands.ask(server, "quick", by=ada)
    Run.objects.update(is_watched=False)
    find_run(server).refresh_from_db()
    commands.ask(server, "quick", by=ada)
    with pytest.raises(BenchmarkRequestError, match="Another check-up"):
        commands.ask(server, "chat", by=ada)


def test_each_preset_is_whole() -> None:
    with Cases() as cases:
        for key, preset in PRESETS.items():
            with cases.named(key):
                assert preset.answers.endswith("?")
                spent = sum(point.seconds * point.rounds for point in preset.points)
                assert spent <= preset.limit_seconds
