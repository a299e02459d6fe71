"""What is known to fail is told in the form, on the page and at the start."""

import json
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client

from servers.launch.engines.flaglist import Flag, FlagList
from servers.lifecycle.profiles import checks
from servers.models import Box, Profile, Role, Run, Server
from servers.models.runs.run import RunState
from tests import factories

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]

WRONG = ("--max-modle-len", "4096", "--tensor-paralel-size", "2")


@pytest.fixture
def box() -> Box:
    made = factories.box()
    card = {"name": "NVIDIA RTX PRO 6000", "compute_capability": "12.0", "total": 95 << 30}
    cards = [{"index": index, "kind": "discrete", **card} for index in range(2)]
    made.facts = {**made.facts, "gpus": cards, "driver": "580.142"}
    made.save()
    return made


@pytest.fixture
def server(box: Box) -> Server:
    return factories.server(
        box, "coder", "gpt-oss-120b", image="vllm/vllm-openai:v0.20.2", flags=WRONG
    )


def browser(role: Role) -> Client:
    return factories.log_in(factories.person(f"a-{role.label}", role))


def typed(client: Client, path: str) -> dict[str, Any]:
    form = client.get(path).context["form"]
    values = {field.html_name: field.value() for field in form}
    return {k: v for k, v in values.items() if v is not None and v is not False}


def test_the_form_is_checked_while_it_is_typed(server: Server) -> None:
    eva = browser(Role.EDITOR)
    form = typed(eva, f"/profiles/{server.slug}/edit/") | {"profile": server.slug}

    text = eva.post("/profiles/check/", form).content.decode()

    assert "Did you mean --max-model-len?" in text
    assert "docker run" in text
    assert Profile.objects.get().versions.count() == 1


def test_a_form_that_is_not_complete_says_what_is_missing(box: Box) -> None:
    text = browser(Role.EDITOR).post("/profiles/check/", {"name": "x"}).content.decode()

    assert 'data-field="id_image" data-text="This field is required." data-missing' in text
    assert '<a href="#id_image">Image</a>' in text


def test_words_are_judged_before_the_form_is_complete(box: Box) -> None:
    form = {"engine": "vllm", "image": "vllm/vllm-openai:v0.20.2", "flags": "--max-modle-len 1"}
    answer = browser(Role.EDITOR).post("/profiles/check/", form | {"env": "VLLM_NO"})

    marks = json.loads(answer.context["marks"])

    (mark,) = marks["flags"]
    assert (mark["word"], mark["instead"]) == ("--max-modle-len", "--max-model-len")
    assert "vLLM 0.20.2 has no --max-modle-len." in mark["says"]
    # What cannot be read is not judged, and what was told of it before stays.
    assert marks["env"] is None
    assert "data-marks=" in answer.content.decode()


def test_words_are_judged_by_what_the_image_has_listed(box: Box) -> None:
    flags = FlagList(engine="vllm", version="0.99.0", flags=(Flag(names=("--brand-new",)),))
    factories.image_facts(box, flags)
    form = {"engine": "vllm", "image": factories.ASKED, "box": box.pk}

    answer = browser(Role.EDITOR).post(
        "/profiles/check/", form | {"flags": "--brand-new 1 --max-model-len 1"}
    )

    (mark,) = json.loads(answer.context["marks"])["flags"]
    assert (mark["word"], mark["severity"]) == ("--max-model-len", "error")


def test_a_fix_changes_what_is_typed_and_saves_nothing(server: Server) -> None:
    eva = browser(Role.EDITOR)
    form = typed(eva, f"/profiles/{server.slug}/edit/") | {"profile": server.slug}
    form |= {"env": "HF_TOKEN=hf_typed_just_now", "notes": "typed too"}

    answer = eva.post("/profiles/fix/unknown-flag/?about=--max-modle-len", form)

    fixed = answer.context["form"].initial
    assert "--max-model-len 4096" in fixed["flags"]
    assert "--tensor-paralel-size 2" in fixed["flags"]
    assert fixed["env"] == "HF_TOKEN=hf_typed_just_now"
    assert fixed["notes"] == "typed too"
    assert Profile.objects.get().versions.count() == 1


def test_an_operator_may_apply_a_published_fix(server: Server) -> None:
    ben = browser(Role.OPERATOR)
    page = ben.get(f"/profiles/{server.slug}/").content.decode()
    assert "Apply fix: --max-model-len 4096, no --max-modle-len" in page

    ben.post(f"/profiles/{server.slug}/fix/unknown-flag/?about=--max-modle-len", {"box": "rtx8"})

    profile = Profile.objects.get()
    assert profile.launch.flags[-2:] == ("--max-model-len", "4096")
    assert profile.current is not None
    assert profile.current.message == "Fix: unknown-flag"


def test_a_fix_that_is_no_longer_needed_is_not_applied_again(server: Server) -> None:
    path = f"/profiles/{server.slug}/fix/unknown-flag/?about=--nothing"

    assert browser(Role.OPERATOR).post(path, {"box": "rtx8"}).status_code == 404


