"""Idle servers that requests have started go to sleep, and wake when somebody asks for them."""

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from servers.host.runs import probes as host
from servers.host.runs.probes import Endpoint, EngineError
from servers.judge.runs import health as judge
from servers.launch.engines import ENGINES
from servers.launch.engines.launch import Launch
from servers.lifecycle import gateway
from servers.lifecycle.gateway import NotStartedError
from servers.models import Box, Role, Run, Server
from servers.models.runs.run import DesiredState, RunState, Sleep
from servers.templatetags import format
from servers.watcher.runs import runs
from servers.watcher.runs.runs import EngineSleeper
from tests import factories, samples
from tests.profiles.test_checks import browser
from tests.samples import GIB
from tests.scripted_engine import ScriptedEngine, Sleeper
from tests.waiting import wait_until

ABLE = {"engine": "vllm", "flags": ("--enable-sleep-mode",), "env": {"VLLM_SERVER_DEV_MODE": "1"}}


@pytest.mark.parametrize(
    ("sleep_info", "state", "words"),
    [
        (
            {"before": 75 * GIB, "after": 4 * GIB, "woke_in": 3.14},
            "asleep",
            "asleep: 71 GiB released, wakes in about 3.1 s",
        ),
        ({"before": 5 * GIB, "after": 4 * GIB}, "asleep", "asleep: 1.0 GiB released"),
        ({"before": GIB, "after": GIB}, "asleep", "asleep: nothing was released"),
        ({"before": None}, "asleep", "asleep: how much it released is not known"),
        ({"woke_in": 42.0}, "waking", "wakes up, which took 42 s the last time"),
        ({}, "waking", "wakes up"),
        ({}, "falling", "goes to sleep"),
    ],
)
def test_only_what_was_measured_is_said(sleep_info: dict[str, Any], state: str, words: str) -> None:
    assert str(judge.describe_sleep(sleep_info, state)) == words


def test_what_it_gave_back_must_be_free_before_it_wakes() -> None:
    sleep_info = {"before": 60 * GIB, "after": 0}
    cards = [samples.card(0, [(1, 80)]), samples.card(1, [])]
    sample = samples.sample(cards, [])
    free = {card["index"]: card["free"] for card in sample["gpus"]}

    assert judge.compute_wake_shortfall(sleep_info, sample, "1") == max(0, 60 * GIB - free[1])
    assert judge.compute_wake_shortfall(sleep_info, sample, "0") == 60 * GIB - free[0] > 0
    assert judge.compute_wake_shortfall(sleep_info, None, "0") == 0
    assert judge.compute_wake_shortfall({}, sample, "0") == 0


@pytest.mark.parametrize(
    ("engine", "flags", "env", "may"),
    [
        ("vllm", "--enable-sleep-mode", "1", True),
        ("vllm", "--enable-sleep-mode", "0", False),
        ("vllm", "--enable_sleep_mode", "1", True),
        ("vllm", "--enable-sleep-mode --no-enable-sleep-mode", "1", False),
        ("vllm", "", "1", False),
        ("sglang", "--enable-sleep-mode --enable-memory-saver", "1", False),
    ],
)
def test_an_engine_sleeps_only_as_it_was_started_for_it(
    engine: str, flags: str, env: str, may: bool
) -> None:
    launch = Launch(
        engine=engine, image="i", checkpoint="c", flags=tuple(flags.split()),
        env={"VLLM_SERVER_DEV_MODE": env},
    )  # fmt: skip
    assert ENGINES[engine].may_sleep(launch) is may


@pytest.fixture
def engine() -> Iterator[ScriptedEngine]:
    with ScriptedEngine(sleeper=Sleeper()) as engine:
        engine.answers["/metrics"] = (200, "vllm:num_requests_running 0\n")
        yield engine


def sleeper(engine: ScriptedEngine) -> Sleeper:
    assert engine.sleeper is not None
    return engine.sleeper


def test_each_level_is_left_as_vllm_wants_it(engine: ScriptedEngine) -> None:
    endpoint = Endpoint(address="127.0.0.1", port=engine.port)
    for level in (1, 2):
        host.sleep(endpoint, level)
        assert host.is_sleeping(endpoint) is True
        host.wake_engine(endpoint, level)
        assert host.is_sleeping(endpoint) is False

    assert sleeper(engine).asked == [
        "/sleep?level=1&mode=wait",
        "/wake_up",
        "/sleep?level=2&mode=wait",
        "/wake_up?tags=weights",
        "/collective_rpc",
        "/wake_up?tags=kv_cache",
    ]


def test_an_engine_without_the_paths_says_so() -> None:
    with ScriptedEngine() as engine:
        endpoint = Endpoint(address="127.0.0.1", port=engine.port)
        assert host.is_sleeping(endpoint) is None
        with pytest.raises(EngineError, match=r"/sleep\S+ with 404: Not Found"):
            host.sleep(endpoint, 1)
    with pytest.raises(EngineError, match="Nothing listens"):
        host.wake_engine(endpoint, 1)


