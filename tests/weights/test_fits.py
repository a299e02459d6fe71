"""Whether a launch fits is told in the form, on the page and at the start, with what would help."""

import time
from dataclasses import replace
from typing import Any

import pytest
import redis
from django.conf import settings
from django.test import Client
from django.utils import timezone

from servers import events, tasks
from servers.host.weights.checkpoints import CheckpointFiles
from servers.launch.engines.launch import Launch
from servers.lifecycle.profiles import checks
from servers.lifecycle.profiles.knowledge import LaunchContext
from servers.lifecycle.weights import inventory
from servers.models import Box, CheckpointFacts, Profile, Role, Run, Server
from servers.models.runs.run import RunState
from servers.state import store
from tests import factories, samples
from tests.profiles.test_checks import browser, typed
from tests.weights.fit import models
from tests.weights.fit.models import GB, GIB

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]

TOTAL = 95 * GIB


@pytest.fixture
def box() -> Box:
    return factories.box(gpus=2, driver="580.142", hf_cache="~/.cache/huggingface")


@pytest.fixture
def server(box: Box) -> Server:
    made = factories.server(
        box, "coder", image="vllm/vllm-openai:v0.20.2", engine="vllm", checkpoint="org/coder",
        flags=("--gpu-memory-utilization", "0.9"), gpus="0",
    )  # fmt: skip
    CheckpointFacts.objects.create(
        box=box,
        source="org/coder@main",
        config=models.LLAMA_8B,
        weights=int(16.1 * GB),
        changed_at=timezone.now(),
    )
    return made


def sample(box: Box, *free: float, held: dict[str, float] | None = None) -> None:
    """What the box has just said: GiB free of each card, and held by containers on the first."""
    processes = [
        {"pid": number, "container": container, "name": "python3"}
        for number, container in enumerate(held or {}, start=100)
    ]
    used = [
        {"pid": number, "used": int(size * GIB)}
        for number, size in enumerate((held or {}).values(), start=100)
    ]
    cards = [
        {
            "index": index, "uuid": f"GPU-{index}", "name": samples.RTX, "kind": "discrete",
            "total": TOTAL, "free": int(size * GIB), "reserved": 0,
            "processes": used if index == 0 else [],
        }
        for index, size in enumerate(free)
    ]  # fmt: skip
    said: dict[str, Any] = {
        "t": time.time(), "gpus": cards, "processes": processes, "sees_host_pids": True,
        "meminfo": {"MemTotal": 200 * GIB, "MemAvailable": 100 * GIB},
    }  # fmt: skip
    events.publish_sample(box.slug, box.pk, said)


def test_the_form_shows_the_bar_and_a_click_makes_it_fit(server: Server) -> None:
    sample(server.box, 94.0, 94.0)
    eva = browser(Role.EDITOR)
    form = typed(eva, f"/profiles/{server.slug}/edit/") | {"profile": server.slug}
    assert "<strong>Fits:</strong>" in eva.post("/profiles/check/", form).content.decode()

    form["flags"] = "--gpu-memory-utilization 0.3 --max-num-seqs 16"
    text = eva.post("/profiles/check/", form).content.decode()

    assert "<strong>Does not fit:</strong> one request of 131,072 tokens" in text
    assert "Make it fit: --gpu-memory-utilization 0.38" in text
    about = "/profiles/fix/memory-fit/?about=--gpu-memory-utilization"
    fixed = eva.post(about, form).context["form"].initial["flags"]
    assert "--gpu-memory-utilization 0.38" in fixed
    assert Profile.objects.get().versions.count() == 1
    again = form | {"flags": fixed}
    assert "<strong>Fits:</strong>" in eva.post("/profiles/check/", again).content.decode()


