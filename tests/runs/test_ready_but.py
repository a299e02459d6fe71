"""What pages tell of a ready server: unhealthy, slow to answer, ready but …, and what it said."""

import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from servers.host.runs import questions
from servers.judge.logs.phases.reader import Reader
from servers.lifecycle.logs import diagnoses
from servers.lifecycle.profiles import checks
from servers.lifecycle.runs import starts
from servers.models import Box, Run, Server
from servers.models.runs.run import RunState
from servers.watcher.runs.runs import Runs
from tests import factories
from tests.scripted_engine import MODEL, EngineScript, ScriptedEngine
from tests.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_redis")]

SKY = re.findall(r" \S+", " The sky is blue since air scatters blue light more than red.")


@pytest.fixture
def box(monkeypatch: pytest.MonkeyPatch) -> Box:
    monkeypatch.setattr("servers.watcher.runs.runs.ASK_EVERY", 0.0)
    return factories.box()


def became_ready(of: Server, engine: ScriptedEngine, **values: Any) -> Run:
    at = {"address": "127.0.0.1", "port": engine.port, "served_name": MODEL}
    return factories.run(of, ready_at=timezone.now(), **{**at, "requests_running": 0, **values})


def metrics(engine: ScriptedEngine, *, others: int = 0) -> None:
    """Let its figures tell of what it does, as a real one's do."""
    engine.hooks["/metrics"] = lambda: engine.answers.update(
        {
            "/metrics": (
                200,
                f"vllm:num_requests_running {engine.running + others}\n"
                f"vllm:generation_tokens_total {engine.sent}\n",
            )
        }
    )


def until(runs: Runs, run: Run, done: Callable[[Run], object]) -> Run:
    def look() -> object:
        runs.tick(within=0.05)
        run.refresh_from_db()
        return done(run)

    wait_until(
        look, lambda: f"it comes to it: {run.health.first_answer}, {run.health.unhealthy_because}"
    )
    return run


def shown(of: Server, path: str = "/") -> str:
    client = factories.log_in(factories.person())
    return " ".join(client.get(path).content.decode().split())


def pace(monkeypatch: pytest.MonkeyPatch, *answers: float) -> None:
    """How many seconds lie between the pieces of each answer, whatever else the machine does."""
    take = questions._StreamedAnswer.take
    known: list[questions._StreamedAnswer] = []

    def paced(heard: questions._StreamedAnswer, event: dict[str, Any], now: float) -> None:
        if not any(heard is each for each in known):
            known.append(heard)
        seconds = answers[next(n for n, each in enumerate(known) if each is heard)]
        take(heard, event, heard.began + seconds * (1 + len(heard.times)))

    monkeypatch.setattr(questions._StreamedAnswer, "take", paced)


def test_the_first_answer_is_asked_once_and_kept_with_its_figures(box: Box) -> None:
    on = factories.server(box, engine="vllm")
    with ScriptedEngine(
        plan=lambda _body: EngineScript(deltas=[{"content": w} for w in SKY])
    ) as engine:
        metrics(engine)
        run = became_ready(on, engine)
        runs = Runs(box)
        until(runs, run, lambda run: run.health.first_answer)
        for _round in range(3):
            runs.tick()

    [body] = engine.requests
    assert (body["temperature"], body["max_tokens"], body["model"]) == (0, 64, MODEL)
    run.refresh_from_db()
    said = run.health.first_answer
    assert said["text"] == "".join(SKY).strip()
    assert (said["tokens"], said["finish"], said["remarks"]) == (12, "stop", [])
    assert said["first_token"] is not None
    assert run.health.last_request_at is None, "nobody has asked it anything"
    assert not run.health.requests_running
    assert not run.health.peak_tokens_per_second
    page = shown(on, f"/servers/{on.slug}/")
    assert "12 tokens, the first after" in page
    assert "The sky is blue since" in page
    assert "Ready, but" not in page


