"""What stops a start before it is made, with its reason and its remedy, and who may override it."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django.utils.html import strip_tags

from servers import tasks
from servers.judge.profiles.preflight import OtherWorkload, PreflightItem, StartContext, preflight
from servers.launch.engines.placement import Place
from servers.lifecycle.profiles import path_reports
from servers.lifecycle.profiles import preflight as lifecycle
from servers.lifecycle.profiles.knowledge import LaunchContext
from servers.management.commands import preflight as command
from servers.models import (
    Box,
    CheckpointFacts,
    HostResources,
    Key,
    Profile,
    ProfileVersion,
    Role,
    Run,
    Server,
)
from servers.models.runs.run import RunState
from tests import factories
from tests.profiles.test_checks import browser, typed
from tests.weights.fit import models
from tests.weights.fit.models import GB, GIB, subject
from tests.weights.test_fits import sample

IMAGE = "registry.example/engine"
REQUIRE = "cuda>=12.8 brand=unknown,driver>=535,driver<536 brand=tesla,driver>=535,driver<536"


def image(**values: Any) -> dict[str, Any]:
    there = {"id": "sha256:1", "architecture": "amd64", "size": 20 * GIB, "require": REQUIRE}
    return {IMAGE: there | values}


def around(**values: Any) -> StartContext:
    found = {
        "architecture": "x86_64", "runtimes": ["nvidia", "runc"], "listening": [22],
        "disks": {
            "images": {"path": "/var/lib/docker", "free": 400 * GIB, "total": 900 * GIB},
            "cache": {"path": "/home/ada/.cache/huggingface", "free": 80 * GIB, "total": 900 * GIB},
            "shm": {"path": "/dev/shm", "free": 60 * GIB, "total": 64 * GIB},  # noqa: S108
        },
    }  # fmt: skip
    found |= values.pop("found", {})
    said: dict[str, Any] = {"box": "rtx8", "images": image(), "checkpoint": "there", **values}
    return StartContext(found=found, **said)


def checked(
    here: StartContext, *flags: str, driver: str = "580.142", **launch: Any
) -> dict[str, PreflightItem]:
    asked = replace(subject("vllm", *flags, count=2, **launch), driver=driver)
    return {item.id: item for item in preflight(asked, here, None)}


def test_a_box_that_has_everything_stops_nothing() -> None:
    found = checked(around())

    assert {item.level for item in found.values()} == {"ok"}
    assert {"image", "driver", "toolkit", "port", "gpus", "checkpoint", "image-disk"} <= set(found)


def test_what_is_not_known_is_said_and_stops_nothing() -> None:
    asked = replace(subject("vllm"), driver="", gpus=None, rooms=None)
    found = preflight(asked, StartContext(box="rtx8"), None)

    assert "error" not in {item.level for item in found}
    assert {item.id for item in found if item.level == "unknown"} == {"image", "gpus", "checkpoint"}


def test_an_image_for_another_processor() -> None:
    found = checked(around(found={"architecture": "aarch64"}))["image"]

    assert found.level == "error"
    assert "built for amd64, and rtx8 is arm64" in found.says
    assert "published for arm64" in found.remedy
    absent = checked(around(images={IMAGE: None}))
    assert absent["image"].level == "ok"
    assert "pulled at the start" in absent["image"].says


@pytest.mark.parametrize(
    ("driver", "require", "level"),
    [
        ("550.54.15", "cuda>=13.0", "error"),
        ("570.86", REQUIRE, "ok"),
        ("550.54.15", REQUIRE, "error"),
        ("535.104", REQUIRE, "unknown"),  # depends on the brand of the card
        ("", REQUIRE, "unknown"),
        ("650.1", "cuda>=14.2", "unknown"),  # newer than anything known here
    ],
)
def test_a_driver_against_what_the_image_requires(driver: str, require: str, level: str) -> None:
    found = checked(around(images=image(require=require)), driver=driver)["driver"]

    assert found.level == level
    if level == "error":
        assert "is too old" in found.says
        assert "Install driver 5" in found.remedy


def test_an_image_that_requires_nothing_says_nothing_of_the_driver() -> None:
    assert "driver" not in checked(around(images=image(require="")), driver="")


def test_nvidias_toolkit_and_a_runtime_that_docker_does_not_have() -> None:
    none = around(found={"runtimes": ["runc"], "toolkit": False})
    assert checked(none)["toolkit"].level == "warning"
    assert "nvidia-ctk runtime configure" in checked(none)["toolkit"].remedy
    assert checked(none, runtime="nvidia")["runtime"].level == "error"
    assert "toolkit" not in checked(none, gpus="none")
    assert checked(around(found={"runtimes": ["runc"], "toolkit": True}))["toolkit"].level == "ok"


def test_a_port_that_somebody_has() -> None:
    taken = around(found={"listening": [22, 8000]})
    found = checked(taken, host_port=8000)["port"]
    assert found.level == "error"
    assert "taken by another program" in found.says
    assert "sport = :8000" in found.remedy
    # What the run has that this start replaces is its own.
    assert (
        checked(replace(taken, own_ports=frozenset({8000})), host_port=8000)["port"].level == "ok"
    )
    glm = OtherWorkload(name="glm-5", gpus=frozenset(), ports=frozenset({8000}), is_loading=False)
    others = around(found={"listening": [8000]}, port_holders={8000: "the container speech"})
    assert "taken by the container speech" in checked(others, host_port=8000)["port"].says
    assert "by glm-5" in checked(around(other_workloads=(glm,)), network="host")["port"].says
    assert checked(around(), network="host")["port"].level == "ok"
    assert checked(around(found={"listening": None}), host_port=9)["port"].level == "unknown"


def neighbour(*gpus: int, loading: bool = False) -> OtherWorkload:
    return OtherWorkload(name="glm-5", gpus=frozenset(gpus), ports=frozenset(), is_loading=loading)


def test_gpus_that_another_server_has() -> None:
    found = checked(around(other_workloads=(neighbour(1),)))
    assert found["shared"].level == "warning"
    assert "glm-5 also runs on a GPU of this start" in found["shared"].says
    assert "shared" not in checked(around(other_workloads=(neighbour(1),)), gpus="0")
    assert (
        checked(around(other_workloads=(neighbour(1, loading=True),)))["loading"].level == "error"
    )
    assert "loading" not in checked(around(other_workloads=(neighbour(1, loading=True),)), gpus="0")
    # A profile that says which and not where goes to the idle one.
    idle = checked(around(other_workloads=(neighbour(1, loading=True),)), gpus="1x RTX PRO 6000")
    assert idle["gpus"].level == "ok"
    both = around(other_workloads=(neighbour(0, 1, loading=True),))
    assert checked(both, gpus="1x RTX PRO 6000")["loading"].level == "error"


def test_on_unified_memory_servers_share_the_pool_but_load_one_at_a_time() -> None:
    spark = subject("vllm", card=models.GB10, kind="unified")
    shared = {i.id: i for i in preflight(spark, around(other_workloads=(neighbour(0),)), None)}
    assert shared["gpus"].level == "ok"
    assert "shared by all servers" in shared["gpus"].says

    loads = around(other_workloads=(neighbour(0, loading=True),))
    found = {i.id: i for i in preflight(spark, loads, None)}["loading"]
    assert found.level == "error"
    assert "glm-5 is being loaded on" in found.says
    assert "Wait until glm-5 is ready" in found.remedy


def test_a_checkpoint_that_cannot_be_had() -> None:
    path = checked(around(checkpoint="missing"), checkpoint="/models/none")["checkpoint"]
    assert path.level == "error"
    offline = checked(around(checkpoint="missing"), env={"HF_HUB_OFFLINE": "1"})["checkpoint"]
    assert offline.level == "error"
    rest = checked(around(checkpoint="part", missing=7 * GIB))["checkpoint"]
    assert rest.level == "ok"
    assert "downloads the rest, 7.0 GiB" in rest.says


def test_a_model_that_was_refused_wants_a_token() -> None:
    refused = around(checkpoint="missing", was_refused=True)
    assert checked(refused)["token"].level == "error"
    assert checked(replace(refused, has_token=True))["token"].level == "warning"
    assert "token" not in checked(around(was_refused=True))
    expired = checked(replace(around(checkpoint="missing", remote="expired"), has_token=True))
    assert expired["token"].level == "error"
    assert "has expired, was revoked" in expired["token"].says
    assert expired["checkpoint"].level == "ok"
    assert "token" not in checked(around(checkpoint="missing"))


def test_disks_that_are_too_small() -> None:
    whole = checked(around(checkpoint="part", missing=200 * GIB))["weights-disk"]
    assert whole.level == "error"
    assert "200.0 GiB of weights have to be downloaded" in whole.says
    little = {"disks": {"images": {"path": "/var/lib/docker", "free": 9 * GIB, "total": 90 * GIB}}}
    assert checked(around(found=little, images={IMAGE: None}))["image-disk"].level == "warning"
    assert checked(around(found=little))["image-disk"].level == "ok"


def test_a_box_without_a_cache_loses_what_it_downloads() -> None:
    lost = checked(around(has_cache=False), checkpoint="Qwen/Qwen3-8B")["weights-lost"]
    assert (lost.level, "lost with it" in lost.says) == ("warning", True)
    for here, launch in (
        (around(has_cache=True), {"checkpoint": "Qwen/Qwen3-8B"}),
        (around(has_cache=False), {"checkpoint": "/models/Qwen3-8B"}),
        (around(has_cache=False), {"volumes": ("/mnt/hf:/root/.cache/huggingface",)}),
    ):
        assert "weights-lost" not in checked(here, **launch), launch


def test_shared_memory_of_the_box_that_is_full() -> None:
    full = {"disks": {"shm": {"path": "/dev/shm", "free": GIB // 2, "total": 64 * GIB}}}  # noqa: S108
    assert checked(around(found=full), ipc="host")["shm"].level == "warning"
    assert "shm" not in checked(around(found=full))


def test_a_profile_that_was_made_for_other_gpus() -> None:
    found = checked(around(), hardware="4x H200")["made-for"]
    assert found.level == "warning"
    assert "made for 4x H200, and rtx8 has 2x RTX PRO 6000" in found.says
    assert checked(around(), hardware="2x RTX PRO 6000")["made-for"].level == "ok"
    assert "made-for" not in checked(around(), hardware="two of the large ones")


# Against rows


@pytest.fixture
def box(own_redis: None) -> Box:
    made = factories.box(gpus=2, driver="580.142", hf_cache="~/.cache/huggingface")
    here = around()
    factories.observation(
        HostResources, made, found=dict(here.found), images=image(architecture="arm64")
    )
    return made


@pytest.fixture
def server(box: Box) -> Server:
    return factories.server(
        box, "coder", engine="vllm", image=IMAGE, checkpoint="org/coder", gpus="0"
    )


def check(server: Server) -> lifecycle.PreflightResult:
    return lifecycle.check(LaunchContext(server.profile.launch, server.box, server.profile, server))


@pytest.mark.django_db
def test_a_start_is_stopped_and_an_editor_may_override_it_with_a_reason(server: Server) -> None:
    ben, eva = browser(Role.OPERATOR), browser(Role.EDITOR)
    path = f"/servers/{server.slug}/start/"

    asked = ben.post(path)
    assert "is built for arm64, and rtx8 is amd64" in asked.content.decode()
    assert "An editor can start it anyway" in asked.content.decode()
    ben.post(path, {"despite": "please"})
    assert not Run.objects.exists()

    assert "Why start it anyway?" in eva.post(path).content.decode()
    assert eva.post(path, {"despite": "binfmt is set up"}).status_code == 204
    assert Run.objects.get().plan.overridden_errors == "binfmt is set up"
    page = eva.get(f"/profiles/{server.slug}/").content.decode()
    assert '<span class="badge failed">1 error' in page


@pytest.mark.django_db
def test_every_place_counts_the_same_errors_and_warnings(box: Box, server: Server) -> None:
    box.facts = box.facts | {"limits": {"host_ipc": True}}
    box.seen_at = timezone.now() + timedelta(hours=1)  # however long the six places take
    box.save()
    full = {"disks": {"shm": {"path": "/dev/shm", "free": GIB // 2, "total": 64 * GIB}}}  # noqa: S108
    HostResources.objects.get().write(found=dict(around(found=full | {"listening": [8000]}).found))
    wrong = replace(
        server.profile.launch, flags=("--tensor-parallel-size", "4"), ipc="host", host_port=8000
    )
    server.profile.save_version(wrong, by=None)
    sample(box, 94.0, 94.0)
    ada = browser(Role.ADMIN)
    _key, token = Key.make(factories.person(), "laptop", Role.ADMIN, expires_at=None)
    api = Client(headers={"authorization": f"Bearer {token}"})
    form = typed(ada, "/profiles/coder/edit/") | {"profile": "coder"}

    counts = check(server).count
    said = f"{counts.errors} errors, {counts.warnings} warning"
    assert {"image", "port"} <= {each.id for each in check(server).errors}
    assert "shm" in {each.id for each in check(server).items if each.level == "warning"}
    pages = {
        "list": ada.get("/profiles/").content.decode(),
        "profile": ada.get("/profiles/coder/").content.decode(),
        "form": ada.post("/profiles/check/", form).content.decode(),
        "dialog": ada.post("/servers/coder/start/").content.decode(),
        "command": run_command("coder")[0],
    }
    told = api.get("/api/v1/servers/coder/fit").json()

    assert counts.errors > 2, "checks and rules"
    assert counts.warnings > 0
    assert (told["errors"], told["warnings"]) == (counts.errors, counts.warnings)
    for place, text in pages.items():
        words = strip_tags(text.replace("</span><span", "</span>, <span"))
        assert said in words, place


@pytest.mark.django_db
def test_a_list_asks_no_more_for_many_profiles_than_for_few(box: Box, server: Server) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as asked:
            lifecycle.of_profiles(Profile.objects.for_list(factories.person()))
        return len(asked)

    Box.objects.update(seen_at=timezone.now())
    ProfileVersion.objects.update(created_at=timezone.now() - timedelta(minutes=10))
    factories.run(server, RunState.READY)
    few = queries()
    other = factories.box("other", hf_cache="~/.cache/huggingface")
    for number in range(12):
        made = factories.server(other if number % 2 else box, f"more-{number}", "gpt-oss-120b")
        factories.run(made, RunState.READY if number % 3 else RunState.FAILED)
    ProfileVersion.objects.update(created_at=timezone.now() - timedelta(minutes=10))

    assert queries() <= few


@pytest.mark.django_db
def test_what_box_toml_refuses_is_an_error_before_the_start(box: Box, server: Server) -> None:
    box.facts = box.facts | {"limits": {"privileged": False, "host_network": False, "cap_add": []}}
    box.save()
    launch = replace(server.profile.launch, network="host", cap_add=("NET_ADMIN",))
    server.profile.save_version(launch, by=None)

    said = {each.says for each in check(server).errors if each.id == "limits"}

    assert len(said) == 2
    assert any("allow host_network`" in each for each in said)
    assert any("allow capability NET_ADMIN`" in each for each in said)
    answer = browser(Role.OPERATOR).post(f"/servers/{server.slug}/start/")
    assert "does not allow the host" in answer.content.decode()
    assert not Run.objects.exists(), "no run fails, and nobody gets an alert"


@pytest.mark.django_db
def test_a_mount_outside_of_the_allowed_folders_is_an_error_before_the_start(
    box: Box, server: Server, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.BOX_FILE = tmp_path / "box.toml"
    settings.BOX_FILE.write_text('mount_roots = ["/mnt"]\n')
    box.facts = box.facts | {"limits": {"mount_roots": ["/mnt"]}}
    box.save()
    launch = replace(server.profile.launch, volumes=("/opt/models:/models",))
    server.profile.save_version(launch, by=None)
    asked: list[int] = []

    def worker(of: Box, wanted: Sequence[Place]) -> None:
        asked.append(len(wanted))
        paths = [each.path for each in wanted]
        path_reports.answer(
            path_reports.question(of, wanted), paths, home=of.home, hf_cache=of.hf_cache
        )

    monkeypatch.setattr(tasks, "ask_for_paths", worker)

    said = browser(Role.OPERATOR).post(f"/servers/{server.slug}/start/").content.decode()

    assert not Run.objects.exists()
    said += " ".join(each.says for each in check(server).errors if each.id == "limits")
    browser(Role.OPERATOR).get(f"/profiles/{server.profile.slug}/known/{server.slug}/")
    assert len(asked) == 1, "its answer is kept for a minute"
    assert "/opt/models lies outside the folders that this box lets profiles mount (/mnt)" in said
    assert "allow mount /opt/models`" in said


@pytest.mark.django_db
def test_another_server_on_the_same_gpu_or_port_is_named(box: Box, server: Server) -> None:
    HostResources.objects.get().write(images=image())
    other = factories.server(box, "other", engine="vllm", image=IMAGE, gpus="all", host_port=8000)
    factories.run(other, RunState.STARTING, gpus="0,1")

    assert [item.id for item in check(server).errors] == ["loading"]
    Run.objects.update(state=RunState.READY)
    assert check(server).errors == []
    assert "other also runs on a GPU" in next(
        i.says for i in check(server).items if i.id == "shared"
    )
    mine = server.profile.launch
    wants = lifecycle.check(
        LaunchContext(replace(mine, host_port=8000), box, server.profile, server)
    )
    assert [item.id for item in wants.errors] == ["port"]


@pytest.mark.django_db
def test_whether_a_checkpoint_is_there_is_known_once_the_box_had_time_to_look(
    server: Server,
) -> None:
    def says() -> str:
        return next(item.says for item in check(server).items if item.id == "checkpoint")

    assert says() == "Whether org/coder is on rtx8 is not known."
    long_ago = timezone.now() - timedelta(minutes=10)
    ProfileVersion.objects.update(created_at=long_ago)
    server.profile.refresh_from_db()
    assert "is not on rtx8; the engine downloads it" in says()
    facts = CheckpointFacts.objects.create(
        box=server.box, source="org/coder@main", config=models.LLAMA_8B,
        weights=int(16 * GB), missing=2 * GIB, changed_at=long_ago,
    )  # fmt: skip
    assert "partly on rtx8; the engine downloads the rest, 2.0 GiB" in says()
    facts.missing = 0
    facts.save()
    assert says() == "org/coder is on rtx8."


@pytest.mark.django_db
def test_a_gated_model_without_a_token_is_known_from_its_last_run(server: Server) -> None:
    HostResources.objects.get().write(images=image())
    ProfileVersion.objects.update(created_at=timezone.now() - timedelta(minutes=10))
    server.profile.refresh_from_db()
    refused = {"outcome": "failed", "cause": "hf-token-required", "summary": "", "evidence": []}
    factories.run(server, RunState.FAILED, diagnosis=refused)

    assert [item.id for item in check(server).errors] == ["token"]

    token = replace(server.profile.launch, env={"HF_TOKEN": "hf_x"})
    found = lifecycle.check(LaunchContext(token, server.box, server.profile, server))
    assert [item.id for item in found.items if item.level == "warning"] == ["token"]


@pytest.fixture(autouse=True)
def hurried_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked where no worker answers."""
    monkeypatch.setattr(command, "ANSWERS_WITHIN", 1)


