"""The first page of a newcomer names what was on the box before, and changes nothing by itself."""

import getpass
import os
import re
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from servers.contexts import pages
from servers.judge.external.engines import DiscoveredEngine, Origin
from servers.lifecycle.external import takeover
from servers.lifecycle.jobs import actions
from servers.models import (
    Box,
    HostResources,
    Job,
    ModelInventory,
    OtherWorkloads,
    ProfileImport,
    Role,
    Server,
)
from servers.models.jobs import JobKind
from servers.models.people.user import User
from servers.models.runs.run import RunState
from servers.watcher.external import other_workloads
from tests import factories, jobs, samples, shelves
from tests.external.monitoring import rows

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]

ENDED = "dead" * 16


def client(role: Role = Role.ADMIN) -> Client:
    return factories.log_in(User.objects.get_or_create(username=f"a-{role.label}", role=role)[0])


def page(role: Role = Role.ADMIN) -> str:
    return " ".join(client(role).get("/boxes/rtx8/found/").content.decode().split())


def around(box: Box, **values: Any) -> None:
    usual: dict[str, Any] = {"images": {"count": 7, "size": 181 * samples.GIB}}
    factories.observation(OtherWorkloads, box, **usual | values)


def neighbour(name: str, **values: Any) -> dict[str, Any]:
    return {
        "container": values.pop("container", "beef" * 16),
        "name": name,
        "image": f"team/{name}:1",
        "ports": [],
        "started_at": None,
        "wants_gpus": False,
        "origin": {"project": "speech", "service": name, "policy": "always"},
        **values,
    }


def ended(**values: Any) -> DiscoveredEngine:
    now = timezone.now().timestamp()
    usual = {
        "container": ENDED, "name": "sglang-server", "image": "lmsysorg/sglang:v0.5.12-cu130",
        "engine": "sglang", "answer": "ended", "version": "", "models": ("zai-org/GLM-5",),
        "address": "", "ended_at": now - 7200, "exit_code": 137, "oom_killed": True,
        "origin": Origin(),
    }  # fmt: skip
    return rows.found(**usual | values)


def bare(**values: Any) -> DiscoveredEngine:
    origin = Origin(unit="vllm.service", user="svc")
    usual = {
        "container": "pid-4711-99", "name": "process 4711", "image": "", "answer": "unasked",
        "pid": 4711, "pids": (4711, 4712), "command": "vllm serve Qwen/Qwen3-8B", "origin": origin,
    }  # fmt: skip
    return rows.found(**usual | values)


def test_all_of_a_full_box_is_named(box: Box) -> None:
    rows.sighted(box, rows.found(), bare(), ended())
    asr = neighbour("parakeet-asr", container="a" * 64)
    around(
        box,
        containers=[asr, neighbour("grafana", container="b" * 64)],
        unseen=[{"what": "The kernel's log", "why": "It may not be read.", "command": "sudo x"}],
    )
    factories.stored(box)
    factories.stored(box, "zai-org/GLM-5", state="partial")
    factories.observation(
        ModelInventory,
        box,
        looked_at=timezone.now(),
        roots=[{"path": "/mnt/models", "found": 2, "hidden": ["/home/bob"], "is_usual": False}],
    )
    processes = [
        samples.process(1, rows.CONTAINER), samples.process(2, "a" * 64),
        samples.process(4712), samples.process(9, name="python", title="python train.py", user="bob"),
    ]  # fmt: skip
    held = samples.card(0, [(1, 61.2), (2, 9.1), (4712, 5), (9, 3.5)])
    factories.tell(box, samples.sample([held], processes))

    told = page()

    for words in (
        "Engines found on rtx8", "nothing was started, stopped or changed",
        "2 engines running, 1 ended",
        "speech-llm-1", "vLLM 0.20.2", "127.0.0.1:8000", "61.2 GiB",
        "compose project speech (service llm, in /srv/speech)",
        "process 4711", "systemd unit vllm.service", "5.0 GiB",
        "sglang-server", "exited with 137: the kernel killed it for lack of memory",
        "2 others on the GPUs", "parakeet-asr", "9.1 GiB", "python train.py", "3.5 GiB",
        "1 other container on no GPU", "grafana",
        "2 models</a>, 32.0 GiB", "1 not complete", "/mnt/models",
        "7 images</a>, at most 181 GiB",
        "Optional permissions", "sudo x", "Models in /home/bob", "sudo chmod o+rx /home/bob",
        "All of that by one command",
    ):  # fmt: skip
        assert words in told, words
    assert told.index("2 engines running") < told.index("Or start something new")


