"""Who is in the way of a start, what is asked then, and what each answer does."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from servers.judge.runs.gpu_conflicts import (
    GpuConflict,
    GpuRequest,
    OtherRun,
    find_conflict,
    ranges,
)
from servers.lifecycle.runs import gpu_conflicts
from servers.lifecycle.runs.ownership import require_managed
from servers.models import ActiveUser, AuditEntry, Box, HostResources, Role, Run, Server, User
from servers.models.runs.run import DesiredState, RunState
from servers.templatetags.format import clock
from tests import factories, samples
from tests.profiles.test_checks import browser
from tests.runs.test_preflight import IMAGE, around, image
from tests.samples import GIB

CLICKED = datetime(2026, 11, 21, 16, 40, tzinfo=UTC)


def other(state: str = "ready", *gpus: int, **values: Any) -> OtherRun:
    said = {"run": 1, "name": "glm-5", "by": "maria", "since": CLICKED, "container": "c1"}
    return OtherRun(state=state, gpus=frozenset(gpus), **{**said, **values})


def start(*gpus: int, **values: Any) -> GpuRequest:
    return GpuRequest(**{"patience": "asked", "gpus": frozenset(gpus), **values})


def held(size: float, *gpus: int) -> dict[str, Any]:
    """A sample in which the container c1 holds so many GiB of each of these four cards' memory."""
    cards = [samples.card(at, [(50 + at, size)] if at in gpus else []) for at in range(4)]
    return samples.sample(cards, [samples.process(50 + at, "c1") for at in gpus])


def kinds(found: GpuConflict) -> list[str]:
    return [holder.kind for holder in found.holders]


def test_whoever_holds_a_card_of_the_start_is_named() -> None:
    found = find_conflict(start(0, 1, 2, 3), [other("ready", 2, 3)], held(61, 2, 3))

    assert kinds(found) == ["server"]
    assert found.holders[0].held == 122 * GIB
    assert found.where == "GPUs 0-3"
    assert found.sentence() == "It waits for GPUs 0-3, held by glm-5 (maria)."


def test_a_server_on_other_cards_is_in_nobodys_way() -> None:
    assert not find_conflict(start(0, 1), [other("ready", 2, 3)], held(61, 2, 3)).holders


def test_a_card_that_was_given_and_is_not_used_is_not_taken() -> None:
    both = [other("ready", 0, 1, 2, 3)]

    assert not find_conflict(start(3), both, held(61, 0)).holders
    assert find_conflict(start(3), both, None).holders, "nobody can tell"
    assert find_conflict(start(3), [other("starting", 0, 1, 2, 3)], held(61, 0)).is_loading


def test_who_fits_beside_is_not_asked() -> None:
    assert not find_conflict(start(0, fits=True), [other("ready", 0)], held(20, 0)).holders
    assert find_conflict(start(0, fits=False), [other("ready", 0)], held(20, 0)).holders
    assert find_conflict(start(0, fits=True), [other("starting", 0)], held(20, 0)).is_loading


def test_nothing_is_claimed_where_the_gpus_are_not_known() -> None:
    everywhere = [other("starting", 0, 1, 2, 3)]

    assert not find_conflict(start(gpus=None), everywhere, None).holders
    assert not find_conflict(start(gpus=frozenset()), everywhere, None).holders, "it uses none"


def test_on_unified_memory_it_is_bytes_that_are_taken() -> None:
    sample = samples.sample(
        [samples.unified(20, [(50, 61.0), (60, 9.0)])],
        [samples.process(50, "c1"), samples.process(60, user="lin", name="python3")],
    )
    short = start(0, is_unified=True, is_short=True, missing=12 * GIB)
    found = find_conflict(short, [other("ready", 0)], sample)

    assert kinds(found) == ["server", "process"]
    assert (found.holders[1].by, found.holders[1].held) == ("lin", 9 * GIB)
    assert found.sentence() == (
        "It waits for 12 GiB more of the memory that GPU and machine share; glm-5 (maria) and "
        "process 60 (python3) (lin) have it."
    )
    assert not find_conflict(start(0, is_unified=True), [other("ready", 0)], sample).holders