def test_a_start_that_is_known_to_fail_asks_for_a_reason_and_keeps_it(server: Server) -> None:
    ben = browser(Role.OPERATOR)

    asked = ben.post(f"/servers/{server.slug}/start/")

    assert asked["HX-Retarget"] == "#dialog"
    assert "Did you mean --max-model-len?" in asked.content.decode()
    assert not Run.objects.exists()
    # Whether it is worth it is for those who may change the profile.
    assert "An editor can start it anyway" in asked.content.decode()
    ben.post(f"/servers/{server.slug}/start/", {"despite": "I want to"})
    assert not Run.objects.exists()
    eva = browser(Role.EDITOR)
    started = eva.post(f"/servers/{server.slug}/start/", {"despite": " a patched build "})
    assert started.status_code == 204
    assert Run.objects.get().plan.overridden_errors == "a patched build"


def test_a_fix_in_the_dialog_of_a_start_goes_on_to_the_start(server: Server) -> None:
    ben = browser(Role.OPERATOR)
    start, fix = f"/servers/{server.slug}/start/", f"/servers/{server.slug}/start/fix/unknown-flag/"
    asked = ben.post(start).content.decode()
    assert f'hx-post="{fix}?about=--max-modle-len"' in asked

    # The other flag is wrong, too: the dialog asks about what is left.
    left = ben.post(f"{fix}?about=--max-modle-len")

    assert left["HX-Retarget"] == "#dialog"
    assert "--tensor-parallel-size" in left.content.decode()
    assert "--max-model-len" not in left.content.decode()
    assert not Run.objects.exists()
    more = ben.post(f"{fix}?about=--tensor-paralel-size").content.decode()
    assert "Apply fix and start: --shm-size 16g" in more
    assert ben.post(f"{start}fix/shared-memory/?about=shm_size").status_code == 204
    run = Run.objects.get()
    assert run.version.launch.flags == ("--max-model-len", "4096", "--tensor-parallel-size", "2")
    assert (run.version.number, run.plan.overridden_errors) == (4, "")


def test_a_start_without_errors_asks_nothing(box: Box) -> None:
    fine = factories.server(box, "fine", "gpt-oss-120b", image="vllm/vllm-openai:v0.20.2")

    assert browser(Role.OPERATOR).post(f"/servers/{fine.slug}/start/").status_code == 204
    assert Run.objects.get().plan.overridden_errors == ""


def test_a_restart_into_a_version_that_is_known_to_fail_asks_too(server: Server) -> None:
    ben = browser(Role.EDITOR)
    run = factories.run(server)
    launch = server.profile.launch
    server.profile.save_version(replace(launch, flags=(*WRONG, "--port", "8001")), by=None)

    asked = ben.post(f"/servers/{server.slug}/restart/").content.decode()

    assert f'hx-post="/servers/{server.slug}/restart/"' in asked
    ben.post(f"/servers/{server.slug}/restart/", {"despite": "patched"})
    run.refresh_from_db()
    assert run.plan.restart_overridden_errors == "patched"


def test_what_the_last_good_start_had_is_told(server: Server) -> None:
    factories.run(server, RunState.READY)
    launch = replace(server.profile.launch, flags=(*WRONG[:2], "--kv-cache-dtype", "fp8"))
    server.profile.save_version(launch, by=None)

    text = page(browser(Role.VIEWER), server)

    assert "Yours last worked with the same --max-modle-len (version 1, ready here on" in text
    assert "<strong>Error</strong>" in text, "it says another thing in all"


def test_a_launch_that_became_ready_here_may_start_without_a_reason(server: Server) -> None:
    run = factories.run(server, RunState.READY)
    operator = browser(Role.OPERATOR)
    Run.objects.filter(pk=run.pk).update(state=RunState.STOPPED)

    text = page(operator, server)

    assert "Yours last started with exactly these settings (version 1" in text
    assert "Error:" not in text
    answer = operator.post(f"/servers/{server.slug}/start/")
    assert answer.status_code == 204


def test_another_box_s_good_start_says_nothing_of_this_one(server: Server) -> None:
    second = Server.objects.create(
        slug="there", profile=server.profile, box=factories.box("another")
    )
    factories.run(second, RunState.READY)

    findings = checks.findings(server.profile.launch, server.box, server.profile)

    assert [each.severity for each in findings][:2] == ["error", "error"]
    assert not any(each.yours for each in findings)


def test_a_size_is_offered_as_people_write_it(server: Server) -> None:
    launch = replace(server.profile.launch, gpus="all", flags=("--tensor-parallel-size", "2"))
    server.profile.save_version(launch, by=None)

    assert "Apply fix: --shm-size 16g" in page(browser(Role.OPERATOR), server)


def page(client: Client, server: Server) -> str:
    return " ".join(client.get(f"/profiles/{server.profile.slug}/").content.decode().split())