@pytest.fixture
def box(own_redis: None, monkeypatch: pytest.MonkeyPatch) -> Box:
    monkeypatch.setattr(runs, "KNOWN_WITHIN", 0.0)
    monkeypatch.setattr(runs, "MEASURED_WITHIN", 5.0)
    return factories.box(gpus=1)


def run_of(box: Box, engine: ScriptedEngine, name: str = "coder", **values: Any) -> Run:
    launch = {"gpus": "0", "start_on_request": True, "stop_idle": 600, "when_idle": "sleep-1"}
    made = values.pop("launch", {})
    server = factories.server(box, name, model="qwen3-8b", **launch | ABLE | made)
    usual: dict[str, Any] = {
        "on_request": True, "address": "127.0.0.1", "port": engine.port, "gpus": "0",
        "ready_at": timezone.now() - timedelta(hours=1), "container_id": "c0ffee" + "0" * 58,
        "last_request_at": timezone.now() - timedelta(minutes=11),
    }  # fmt: skip
    return factories.run(server, **usual | values)


def holds(box: Box, gib: float, *, by: str = "c0ffee" + "0" * 58, later: float = 0) -> None:
    """What a sample says from now on; `later`: one for whoever waits for the next one."""
    processes = [samples.process(4711, by)]
    sample = samples.sample([samples.card(0, [(4711, gib)])], processes)
    factories.tell(box, sample | {"t": time.time() + later})


def until(step: Callable[[], None], run: Run, holds: Callable[[Run], bool]) -> None:
    def has_come() -> bool:
        step()
        run.refresh_from_db()
        return holds(run)

    wait_until(has_come, lambda: f"not {(run.sleep, run.health.sleep_info, run.status_message)}")


def asked(run: Run) -> None:
    found = Server.objects.select_related("run__version", "box", "held_back_by", "profile__current")
    gateway.ask(found.get(pk=run.server_id), by=factories.person(), passing=())


rows = pytest.mark.django_db(transaction=True)


@rows
def test_an_idle_one_sleeps_is_measured_and_woken_by_a_request(
    box: Box, engine: ScriptedEngine
) -> None:
    run, watcher = run_of(box, engine), EngineSleeper(box)
    holds(box, 75)
    sleeper_asked = sleeper(engine).asked

    def step() -> None:
        gateway.stop_idle(box)
        watcher.step()
        if sleeper_asked:
            holds(box, 4, later=60)

    until(step, run, lambda run: run.sleep == Sleep.ASLEEP)

    assert run.wanted == DesiredState.RUNNING
    assert run.shown_state == "asleep"
    assert gateway.describe_sleep(run) == "asleep: 71 GiB released"
    page = browser(Role.OPERATOR).get("/servers/coder/").content.decode()
    assert "Asleep: 71 GiB released. A request or a question wakes it." in page
    assert "It sleeps after 10m without one" in page
    assert run.sleep_moved_at is not None
    asleep_since = format.since(run.sleep_moved_at).partition(">")[0]
    assert asleep_since in page, "not since when it was ready"

    asked(run)
    until(step, run, lambda run: run.sleep == Sleep.AWAKE)
    assert sleeper_asked == ["/sleep?level=1&mode=wait", "/wake_up"]
    assert run.shown_state == RunState.READY
    assert run.wake_wanted_at is None
    assert "woke_in" in run.health.sleep_info
    step()
    assert len(sleeper_asked) == 2, "whoever has woken it has not been answered yet"


@rows
@pytest.mark.parametrize(
    "values",
    [
        lambda: {"on_request": False},
        lambda: {"requests_running": 1},
        lambda: {"last_request_at": timezone.now()},
        lambda: {"launch": {"stop_idle": 0}},
    ],
    ids=["of a person", "serving", "asked a moment ago", "never stopped"],
)
def test_neither_who_serves_nor_what_a_person_has_started_is_put_to_sleep(
    values: Callable[[], dict[str, Any]], box: Box, engine: ScriptedEngine
) -> None:
    run = run_of(box, engine, **values())

    EngineSleeper(box).step()

    run.refresh_from_db()
    assert (run.sleep, sleeper(engine).asked) == (Sleep.AWAKE, [])


@rows
def test_one_that_is_asked_in_the_last_moment_stays_awake(box: Box, engine: ScriptedEngine) -> None:
    engine.answers["/metrics"] = (200, "vllm:num_requests_running 1\n")
    run, watcher = run_of(box, engine), EngineSleeper(box)

    watcher.step()
    run.refresh_from_db()
    assert run.sleep == Sleep.FALLING
    Run.objects.filter(pk=run.pk).write(health__last_request_at=timezone.now())
    until(watcher.step, run, lambda run: run.sleep == Sleep.AWAKE)

    assert sleeper(engine).asked == []