def test_somebody_elses_program_is_named_but_not_a_desktop() -> None:
    sample = samples.sample(
        [samples.card(0, [(60, 9.0), (61, 2.0), (62, 0.3)])],
        [
            samples.process(60, user="lin", name="python3", title="python3 train.py"),
            samples.process(61, user="ada", name="Xorg", title="/usr/lib/xorg/Xorg vt1"),
            samples.process(62, user="ada", name="nvtop", title="nvtop"),
        ],
    )
    found = find_conflict(start(0), [], sample)

    assert [str(each) for each in found.holders] == ["process 60 (python3 train.py) (lin)"]
    assert not found.holders[0].may_be_stopped


@pytest.mark.parametrize("is_unified", [True, False])
def test_one_engine_loads_at_a_time(is_unified: bool) -> None:
    loads = [other("starting", 0)]

    for patience in ("asked", "told", "auto"):
        found = find_conflict(start(0, patience=patience, is_unified=is_unified), loads, None)
        assert found.is_loading, patience
    assert "until glm-5 (maria) is ready" in found.sentence()
    plain = find_conflict(start(0, patience="plain", is_unified=is_unified), loads, None)
    # Whoever wanted a card of its own at once was asked.
    assert plain.is_loading == is_unified


def test_those_who_wait_go_in_the_order_of_their_clicks() -> None:
    first = other("queued", 0, 1, 2, 3, run=1, waits=True)
    second = other("queued", 0, run=2, waits=True, since=CLICKED + timedelta(seconds=5))
    mine: dict[str, Any] = {"patience": "told"}

    assert not find_conflict(
        start(0, 1, 2, 3, since=(first.since, 1), **mine), [second], None
    ).holders
    behind = find_conflict(start(0, since=(second.since, 2), **mine), [first], None)
    assert kinds(behind) == ["ahead"]
    assert behind.sentence() == "It waits for GPU 0, and glm-5 (maria) is first."
    # Nobody who waits for other cards is in the way, and nobody who wants them at once waits.
    assert not find_conflict(start(0, **mine), [other("queued", 1, waits=True)], None).holders
    assert not find_conflict(start(0, patience="plain", is_unified=True), [first], None).holders
    assert not find_conflict(start(0, patience="auto"), [first], None).holders


def test_what_ran_beside_others_starts_beside_them_again_unless_it_would_be_refused() -> None:
    there = [other("ready", 0)]
    mine: dict[str, Any] = {"patience": "auto"}

    assert not find_conflict(start(0, **mine), there, held(20, 0)).holders
    assert find_conflict(start(0, fits=False, is_short=True, **mine), there, held(20, 0)).holders


def test_what_starts_again_by_itself_keeps_its_place() -> None:
    crashed = other("planned", 0)

    assert kinds(find_conflict(start(0, patience="told"), [crashed], None)) == ["planned"]
    assert not find_conflict(start(0, patience="auto"), [crashed], None).holders


def test_two_that_start_at_once_on_one_pool_go_one_after_the_other() -> None:
    mine: dict[str, Any] = {"patience": "plain", "is_unified": True}
    earlier, later = (CLICKED, 1), (CLICKED, 2)

    assert find_conflict(start(0, since=later, **mine), [other("queued", 0, run=1)], None).holders
    assert not find_conflict(
        start(0, since=earlier, **mine), [other("queued", 0, run=2)], None
    ).holders


def test_indices_read_as_people_write_them() -> None:
    assert ranges([3, 0, 1, 2, 6]) == "0-3, 6"
    assert ranges([5]) == "5"


# In the browser's answers


@pytest.fixture
def box(own_redis: None) -> Box:
    made = factories.box(gpus=4, driver="580.142")
    factories.observation(HostResources, made, found=dict(around().found), images=image())
    return made


@pytest.fixture
def maria() -> User:
    return factories.person("maria", Role.OPERATOR)


@pytest.fixture
def glm(box: Box, maria: User) -> Server:
    made = factories.server(box, "glm-5", image=IMAGE, gpus="0,1")
    factories.run(made, started_by=maria, requests_running=2, last_request_at=timezone.now())
    assert made.run is not None
    of = made.run.container_id
    cards = [samples.card(at, [(50 + at, 61.0)] if at < 2 else []) for at in range(4)]
    factories.tell(box, samples.sample(cards, [samples.process(50 + at, of) for at in (0, 1)]))
    return made