def test_each_has_what_can_be_done_to_it(box: Box) -> None:
    rows.sighted(box, rows.found(), bare(), ended())
    around(box)

    told = page(Role.EDITOR)

    buttons = re.findall(r'aria-label="(Monitor|Make a profile of|Take over) ([^"]+)"', told)
    assert sorted(buttons) == [
        ("Make a profile of", "process 4711"),
        ("Make a profile of", "sglang-server"),
        ("Make a profile of", "speech-llm-1"),
        ("Monitor", "process 4711"),
        ("Monitor", "speech-llm-1"),
        ("Take over", "process 4711"),
        ("Take over", "speech-llm-1"),
    ]
    onward = 'href="/boxes/rtx8/found/">Make a profile of one, or take it over</a>'
    assert onward in client(Role.EDITOR).get("/boxes/rtx8/").content.decode()
    assert onward not in client(Role.OPERATOR).get("/boxes/rtx8/").content.decode()
    assert 'aria-label="Monitor' not in page(Role.OPERATOR)
    assert "Make a profile" not in page(Role.VIEWER)


def test_what_is_watched_or_copied_says_so(box: Box) -> None:
    run = rows.watched(box, requests_running=3)
    rows.sighted(box, rows.found(), ended())
    around(box)
    ProfileImport.objects.create(
        box=box, container=ENDED, name="sglang-server", version=run.version
    )

    told = page()

    assert f'monitored as <a href="/servers/{run.server}/">' in told
    assert "3 running" in told
    assert f'profile <a href="/profiles/{run.server.profile.slug}/">' in told
    assert 'aria-label="Monitor' not in told
    assert 'aria-label="Make a profile of sglang-server"' not in told


def test_an_image_is_called_by_its_tag_and_else_by_a_short_id(box: Box) -> None:
    shelves.stored_image(box, 0xA1, tags=["team/asr:2"], digests=[])
    shelves.stored_image(box, 0xA2, tags=["inferdash/kept:a2"], digests=[])
    tagged, nameless, gone = (shelves.image_id(each) for each in (0xA1, 0xA2, 0xA3))
    rows.sighted(box, rows.found(image=tagged))
    around(
        box,
        containers=[
            neighbour("one", wants_gpus=True, image=nameless.removeprefix("sha256:")),
            neighbour("two", wants_gpus=True, container="c" * 64, image=gone),
            neighbour("three", wants_gpus=True, container="d" * 64, image="deadbeefcafe"),
        ],
    )
    box_page = client(Role.ADMIN).get("/boxes/rtx8/").content.decode()
    for told in (page(), box_page):
        assert "team/asr:2</p>" in told
        assert not re.search(r">\s*(sha256:)?[0-9a-f]{64}", told)
    assert "deadbeefcafe" in page(), "a name, as far as anybody knows"
    profile = factories.server(box, "made-of-it", image=nameless).profile
    for path in ("/", "/profiles/", f"/servers/{profile.slug}/"):
        told = client(Role.ADMIN).get(path).content.decode()
        assert not re.search(r">\s*(sha256:)?[0-9a-f]{64}", told), path


def test_a_watcher_that_has_not_looked_is_waited_for(box: Box) -> None:
    assert "this page fills by itself" in page()

    Box.objects.update(seen_at=None)
    told = page()
    assert "Its watcher gives no sign of life" in told
    assert "It is what looks around" in told


def test_an_empty_box_leads_to_the_next_step(box: Box) -> None:
    around(box, images={"count": 0, "size": 0})
    factories.observation(ModelInventory, box, looked_at=timezone.now())

    told = page()

    assert "Start the first engine on rtx8" in told
    ways = [told.index(each) for each in ("Paste a command", "Use a tested profile", "Use a model")]
    assert ways == sorted(ways)
    assert ways[-1] < told.index("no engine running"), "what is there comes after the ways to begin"
    assert 'class="button primary" href="/profiles/paste/"' in told
    assert "page cache" not in told


def test_what_engines_need_and_the_box_lacks_stands_first_with_its_cure(box: Box) -> None:
    unseen = {"what": "Containers", "why": "Start it.", "command": ""}
    around(box, images={"count": 0, "size": 0}, unseen=[unseen])
    card = {"index": 0, "name": "RTX PRO 6000", "kind": "discrete", "total": 1}
    problem = {"what": "Docker cannot be used", "fix": "Start it."}
    Box.objects.update(facts=box.facts | {"problems": [problem], "gpus": [card]})
    factories.observation(HostResources, box, found={"toolkit": False, "runtimes": ["runc"]})

    told = page()

    assert "Docker cannot be used.</strong> Start it." in told
    assert told.count("Start it.") == 1
    assert "container toolkit is not installed" in told
    assert "sudo nvidia-ctk runtime configure" in told
    assert told.index("Missing</h2>") < told.index("Paste a command")


def test_docker_that_cannot_be_asked_is_said(box: Box) -> None:
    around(box, trouble="inferdash may not use Docker on this box.", images={})

    told = page()

    assert "Containers cannot be seen." in told
    assert "not known" in told
    assert "What runs in containers is not known." in told
    assert "in a container or as a process" not in told
    assert "0 engines running" not in told