def test_too_slow_is_said_on_the_card_with_what_is_expected(box: Box) -> None:
    on = factories.server(box, engine="vllm", expected={"tokens per second": "30000-35000"})
    plan = EngineScript(deltas=[{"content": word} for word in SKY], delay=0.02)
    with ScriptedEngine(plan=lambda _body: plan) as engine:
        metrics(engine)
        run = until(Runs(box), became_ready(on, engine), lambda run: run.health.first_answer)

    [remark] = run.health.ready_but
    assert remark.endswith(" tok/s; expected 30000-35000")
    assert f"Ready, but {remark}." in shown(on)
    assert f"Ready, but {remark}." in shown(on, f"/servers/{on.slug}/")
    assert run.state == RunState.READY


def test_a_first_answer_that_compiled_its_way_is_no_measure(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    on = factories.server(box, engine="vllm", expected={"tokens per second": "30-35"})
    pace(monkeypatch, 0.2, 0.005)
    plan = EngineScript(deltas=[{"content": word} for word in SKY])
    with ScriptedEngine(plan=lambda _body: plan) as engine:
        metrics(engine)
        run = until(Runs(box), became_ready(on, engine), lambda run: run.health.first_answer)

    assert len(engine.requests) == 2
    assert run.health.ready_but == ()
    assert run.health.first_answer["rate"] == pytest.approx(200, rel=0.2)


def test_what_came_all_at_once_has_no_speed_and_is_not_slow(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    on = factories.server(box, engine="vllm", expected={"tokens per second": "30-35"})
    pace(monkeypatch, 0.2, 0.0)
    plan = EngineScript(deltas=[{"content": word} for word in SKY])
    with ScriptedEngine(plan=lambda _body: plan) as engine:
        metrics(engine)
        run = until(Runs(box), became_ready(on, engine), lambda run: run.health.first_answer)

    assert run.health.first_answer["rate"] is None
    assert run.health.ready_but == ()


def test_a_run_is_compared_with_the_last_good_one_of_its_profile_on_its_box(box: Box) -> None:
    on = factories.server(box, engine="vllm")
    said = {"text": "a", "error": "", "rate": 9e6, "remarks": []}
    factories.run(on, RunState.STOPPED, age=9000, first_answer=said)
    bad = said | {"rate": 1.0, "remarks": ["1 tok/s; 9e+06 the last time"]}
    factories.run(on, RunState.STOPPED, age=8000, first_answer=bad)
    plan = EngineScript(deltas=[{"content": word} for word in SKY], delay=0.02)
    with ScriptedEngine(plan=lambda _body: plan) as engine:
        metrics(engine)
        run = until(Runs(box), became_ready(on, engine), lambda run: run.health.first_answer)

    assert run.health.first_answer["before"] == 9e6
    assert run.health.ready_but[0].endswith(" tok/s; 9e+06 the last time")


@pytest.mark.parametrize(
    ("deltas", "says"),
    [
        ([{"content": "!"}] * 40, "its first answer only repeats “!”"),
        ([{"content": "The"}], "it stopped after one token"),
        ([{"reasoning": word} for word in SKY], None),
        ([{"reasoning_content": word} for word in SKY], None),
    ],
)
def test_what_it_says_is_judged(box: Box, deltas: list[dict[str, Any]], says: str | None) -> None:
    on = factories.server(box, engine="vllm")
    with ScriptedEngine(plan=lambda _body: EngineScript(deltas=deltas)) as engine:
        metrics(engine)
        run = until(Runs(box), became_ready(on, engine), lambda run: run.health.first_answer)

    assert run.health.ready_but == ((says,) if says else ())
    assert run.health.first_answer["is_reasoning"] is (says is None)


@pytest.mark.parametrize(("gpus", "says"), [("all", True), ("none", False)])
def test_who_wants_gpus_and_finds_none_computes_on_the_cpu(box: Box, gpus: str, says: bool) -> None:
    # As llama.cpp starts in an image that was not built for the box's GPUs: it goes on without.
    on = factories.server(box, engine="llamacpp", gpus=gpus, flags=("--n-gpu-layers", "99"))
    log = Reader("llamacpp")
    log.feed(1, "warning: no usable GPU found, --gpu-layers option will be ignored")
    with ScriptedEngine(
        plan=lambda _body: EngineScript(deltas=[{"content": w} for w in SKY])
    ) as engine:
        engine.answers["/metrics"] = (200, "llamacpp:requests_processing 0\n")
        run = became_ready(on, engine, reader=log.to_json())
        run = until(Runs(box), run, lambda run: run.health.first_answer)

    assert run.health.ready_but == (("it finds no GPU and computes on the CPU",) if says else ())


def test_an_engine_that_breaks_off_is_ready_but_and_one_that_takes_no_chats_is_not(
    box: Box,
) -> None:
    error = {"message": "EngineCore encountered an issue."}
    broken = factories.server(box, "broken", engine="vllm")
    with ScriptedEngine(plan=lambda _body: EngineScript(deltas=[], error=error)) as engine:
        metrics(engine)
        run = until(Runs(box), became_ready(broken, engine), lambda run: run.health.first_answer)
    assert run.health.ready_but == (
        "its first answer failed: It broke off: EngineCore encountered an issue",
    )

    base = factories.server(box, "base", engine="vllm")
    refusal = EngineScript(deltas=[], status=400, error={"message": "no chat template"})
    with ScriptedEngine(plan=lambda _body: refusal) as engine:
        metrics(engine)
        run = until(Runs(box), became_ready(base, engine), lambda run: run.health.first_answer)
    assert run.health.ready_but == ()
    assert "none: The engine refused the request (400)" in shown(base, "/servers/base/")


@pytest.mark.parametrize(
    ("launch", "others"),
    [
        ({"ask_when_ready": False}, 0),
        ({"flags": ("--runner", "pooling")}, 0),
        ({}, 2),
    ],
)
def test_who_is_not_to_be_asked_or_is_busy_is_not_asked(
    box: Box, launch: dict[str, Any], others: int
) -> None:
    on = factories.server(box, engine="vllm", **launch)
    with ScriptedEngine() as engine:
        metrics(engine, others=others)
        run = became_ready(on, engine)
        runs = Runs(box)
        for _round in range(5):
            runs.tick()

    assert engine.requests == []
    run.refresh_from_db()
    assert run.health.first_answer == {}


def test_a_run_that_was_ready_long_before_anybody_looked_is_not_asked(box: Box) -> None:
    on = factories.server(box, engine="vllm")
    with ScriptedEngine() as engine:
        metrics(engine)
        run = became_ready(on, engine)
        Run.objects.filter(pk=run.pk).update(ready_at=timezone.now() - timedelta(hours=1))
        runs = Runs(box)
        for _round in range(3):
            runs.tick()

    assert engine.requests == []


def test_the_engines_key_is_given_and_never_kept(box: Box) -> None:
    key = "the-key-of-the-team"
    on = factories.server(box, engine="vllm", flags=("--api-key", key))
    said = [{"content": word} for word in (*SKY, key)]
    with ScriptedEngine(plan=lambda _body: EngineScript(deltas=said)) as engine:
        metrics(engine)
        run = until(Runs(box), became_ready(on, engine), lambda run: run.health.first_answer)

    chat = next(each for each in engine.headers if each["path"].endswith("completions"))
    assert chat["authorization"] == f"Bearer {key}"
    assert key not in json.dumps(run.health.first_answer)


def test_an_engine_that_never_answers_is_given_up(box: Box) -> None:
    with ScriptedEngine(plan=lambda _body: EngineScript(deltas=[], first_delay=600)) as engine:
        run = factories.run(factories.server(box), address="127.0.0.1", port=engine.port)
        endpoint = starts.find_endpoint(run)
        assert endpoint is not None
        silent = questions.ask(endpoint, MODEL, "Hi", most=1, limit=0.2)
        assert engine.outcomes.get(timeout=PATIENCE) == "cancelled"

    assert silent.error == "It had not begun to answer after 0 s."
    assert (silent.tokens, silent.first_token, silent.rate) == (0, None, None)


def test_a_dead_scheduler_is_said_on_card_page_and_first_of_all(box: Box) -> None:
    on = factories.server(box, "glm-5", engine="vllm")
    since = timezone.now() - timedelta(minutes=6)
    because = "answers /health, but has generated nothing with 3 requests running"
    run = factories.run(on, unhealthy_since=since, unhealthy_because=because)

    said = shown(on)
    assert "card is-up is-unhealthy" in said
    assert '<span class="state state-unhealthy">unhealthy</span>' in said
    assert f"<strong>Unhealthy:</strong> {because}, for" in said
    assert f"is unhealthy: {because}." in said
    assert "6 min" in said
    page = shown(on, "/servers/glm-5/")
    assert "Nothing is done about it by itself" in page

    Run.objects.filter(pk=run.pk).write(
        health__unhealthy_since=None,
        health__unhealthy_because="",
        health__slow_because="does not answer /health",
    )
    said = shown(on)
    assert "<strong>Unhealthy" not in said
    assert "state-unhealthy" not in said
    assert "<strong>Slow to answer:</strong> does not answer /health." in said


@pytest.fixture
def garbled(box: Box) -> Run:
    """GLM-5 with its FP8 cache on SM 12.0: it becomes ready, and says nothing."""
    card = {"name": "NVIDIA RTX PRO 6000", "compute_capability": "12.0", "total": 95 << 30}
    cards = [{"index": index, "kind": "discrete", **card} for index in range(2)]
    box.facts = {**box.facts, "gpus": cards, "driver": "580.142"}
    box.save()
    on = factories.server(
        box,
        engine="sglang",
        image="lmsysorg/sglang:v0.5.12",
        checkpoint="festr2/GLM-5-NVFP4-MTP",
        flags=("--kv-cache-dtype", "fp8_e4m3"),
    )
    with ScriptedEngine(plan=lambda _body: EngineScript(deltas=[{"content": "The"}])) as engine:
        engine.answers["/metrics"] = (200, "sglang:num_running_reqs 0\n")
        return until(Runs(box), became_ready(on, engine), lambda run: run.health.first_answer)


def test_who_answers_nonsense_did_not_work(garbled: Run, box: Box) -> None:
    profile = garbled.server.profile

    [known] = [
        each
        for each in checks.findings(profile.launch, box, profile)
        if each.rule == "glm5-sm120-bf16-kv"
    ]

    assert (known.severity, known.yours) == ("error", "")
    Run.objects.update(state=RunState.STOPPED)
    failed = factories.run(garbled.server, RunState.FAILED, age=5)
    assert diagnoses.explain_failure(failed, factories.person()).last_good is None


def test_who_is_only_slow_did_work(box: Box) -> None:
    on = factories.server(box)
    said = {"text": "a", "error": "", "rate": 1.0, "is_faulty": False, "before": 9.0}
    slow = factories.run(on, first_answer=said | {"remarks": ["1 tok/s; 9 the last time"]})
    asked = factories.server(box, "another")
    unasked = factories.run(asked)

    assert Run.objects.last_good([on.pk, asked.pk]) == {on.pk: slow, asked.pk: unasked}


def test_its_page_says_what_is_known_of_such_a_launch(garbled: Run) -> None:
    page = shown(garbled.server, f"/servers/{garbled.server.slug}/")

    assert "Ready, but it stopped after one token." in page
    assert "gives garbage or stops after one token. Set --kv-cache-dtype bf16." in page
    assert f'href="/profiles/{garbled.server.profile.slug}/#checks"' in page
    assert "gives garbage" not in shown(garbled.server)