@pytest.fixture
def qwen(box: Box) -> Server:
    flags = ("--tensor-parallel-size", "4", "--gpu-memory-utilization", "0.3")
    values: dict[str, Any] = {"engine": "vllm", "image": IMAGE, "flags": flags, "gpus": "all"}
    return factories.server(box, "qwen", shm_size=16 * GIB, **values)


@pytest.fixture
def ivan(db: None) -> Client:
    return browser(Role.OPERATOR)


def newest(of: Server) -> Run:
    return Run.objects.filter(server=of).latest("pk")


def words(answer: Any) -> str:
    return " ".join(answer.content.decode().split())


@pytest.mark.django_db
def test_a_start_on_taken_gpus_says_who_has_them_and_starts_nothing(
    ivan: Client, glm: Server, qwen: Server
) -> None:
    answer = ivan.post("/servers/qwen/start/")

    assert answer.headers["HX-Retarget"] == "#dialog"
    said = words(answer)

    assert "GPUs 0-3 are taken" in said
    assert "<strong>glm-5</strong>, started by <strong>maria</strong>" in said
    assert "2 requests running" in said
    assert "122 GiB on GPUs 0-3" in said
    assert "maria’s" in said
    assert not qwen.runs.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(("seconds", "minutes"), [("1800", 30), ("0", None), ("77", 120)])
def test_it_waits_for_as_long_as_was_chosen(
    seconds: str,
    minutes: int | None,
    ivan: Client,
    glm: Server,
    qwen: Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clicked = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: clicked)

    answer = ivan.post("/servers/qwen/start/", {"do": "wait", "wait": seconds})

    assert answer.status_code == 204
    run = newest(qwen)
    assert (run.state, run.waits) == (RunState.QUEUED, True)
    if minutes is None:
        assert run.waits_until is None
    else:
        assert run.waits_until == clicked + timedelta(minutes=minutes)
    assert newest(glm).wanted == DesiredState.RUNNING


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("answer", "wanted"), [("drain", DesiredState.DRAINED), ("stop", DesiredState.STOPPED)]
)
def test_the_one_that_was_named_is_stopped_first(
    answer: str, wanted: DesiredState, ivan: Client, glm: Server, qwen: Server
) -> None:
    ivan.post("/servers/qwen/start/", {"do": answer, "holder": str(newest(glm).pk)})

    assert newest(glm).wanted == wanted
    assert newest(qwen).waits
    assert AuditEntry.objects.filter(action="stop", subject="glm-5").exists()


@pytest.mark.django_db
def test_nobody_is_stopped_who_was_not_named(ivan: Client, glm: Server, qwen: Server) -> None:
    ivan.post("/servers/qwen/start/", {"do": "stop"})
    assert newest(glm).wanted == DesiredState.RUNNING

    elsewhere = factories.run(factories.server(factories.box("spark-1"), "gemma-tiny"))
    other = factories.server(glm.box, "gpt-oss-120b", image=IMAGE, gpus="0")
    ivan.post("/servers/gpt-oss-120b/start/", {"do": "stop", "holder": [str(elsewhere.pk), "x"]})
    elsewhere.refresh_from_db()
    assert elsewhere.wanted == DesiredState.RUNNING
    assert newest(other).waits


@pytest.mark.django_db
def test_what_is_only_watched_is_named_and_not_stopped(
    ivan: Client, glm: Server, qwen: Server
) -> None:
    Run.objects.filter(server=glm).update(is_watched=True)

    said = words(ivan.post("/servers/qwen/start/"))
    assert "<strong>glm-5</strong>" in said
    assert "Stop now" not in said
    ivan.post("/servers/qwen/start/", {"do": "stop", "holder": str(newest(glm).pk)})
    assert newest(glm).wanted == DesiredState.RUNNING
    assert newest(qwen).waits


