import json
import logging
import threading
from typing import Any

import pytest
import redis
from django.db import OperationalError
from django.utils import timezone

from servers import events as live_events
from servers import lifecycle
from servers.models.runs.run import RunState
from servers.watcher import images
from servers.watcher.loop import RETRY, Watcher
from servers.watcher.runs.runs import Runs
from tests import factories
from tests.scripted_engine import MODEL, ScriptedEngine
from tests.waiting import wait_until


@pytest.mark.django_db(transaction=True)
def test_a_watcher_with_a_broken_loop_ends_instead_of_looking_alive(
    own_redis: redis.Redis,
    settings: Any,
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings.BOX_FILE = tmp_path / "box.toml"
    for fault in (KeyError("a fault of ours"), SystemExit(3)):
        watcher = Watcher()

        def broken(fault: BaseException = fault) -> None:
            raise fault

        def idle(watcher: Watcher = watcher) -> None:
            watcher.stopping.wait()

        for loop in ("_run_prober", "_run_sampler", "_run_docker_events", "_run_wakes"):
            monkeypatch.setattr(watcher, loop, idle)
        broken.__name__ = idle.__name__ = "_loop"
        monkeypatch.setattr(watcher, "_run_reconciler", broken)

        caplog.clear()
        with caplog.at_level(logging.ERROR):
            assert not watcher.run()
        assert "one of its loops broke" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_a_wake_is_for_what_it_is_about(
    own_redis: redis.Redis, settings: Any, tmp_path: Any
) -> None:
    settings.BOX_FILE = tmp_path / "box.toml"
    watcher = Watcher()
    events = watcher._events
    for topic in live_events.Topic:
        watcher._wake_for({topic})
        woken = {each for each, its in events.items() if all(event.is_set() for event in its)}
        assert woken == {topic}, "and no other one"
        for event in events[topic]:
            event.clear()
    for message in (b"wake", b"", b"runs comets", b"\xff"):
        assert live_events.topics_of(message) == set(live_events.Topic), "of another version"
    watcher.stop()
    assert all(event.is_set() for its in events.values() for event in its)


@pytest.mark.django_db(transaction=True)
def test_a_watcher_looks_soon_when_redis_or_the_database_is_back(
    own_redis: redis.Redis, settings: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.BOX_FILE = tmp_path / "box.toml"
    watcher = Watcher()
    found: list[float] = []
    outcomes = iter([OperationalError("the wire is cut"), None])

    def look() -> None:
        if error := next(outcomes):
            raise error

    def wait(seconds: float | None = None) -> bool:
        assert seconds is not None
        found.append(seconds)
        if len(found) == 2:
            watcher.stopping.set()
        return True

    monkeypatch.setattr(watcher, "_look_after_box", look)
    for other in ("_tidy", "_give_sign_of_life"):
        monkeypatch.setattr(watcher, other, lambda: None)
    monkeypatch.setattr(watcher.wake, "wait", wait)
    watcher._run_reconciler()
    after_error, after_success = found
    assert after_error <= RETRY < after_success

    watcher.stopping.clear()
    watcher.wake.clear()
    hearing = threading.Thread(target=watcher._run_wakes)
    hearing.start()
    wait_until(watcher.wake.is_set, "it looks for what it has missed")
    watcher.stop()
    hearing.join()


@pytest.mark.django_db(transaction=True)
def test_requests_are_counted_where_llama_cpps_metrics_are_switched_off(
    own_redis: redis.Redis,
) -> None:
    box = factories.box()
    run = factories.run(factories.server(box, engine="llamacpp"), requests_running=None)
    with ScriptedEngine() as engine:
        engine.answers["/metrics"] = (501, "This server does not support metrics endpoint.")
        type(run).objects.filter(pk=run.pk).update(address="127.0.0.1", port=engine.port)

        Runs(box).tick()

    run.refresh_from_db()
    assert run.health.requests_running == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("figure", "count"), [("-5", 0), ("1e300", 1_000_000), ("+Inf", None)])
def test_an_engine_cannot_end_the_watcher_by_its_figures(
    figure: str, count: int | None, own_redis: redis.Redis
) -> None:
    box = factories.box()
    run = factories.run(factories.server(box, engine="vllm"), requests_running=None)
    with ScriptedEngine() as engine:
        engine.answers["/metrics"] = (200, f"vllm:num_requests_running {figure}\n")
        type(run).objects.filter(pk=run.pk).update(address="127.0.0.1", port=engine.port)

        Runs(box).tick()

    run.refresh_from_db()
    assert run.health.requests_running == count


LLAMA_CPP = """\
llamacpp:requests_processing {running}
llamacpp:n_decode_total {steps}
llamacpp:tokens_predicted_total {tokens}
"""
SGLANG = """\
sglang:num_running_reqs {running}
sglang:realtime_tokens_total{{mode="decode"}} {steps}
sglang:generation_tokens_total {tokens}
"""


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("engine_key", "metrics"), [("llamacpp", LLAMA_CPP), ("sglang", SGLANG)])
def test_an_answer_that_is_counted_at_its_end_is_no_peak_of_speed(
    own_redis: redis.Redis, monkeypatch: pytest.MonkeyPatch, engine_key: str, metrics: str
) -> None:
    monkeypatch.setattr("servers.watcher.runs.runs.ASK_EVERY", 0.0)
    box = factories.box()
    with ScriptedEngine() as engine:
        run = factories.run(
            factories.server(box, engine=engine_key), address="127.0.0.1", port=engine.port
        )
        runs = Runs(box)
        for running, steps, tokens in ((1, 10, 0), (0, 11, 100_000_000)):
            text = metrics.format(running=running, steps=steps, tokens=tokens)
            engine.answers["/metrics"] = (200, text)
            runs.tick(within=5.0)

    run.refresh_from_db()
    # One step since the last look, whatever that took, and not all the tokens of a long answer.
    assert run.health.peak_tokens_per_second is not None
    assert 0 < run.health.peak_tokens_per_second < 1_000_000