def test_an_operator_applies_it_on_the_profiles_page(server: Server) -> None:
    sample(server.box, 60.0, 94.0)
    ben = browser(Role.OPERATOR)
    page = ben.get(f"/profiles/{server.slug}/").content.decode()
    assert "<strong>Would be refused:</strong>" in page
    assert "Make it fit: --gpu-memory-utilization 0.62" in page

    about = "?about=--gpu-memory-utilization"
    path = f"/profiles/{server.slug}/fix/memory-fit/{about}"
    assert ben.post(path, {"box": server.box.slug}).status_code == 302

    found = Profile.objects.get()
    assert found.launch.flags == ("--gpu-memory-utilization", "0.62")
    page = ben.get(f"/profiles/{server.slug}/").content.decode()
    assert "Would be refused" not in page


def test_a_start_that_vllm_would_refuse_asks_first(server: Server) -> None:
    sample(server.box, 60.0, 94.0)
    eva = browser(Role.EDITOR)

    asked = eva.post(f"/servers/{server.slug}/start/")

    text = asked.content.decode()
    assert asked.headers["HX-Retarget"] == "#dialog"
    assert "Free memory on device (60.00/95.00 GiB)" in text
    assert 'class="fit fit-no"' in text
    assert not Run.objects.exists()
    assert eva.post(f"/servers/{server.slug}/start/", {"despite": "it leaves"}).status_code == 204
    assert Run.objects.get().plan.overridden_errors == "it leaves"


def test_the_dialog_of_a_start_makes_it_fit_and_goes_on(server: Server) -> None:
    sample(server.box, 60.0, 94.0)
    ben = browser(Role.OPERATOR)
    text = ben.post(f"/servers/{server.slug}/start/").content.decode()
    fix = f"/servers/{server.slug}/start/fix/memory-fit/?about=--gpu-memory-utilization"
    assert f'hx-post="{fix}"' in text
    assert "Make it fit and start: --gpu-memory-utilization 0.62" in text

    assert ben.post(fix).status_code == 204

    assert Profile.objects.get().launch.flags == ("--gpu-memory-utilization", "0.62")
    assert Run.objects.get().version.number == 2


def test_a_restart_counts_what_its_own_container_holds_as_free(server: Server) -> None:
    run = factories.run(server, RunState.READY)
    sample(server.box, 8.0, 94.0, held={run.container_id: 86.0})
    known = checks.check_start(
        LaunchContext(server.profile.launch, server.box, server.profile, server)
    )
    assert [each.rule for each in known.findings if each.severity == "error"] == []

    other = factories.server(
        server.box, "other", image="vllm/vllm-openai:v0.20.2", engine="vllm", gpus="0"
    )
    known = checks.check_start(LaunchContext(other.profile.launch, other.box, other.profile, other))
    assert "vllm-free-memory" in [each.rule for each in known.findings]


def test_old_news_of_the_memory_is_none(server: Server) -> None:
    assert [each.free for each in LaunchContext(server.profile.launch, server.box).rooms] == [
        None,
        None,
    ]
    known = checks.check_start(LaunchContext(server.profile.launch, server.box, server.profile))
    assert known.fit is not None
    assert known.fit.unknown == ("what is free now",)


def test_what_the_same_launch_took_outranks_the_formula(server: Server) -> None:
    sample(server.box, 94.0, 94.0)
    ran = factories.run(server, RunState.STOPPED, peak_memory=71 * GIB, gpus="0")

    known = checks.check_start(
        LaunchContext(server.profile.launch, server.box, server.profile, server)
    )
    assert known.fit is not None
    assert known.fit.is_measured
    assert "took 71.0 GiB on each GPU" in known.fit.says
    assert f"run {ran.pk}" in [each.source for each in known.fit.numbers]

    named = replace(server.profile.launch, served_name="another", host_port=8000)
    known = checks.check_start(LaunchContext(named, server.box, server.profile, server))
    assert known.fit is not None
    assert known.fit.is_measured
    other = replace(server.profile.launch, flags=("--gpu-memory-utilization", "0.5"))
    known = checks.check_start(LaunchContext(other, server.box, server.profile, server))
    assert known.fit is not None
    assert not known.fit.is_measured