@pytest.mark.django_db
def test_it_may_be_started_beside_who_serves_but_not_beside_who_loads(
    ivan: Client, glm: Server, qwen: Server
) -> None:
    Run.objects.filter(server=glm).update(state=RunState.STARTING)
    asked = words(ivan.post("/servers/qwen/start/", {"do": "beside"}))
    assert "Another load is filling GPUs 0-3" in asked
    assert "Start anyway" not in asked, "that is an editor's"
    assert not qwen.runs.exists()

    Run.objects.filter(server=glm).update(state=RunState.READY)
    assert ivan.post("/servers/qwen/start/", {"do": "beside"}).status_code == 204
    assert not newest(qwen).waits


@pytest.mark.django_db
def test_what_the_engine_would_refuse_beside_another_can_wait_for_it(
    ivan: Client, glm: Server, qwen: Server
) -> None:
    profile = qwen.profile
    greedy = replace(profile.launch, flags=("--tensor-parallel-size", "4"))
    profile.save_version(greedy, by=factories.person(), message="All of it")

    said = words(ivan.post("/servers/qwen/start/"))

    assert "GPUs 0-3 are taken" in said
    assert "vLLM wants 0.92 of it" in said
    assert "Start beside it" not in said
    ivan.post("/servers/qwen/start/", {"do": "beside"})
    assert not qwen.runs.exists()
    assert ivan.post("/servers/qwen/start/", {"do": "wait"}).status_code == 204


@pytest.mark.django_db
def test_an_editor_may_start_it_beside_who_loads_and_says_why(glm: Server, qwen: Server) -> None:
    Run.objects.filter(server=glm).update(state=RunState.STARTING)
    eva = browser(Role.EDITOR)

    assert "Why start it at once" in words(eva.post("/servers/qwen/start/"))
    assert eva.post("/servers/qwen/start/", {"despite": "small"}).status_code == 204
    assert newest(qwen).plan.overridden_errors == "small"


@pytest.mark.django_db
def test_a_restart_asks_nothing_about_the_gpus_that_it_has(
    ivan: Client, glm: Server, qwen: Server
) -> None:
    factories.run(qwen)

    assert ivan.post("/servers/qwen/restart/").status_code == 204


@pytest.mark.django_db
def test_the_page_names_who_waits_and_until_when(ivan: Client, glm: Server, qwen: Server) -> None:
    ivan.post("/servers/qwen/start/", {"do": "wait", "wait": "1800"})
    run = newest(qwen)
    gpu_conflicts.check_turn(require_managed(run))

    for page in ("/", "/servers/glm-5/", "/boxes/rtx8/"):
        said = words(ivan.get(page))
        assert "qwen</a> of <strong>a-operator</strong> waits for its GPUs until" in said, page
        # With the day, where that is tomorrow.
        assert clock(run.waits_until) in said
    assert "Gives up at" in words(ivan.get("/servers/qwen/"))


@pytest.mark.django_db
def test_pages_say_who_started_it_and_who_uses_it(ivan: Client, glm: Server) -> None:
    ActiveUser.objects.create(run=newest(glm), by=factories.person("lin"), at=timezone.now())

    def said(page: str) -> str:
        return words(ivan.get(page))

    assert "Started by <strong>maria</strong>" in said("/servers/glm-5/")
    assert "<dt>Requests running</dt><dd>2</dd>" in said("/servers/glm-5/")
    assert "Used by <strong>lin</strong>" in said("/")
    assert "started by <strong>maria</strong>" in said("/boxes/rtx8/")
    ago = timezone.now() - timedelta(hours=3, minutes=12)
    Run.objects.write(health__requests_running=0, health__last_request_at=ago)
    for page in ("/servers/glm-5/", "/boxes/rtx8/"):
        assert "no request for <time" in said(page)
        assert ">3 h 12 min</time>" in said(page)
    Run.objects.write(health__requests_running=None, health__last_request_at=None)
    assert "usage unknown: metrics are off" in said("/servers/glm-5/")
    assert "<dt>Running</dt><dd>–</dd>" in said("/")


@pytest.mark.django_db
def test_a_start_that_nobody_is_in_the_way_of_asks_nothing(
    ivan: Client, glm: Server, box: Box
) -> None:
    free = factories.server(box, "gemma-tiny", image=IMAGE, gpus="3")

    assert ivan.post("/servers/gemma-tiny/start/").status_code == 204
    assert not newest(free).waits