def test_once_something_was_done_the_page_claims_nothing_else(box: Box) -> None:
    around(box)
    factories.run(factories.server(box), RunState.READY)

    assert "Read-only scan" not in page()


def test_the_first_admin_is_led_there_and_nobody_else() -> None:
    assert client().get("/found/").headers["Location"] == "/"
    factories.box("spark-1")
    assert client().get("/found/").headers["Location"] == "/boxes/spark-1/found/"


def test_it_is_sent_anew_when_the_box_changes(box: Box) -> None:
    around(box)
    person = User.objects.create(username="vera", role=Role.VIEWER)

    html = pages.render({("box", box.pk)}, person, page="found", pk=box.pk)

    assert f'hx-target="#found-{box.pk}"' in html
    other = pages.render({("server", 1)}, person, page="found", pk=box.pk)
    assert 'hx-target="#found' not in other


def test_taking_over_names_who_would_bring_it_back(box: Box) -> None:
    rows.sighted(box, rows.found(), bare())
    editor = client(Role.EDITOR)

    told = editor.get(f"/boxes/rtx8/others/{rows.CONTAINER[:12]}/takeover/ask/").content.decode()
    assert "docker update --restart=no speech-llm-1" in told
    assert "docker compose -p speech" in told
    assert "It is not removed" in told
    told = editor.get("/boxes/rtx8/others/pid-4711-99/takeover/ask/").content.decode()
    assert "sudo systemctl disable --now vllm.service" in told
    assert "SIGTERM" in told


def test_one_that_removes_itself_says_so_before(box: Box) -> None:
    rows.sighted(box, rows.found(removes_itself=True))

    told = client().get(f"/boxes/rtx8/others/{rows.CONTAINER[:12]}/takeover/ask/").content.decode()

    assert "--rm" in told
    assert "It is not removed" not in told


def test_taking_over_needs_the_name_and_an_editor(box: Box) -> None:
    rows.sighted(box)
    address = f"/boxes/rtx8/others/{rows.CONTAINER[:12]}/takeover/"

    answer = client(Role.EDITOR).post(address, {"name": "speech-llm-2"})
    assert (answer.status_code, b"Type its name" in answer.content) == (409, True)
    assert client(Role.OPERATOR).post(address, {"name": "speech-llm-1"}).status_code == 403
    assert not Job.objects.exists()

    assert client(Role.EDITOR).post(address, {"name": "speech-llm-1"}).status_code == 204
    wish = Job.objects.get()
    assert (wish.kind, wish.what, wish.target) == ("takeover", "speech-llm-1", rows.CONTAINER[:12])
    assert client(Role.EDITOR).post(address, {"name": "speech-llm-1"}).status_code == 409
    assert "on its way" in page()