def test_a_viewer_sees_it_and_gets_no_button(server: Server) -> None:
    sample(server.box, 60.0, 94.0)
    client: Client = browser(Role.VIEWER)

    page = client.get(f"/profiles/{server.slug}/").content.decode()

    assert "<strong>Would be refused:</strong>" in page
    assert "Make it fit" not in page


def test_a_model_that_no_profile_names_yet_is_asked_for(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker's answer, without a worker: the task runs as soon as it is asked for."""
    asked: list[str] = []

    def answer_at_once(on: Box, name: str) -> None:
        asked.append(name)
        found = CheckpointFiles(config=models.LLAMA_8B, weights=int(16.1 * GB))
        store.give(inventory.question(name, on), inventory.facts(found))

    monkeypatch.setattr("servers.tasks.ask_for_checkpoint", answer_at_once)
    sample(box, 94.0, 94.0)
    eva = browser(Role.EDITOR)
    form = typed(eva, "/profiles/new/") | {
        "name": "Fresh", "checkpoint": "org/new", "engine": "vllm", "box": str(box.pk),
        "image": "vllm/vllm-openai:v0.20.2", "gpus": "0",
    }  # fmt: skip
    first = eva.post("/profiles/check/", form).content.decode()
    assert 'hx-post="/profiles/fit/"' in first

    text = eva.post("/profiles/fit/", form).content.decode()

    assert asked == ["org/new@main"]
    assert "<strong>Fits:</strong>" in text
    assert "<strong>Fits:</strong>" in eva.post("/profiles/check/", form).content.decode()
    assert not CheckpointFacts.objects.exists()

    # A button that was there is answered, however long ago the box had told of the model.
    tight = form | {"flags": "--gpu-memory-utilization 0.3 --max-num-seqs 16"}
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        for key in client.scan_iter("inferdash:answer:*"):
            client.delete(key)
    button = "/profiles/fix/memory-fit/?about=--gpu-memory-utilization"
    fixed = eva.post(button, tight).context["form"].initial["flags"]
    assert "--gpu-memory-utilization 0.38" in fixed


@pytest.mark.parametrize("path", ["/profiles/check/", "/profiles/fit/"])
def test_a_form_asks_again_where_the_answer_came_too_late_for_what_it_shows(
    path: str, box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample(box, 94.0, 94.0)
    known = checks.check_start

    def answered_meanwhile(*args: Any) -> checks.CheckReport:
        said = known(*args)
        found = CheckpointFiles(config=models.LLAMA_8B, weights=int(16.1 * GB))
        store.give(inventory.question("org/new@main", box), inventory.facts(found))
        return said

    monkeypatch.setattr("servers.lifecycle.profiles.checks.check_start", answered_meanwhile)
    monkeypatch.setattr("servers.tasks.ask_for_checkpoint", lambda _box, _name: None)
    monkeypatch.setattr("servers.views.profiles.checks.ANSWERS_WITHIN", 1)
    eva = browser(Role.EDITOR)
    form = typed(eva, "/profiles/new/") | {
        "name": "Fresh", "checkpoint": "org/new", "engine": "vllm", "box": str(box.pk),
        "image": "vllm/vllm-openai:v0.20.2", "gpus": "0",
    }  # fmt: skip

    assert 'hx-post="/profiles/fit/' in eva.post(path, form).content.decode()
    assert "<strong>Fits:</strong>" in eva.post("/profiles/fit/", form).content.decode()


def test_a_box_that_has_no_such_model_says_so_once(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(on: Box, name: str) -> None:
        store.give(inventory.question(name, on), {})

    monkeypatch.setattr("servers.tasks.ask_for_checkpoint", nothing)
    launch = Launch(engine="vllm", image="x", checkpoint="org/none")
    assert LaunchContext(launch, box).lacks_checkpoint_facts
    tasks.ask_for_checkpoint(box, "org/none@main")

    assert not LaunchContext(launch, box).lacks_checkpoint_facts
    assert LaunchContext(launch, box).checkpoint is None