def run_command(*words: str) -> tuple[str, int]:
    out = StringIO()
    try:
        call_command("preflight", *words, stdout=out, stderr=StringIO())
    except SystemExit as end:
        return out.getvalue(), int(end.code or 0)
    return out.getvalue(), 0


@pytest.mark.django_db
@pytest.mark.takes(60)
def test_the_command_says_the_same_and_its_exit_code_whether_it_may_start(server: Server) -> None:
    sample(server.box, 94.0, 94.0)
    text, code = run_command("coder")
    assert code == 1
    assert text.startswith("coder on rtx8: STOPPED")
    assert "ERROR      Image: registry.example/engine on rtx8 is built for arm64" in text
    assert "→ Use an image that is published for amd64" in text

    HostResources.objects.get().write(images=image())
    text, code = run_command("coder", "--box", "rtx8", "--json")
    assert code == 0
    told = json.loads(text)
    assert (told["server"], told["box"], told["may_start"]) == ("coder", "rtx8", True)
    assert {each["id"]: each["level"] for each in told["checks"]}["image"] == "ok"
    assert told["memory"]["verdict"] == "unknown"

    sample(server.box, 40.0, 94.0)
    text, code = run_command("coder", "--json")
    assert code == 1
    assert "vllm-free-memory" in [each["rule"] for each in json.loads(text)["findings"]]


@pytest.mark.django_db
def test_a_profile_that_is_not_there_is_said(server: Server) -> None:
    for words in (("nothing",), ("coder", "--box", "elsewhere")):
        with pytest.raises(CommandError, match="There is no profile"):
            run_command(*words)
    assert Profile.objects.count() == 1