@rows
def test_what_cannot_sleep_is_stopped_as_before_and_says_why(
    box: Box, engine: ScriptedEngine
) -> None:
    unable = run_of(box, engine, "unable", launch={"flags": ()})
    failing, watcher = run_of(box, engine, "failing"), EngineSleeper(box)
    sleeper(engine).fails["/sleep"] = (500, '{"error": {"message": "no cumem allocator"}}')

    def step() -> None:
        gateway.stop_idle(box)
        watcher.step()

    until(step, failing, lambda run: run.wanted == DesiredState.DRAINED)
    unable.refresh_from_db()
    assert unable.status_message == "Stopped after 10m without a request; one starts it."
    assert failing.status_message.endswith(
        "It was to sleep, and did not: The engine answered /sleep?level=1&mode=wait with 500: "
        "no cumem allocator"
    )


def asleep(box: Box, engine: ScriptedEngine, **values: Any) -> Run:
    sleeper(engine).is_asleep = True
    sleep_info = {"level": 1, "before": 75 * GIB, "after": 4 * GIB}
    return run_of(box, engine, sleep=Sleep.ASLEEP, sleep_info=sleep_info, **values)


@rows
def test_a_wake_that_fails_says_why_and_what_to_do(box: Box, engine: ScriptedEngine) -> None:
    run, watcher = asleep(box, engine), EngineSleeper(box)
    sleeper(engine).fails["/wake_up"] = (500, "CUDA out of memory")
    holds(box, 4)

    asked(run)
    until(watcher.step, run, lambda run: bool(run.sleep_trouble))

    assert run.sleep == Sleep.ASLEEP
    assert run.sleep_trouble == (
        "coder sleeps and could not be woken. The engine answered /wake_up with 500: CUDA out of "
        "memory. Restart it on its page: that loads it anew. Its log says more."
    )
    with pytest.raises(NotStartedError, match="could not be woken"):
        asked(run)
    assert "Restart it on its page" in browser(Role.OPERATOR).get("/").content.decode()


@rows
def test_another_watcher_asks_the_engine_how_it_was_left(box: Box, engine: ScriptedEngine) -> None:
    run = run_of(box, engine, sleep=Sleep.WAKING, sleep_moved_at=timezone.now())

    until(EngineSleeper(box).step, run, lambda run: run.sleep == Sleep.AWAKE)

    sleeper(engine).is_asleep = True
    Run.objects.update(sleep=Sleep.FALLING)
    until(EngineSleeper(box).step, run, lambda run: run.sleep == Sleep.ASLEEP)
    # Woken by somebody with curl.
    sleeper(engine).is_asleep = False
    until(EngineSleeper(box).step, run, lambda run: run.sleep == Sleep.AWAKE)


@rows
def test_it_waits_for_its_memory_and_who_is_idle_on_it_is_stopped(
    box: Box, engine: ScriptedEngine
) -> None:
    run, watcher = asleep(box, engine), EngineSleeper(box)
    other = run_of(box, engine, "other", container_id="d" * 64, launch={"when_idle": ""})
    Run.objects.filter(pk=other.pk).write(
        health__last_request_at=timezone.now() - timedelta(minutes=5)
    )
    holds(box, 90, by="d" * 64)

    asked(run)
    watcher.step()

    run.refresh_from_db()
    other.refresh_from_db()
    assert (run.sleep, sleeper(engine).asked) == (Sleep.ASLEEP, [])
    assert other.status_message == "Stopped to make room for coder, which a request needs."
    holds(box, 4)
    until(watcher.step, run, lambda run: run.sleep == Sleep.AWAKE)


@rows
def test_a_persons_server_is_not_stopped_for_it(box: Box, engine: ScriptedEngine) -> None:
    run = asleep(box, engine)
    run_of(box, engine, "mine", container_id="d" * 64, on_request=False)
    holds(box, 90, by="d" * 64)

    with pytest.raises(NotStartedError, match=r"coder needs GPU 0, held by mine \(ada\)"):
        asked(run)
    run.refresh_from_db()
    assert run.wake_wanted_at is None


@rows
def test_keep_running_wakes_it(box: Box, engine: ScriptedEngine) -> None:
    run, watcher = asleep(box, engine), EngineSleeper(box)
    holds(box, 4)

    assert browser(Role.OPERATOR).post("/servers/coder/keep/").status_code == 204
    until(watcher.step, run, lambda run: run.sleep == Sleep.AWAKE)

    assert not run.on_request


@rows
def test_one_that_sleeps_makes_room_in_its_turn(box: Box, engine: ScriptedEngine) -> None:
    run = asleep(box, engine)
    second = factories.server(box, "second", model="qwen3-8b", gpus="0", start_on_request=True)
    holds(box, 4)

    gateway.ask(second, by=factories.person(), passing=())

    run.refresh_from_db()
    assert run.status_message == "Stopped to make room for second, which a request needs."