@pytest.mark.django_db(transaction=True)
def test_a_take_over_ends_with_a_link_and_the_way_back(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watcher's part is played: what stops and starts is tried with containers elsewhere."""
    rows.sighted(box)
    around(box)
    server = factories.server(box, "speech-llm")
    back = "docker start speech-llm-1"

    def take_over(_box: Box, job: Job, *, tell: object) -> str:
        job.write(server=server.slug, command=back)
        return "speech-llm takes over from it."

    monkeypatch.setattr(takeover, "take_over", take_over)
    address = f"/boxes/rtx8/others/{rows.CONTAINER[:12]}/takeover/"
    assert client(Role.EDITOR).post(address, {"name": "speech-llm-1"}).status_code == 204
    wish = Job.objects.get()
    jobs.obey(box)

    told = page()
    assert "speech-llm takes over from it." in told
    assert 'href="/servers/speech-llm/">Open speech-llm</a>' in told
    way = told[told.index("The way back, once speech-llm is stopped:") :]
    assert way.index(f'id="told-{wish.pk}">{back}<') < 200
    assert told.index("Recent actions") < told.index('id="found-engines"')
    assert "0 other engines running" not in told
    assert "1 other engine running" in told


def test_a_take_over_that_comes_to_nothing_leads_to_its_profile(box: Box) -> None:
    rows.sighted(box)
    around(box)
    wish = Job.objects.create(
        box=box, kind=JobKind.TAKE_OVER, target=rows.CONTAINER[:12], what="speech-llm-1",
        state=Job.State.DOING, result={"command": "docker start speech-llm-1"},
    )  # fmt: skip

    told = page()
    assert "Take over: speech-llm-1" in told
    assert "docker start" not in told, "nothing to type while it goes on"

    wish.state, wish.command = Job.State.REFUSED, ""
    wish.said = "rtx8 would refuse it. Say `sudo x`. Nothing was stopped."
    wish.profile = "speech-llm"
    wish.save()
    told = page()
    assert "not done" in told
    assert "Say <code>sudo x</code>." in told
    assert 'href="/profiles/speech-llm/">Open the profile' in told
    of_box = client(Role.EDITOR).get("/boxes/rtx8/").content.decode()
    assert "Say <code>" not in of_box, "nothing of it was left behind by an engine"

    wish.write(command="docker start speech-llm-1")
    assert "not done" not in page()


def test_what_has_ended_is_not_taken_over(box: Box) -> None:
    rows.sighted(box, ended(), rows.found(origin=Origin(install="f" * 32)))
    editor = client(Role.EDITOR)

    for key, name in ((ENDED[:12], "sglang-server"), (rows.CONTAINER[:12], "speech-llm-1")):
        answer = editor.post(f"/boxes/rtx8/others/{key}/takeover/", {"name": name})
        assert answer.status_code == 409
    assert editor.post(f"/boxes/rtx8/others/{ENDED[:12]}/watch/").status_code == 409
    assert not Job.objects.exists()


def test_a_profile_of_what_is_gone_is_not_asked_for(box: Box) -> None:
    assert client().post(f"/boxes/rtx8/others/{ENDED[:12]}/profile/").status_code == 409
    rows.sighted(box, ended())
    assert client().post(f"/boxes/rtx8/others/{ENDED[:12]}/profile/").status_code == 204
    assert Job.objects.get().kind == JobKind.PROFILE


def test_an_ended_engine_is_no_stranger_that_runs(box: Box) -> None:
    rows.sighted(box, ended())

    told = client().get("/boxes/rtx8/").content.decode()

    assert "sglang-server" not in told
    assert pages.panels([box], {"rtx8": None})[0].unmonitored == 0


def test_the_comparison_is_shown_by_what_differs(box: Box) -> None:
    server = factories.server(box)
    version = server.profile.current
    assert version is not None
    ProfileImport.objects.create(
        box=box, container=ENDED, name="sglang-server", version=version,
        rows=[["--memory", "64g", "", "differs"], ["model", "a/b", "a/b", "same"], ["$PATH", "/bin", "", "image"]],
        remarks=[["ignored", "--memory 64g: a profile has no place for it."]],
    )  # fmt: skip

    told = " ".join(client().get("/profiles/qwen3-8b/compared/").content.decode().split())

    assert told.index("Differs") < told.index("comes from the image") < told.index("The same")
    assert "a profile has no place for it" in told
    assert "has been changed since" not in told
    assert "/profiles/qwen3-8b/compared/" in client().get("/profiles/qwen3-8b/").content.decode()

    server.profile.save_version(version.launch, by=None)
    assert "has been changed since" in client().get("/profiles/qwen3-8b/compared/").content.decode()

    ProfileImport.objects.update(container="pid-4711-99", name="process 4711")
    told = client().get("/profiles/qwen3-8b/compared/").content.decode()
    assert 'Left the <span class="mono" hx-ignore>process 4711</span>' in told


def test_a_server_that_took_over_says_the_way_back(box: Box) -> None:
    run = factories.run(factories.server(box), RunState.FAILED)
    old = {
        "name": "speech-llm-1", "container": rows.CONTAINER, "command": "docker start speech-llm-1",
        "revived_by": "Docker.", "keeps_away": "docker update --restart=no speech-llm-1",
        "at": "2026-11-22T00:00:00+00:00",
    }  # fmt: skip
    Server.objects.filter(pk=run.server_id).update(took_over=old)

    told = client().get("/servers/qwen3-8b/").content.decode()

    assert "This one has failed; the old one starts again by:" in told
    assert "docker start speech-llm-1" in told
    assert "docker update --restart=no speech-llm-1" in told

    old |= {"revived_by": "Docker:\nCompose:", "keeps_away": "docker update x\ncompose up y"}
    Server.objects.filter(pk=run.server_id).update(took_over=old)
    rows.sighted(box, rows.found(started_at=timezone.now().timestamp()))
    told = client().get("/servers/qwen3-8b/").content.decode()
    assert "That container runs again." in told
    assert "docker start speech-llm-1" not in told
    lines = ("Docker:", "docker update x", "Compose:", "compose up y")
    assert sorted(lines, key=told.index) == list(lines), "each command under its reason"


def test_a_wish_is_kept_with_what_was_confirmed(box: Box) -> None:
    found = rows.found()
    rows.sighted(box, found)

    assert actions.ask_to_take_over(box, found, by=factories.person())

    assert Job.objects.get().params == {
        "container": rows.CONTAINER,
        "started_at": found.started_at,
    }


def test_a_user_whom_no_passwd_knows_is_told_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> str:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr(getpass, "getuser", unknown)

    assert other_workloads._build_rights().user == str(os.geteuid())