@pytest.mark.django_db(transaction=True)
def test_a_profile_says_what_ready_means(own_redis: redis.Redis) -> None:
    box = factories.box()
    on = factories.server(box, engine="vllm", ready_path="/warm?tokens=1")
    run = factories.run(on, RunState.STARTING)
    with ScriptedEngine() as engine:
        at = {"address": "127.0.0.1", "port": engine.port, "served_name": MODEL}
        type(run).objects.filter(pk=run.pk).update(**at)

        engine.answers["/warm?tokens=1"] = engine.answers["/warm"] = (503, "")
        Runs(box).tick()
        run.refresh_from_db()
        assert run.state == RunState.STARTING, "/health answers, and does not count"

        engine.answers["/warm?tokens=1"] = engine.answers["/warm"] = (200, "")
        Runs(box).tick()

    run.refresh_from_db()
    assert run.state == RunState.READY


@pytest.mark.django_db(transaction=True)
def test_an_engine_that_serves_another_name_is_told_and_becomes_ready_by_its_own(
    own_redis: redis.Redis,
) -> None:
    box = factories.box()
    run = factories.run(factories.server(box, engine="vllm"), RunState.STARTING)
    with ScriptedEngine() as engine:
        at = {"address": "127.0.0.1", "port": engine.port, "served_name": "qwen3-8b"}
        type(run).objects.filter(pk=run.pk).update(**at)

        Runs(box).tick()
        run.refresh_from_db()
        assert run.state == RunState.STARTING, "it may be another engine on the same port"
        assert "serves “tiny-qwen” and “alias”, not “qwen3-8b”" in run.status_message

        engine.answers["/v1/models"] = (200, '{"data": [{"id": "qwen3-8b"}]}')
        Runs(box).tick()

    run.refresh_from_db()
    assert (run.state, run.status_message) == (RunState.READY, "")


@pytest.mark.django_db(transaction=True)
def test_a_version_that_is_none_is_cut(own_redis: redis.Redis) -> None:
    box = factories.box()
    run = factories.run(factories.server(box, engine="vllm"), RunState.STARTING)
    with ScriptedEngine() as engine:
        engine.answers["/version"] = (200, json.dumps({"version": "0.3\0" + "x" * 500}))
        at = {"address": "127.0.0.1", "port": engine.port, "served_name": MODEL}
        type(run).objects.filter(pk=run.pk).update(**at)

        Runs(box).tick()

    run.refresh_from_db()
    assert run.state == RunState.READY
    assert run.start.engine_version == "0.3" + "x" * 57


@pytest.mark.django_db(transaction=True)
def test_a_run_that_has_moved_on_wakes_who_looks_at_models_and_images(
    own_redis: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = factories.box()
    run = factories.run(factories.server(box, "qwen3-8b"), RunState.STARTING)
    looks: list[float] = []
    now = [100.0]
    where = "servers.watcher.images"
    monkeypatch.setattr(f"{where}.time.monotonic", lambda: now[0])
    monkeypatch.setattr(f"{where}.creation.docker", lambda: None)
    monkeypatch.setattr(f"{where}.inventory.test_wanted", lambda _box, _docker: None)

    def look(*_args: object, **_named: object) -> bool:
        looks.append(now[0])
        return False

    monkeypatch.setattr(f"{where}.work.find_prunable", look)
    shelves = images.ImageInventories(box)
    shelves.step()
    looks.clear()
    with own_redis.pubsub() as heard:  # type: ignore[no-untyped-call]
        heard.subscribe(live_events.wake_channel(box.slug))
        wait_until(heard.get_message, "Redis does not take the subscription")
        assert lifecycle.reached_ready(run, engine_version="1")
        said = wait_until(heard.get_message, "the watcher is not woken")
    of_start = {
        live_events.Topic.RUNS,
        live_events.Topic.CHECKPOINTS,
        live_events.Topic.MODELS,
        live_events.Topic.IMAGES,
    }
    assert (said["type"], live_events.topics_of(said["data"])) == ("message", of_start)

    for seconds, has_started, is_seen in ((3, True, False), (3, True, True), (6, False, False)):
        now[0] += seconds
        if has_started:
            type(run).objects.filter(pk=run.pk).update(started_at=timezone.now())
        shelves.step()
        assert bool(looks) is is_seen, (seconds, looks)
        looks.clear()
