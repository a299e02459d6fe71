"""The attempts to start one checkpoint, each against the one before it, on a page with filters."""

from dataclasses import replace
from typing import Any

import pytest
from django.test import Client

from servers.launch.engines.change import LaunchChange
from servers.lifecycle.profiles import attempts
from servers.models import Box, Profile, Role, Run, Server, User
from servers.models.runs.run import RunState
from tests import factories

pytestmark = pytest.mark.django_db

MODEL = "Qwen/Qwen3-8B"


def change(server: Server, **changes: Any) -> None:
    profile = server.profile
    made = LaunchChange(**changes).apply(profile.launch)
    profile.save_version(made, by=factories.person(), message="Changed")


def placed(on: Box, like: Server) -> Server:
    return Server.objects.create(slug=f"{like.slug}-{on.slug}", profile=like.profile, box=on)


def failed(server: Server, **values: Any) -> Run:
    said = {"failure": "It ended by itself.", "started_at": None, "age": 600}
    return factories.run(server, RunState.FAILED, **{**said, **values})


def rows(person: User | None = None) -> list[attempts.Attempt]:
    found = attempts.list_attempts(MODEL, person or factories.person())
    return attempts.rows(list(found), found)


def test_an_attempt_is_told_by_what_was_changed_against_the_one_before() -> None:
    server = factories.server(factories.box(), flags=("--tp", "2", "--fast"), env={"A": "1"})
    failed(server)
    change(server, set_flags={"--tp": "4"}, drop_flags=("--fast",), set_env={"B": "2"})
    failed(server)
    failed(server)

    same, changed, first = rows()
    assert first.before is None
    assert [(each.name, each.before, each.after) for each in changed.differences] == [
        ("--tp", "2", "4"),
        ("--fast", "", None),
        ("B", None, "2"),
    ]
    assert same.is_same


def test_attempts_of_other_profiles_count_and_each_box_is_compared_with_itself() -> None:
    here, there = factories.box("rtx8"), factories.box("spark-1")
    one = factories.server(here)
    other = factories.server(here, "other", model="qwen3-8b", flags=("--tp", "2"))
    on_spark = placed(there, one)
    pks = [failed(each).pk for each in (one, on_spark, other, on_spark)]

    last, third, second, first = rows()
    assert [each.before.pk if each.before else None for each in (first, second, third, last)] == [
        None,
        pks[0],
        pks[0],
        pks[1],
    ]
    assert (second.other_box, third.other_box, last.other_box) == ("rtx8", "", "")
    assert [each.name for each in third.differences] == ["--tp"]


def test_a_reboot_between_two_attempts_is_told() -> None:
    server = factories.server(factories.box())
    for boot in ("one", "one", "two"):
        failed(server, around={"boot": boot})

    assert [each.rebooted for each in rows()] == [True, False, False]


def test_another_image_under_the_same_name_is_a_change() -> None:
    server = factories.server(factories.box())
    failed(server, image_id="sha256:" + "1" * 64)
    failed(server, image_id="sha256:" + "2" * 64)

    later, _first = rows()
    assert later.image_changed
    assert not later.is_same


def test_private_profiles_are_for_their_owners_and_admins() -> None:
    server = factories.server(factories.box())
    failed(server)
    Profile.objects.update(is_private=True)

    assert rows(factories.person("guest", Role.EDITOR)) == []
    assert len(rows()) == 1


def page_of(client: Client, **asked: str) -> str:
    client.force_login(factories.person())
    answer = client.get("/checkpoints/", {"of": MODEL, **asked})
    assert answer.status_code == 200
    return answer.content.decode()


def test_the_page_tells_how_far_each_came_why_it_ended_and_filters(client: Client) -> None:
    server = factories.server(factories.box(), flags=("--api-key", "sesame"))
    found = {"outcome": "failed", "cause": "cuda-oom", "summary": "GPU memory ran out.",
             "evidence": [], "groups": {}}  # fmt: skip
    failed(server, diagnosis=found)
    change(server, set_flags={"--api-key": "other", "--tp": "4"})
    factories.run(server, RunState.STOPPED, stopped_by=factories.person())

    page = page_of(client)
    assert "2 attempts" in page
    assert "GPU memory ran out." in page
    assert "+ --tp 4" in page
    assert "sesame" not in page
    assert "ready after" in page
    assert "stopped by ada" in page
    assert "1 attempt<" in page_of(client, cause="cuda-oom")
    assert "1 attempt<" in page_of(client, outcome="ready")
    assert "No attempt went so" in page_of(client, outcome="other")


def test_more_than_fifty_are_paged(client: Client) -> None:
    server = factories.server(factories.box())
    for _ in range(51):
        failed(server)

    assert "51 attempts, 1 to 50 shown" in page_of(client)
    assert "51 attempts, 51 to 51 shown" in page_of(client, page="2")


def test_a_model_that_nobody_started_is_not_there(client: Client) -> None:
    client.force_login(factories.person())
    assert client.get("/checkpoints/", {"of": "no/such"}).status_code == 404
    assert client.get("/checkpoints/").status_code == 404


def test_the_failed_runs_page_and_the_profiles_lead_there(client: Client) -> None:
    server = factories.server(factories.box())
    failed(server)
    failed(server)
    client.force_login(factories.person())

    assert "2 attempts with this model" in client.get(f"/servers/{server.slug}/").content.decode()
    page = client.get(f"/profiles/{server.profile.slug}/").content.decode()
    assert "/checkpoints/?of=Qwen%2FQwen3-8B" in page


def test_launches_are_compared_as_they_ran_not_by_what_people_wrote() -> None:
    server = factories.server(factories.box())
    failed(server)
    profile = server.profile
    said = replace(profile.launch, reasons={"--tp": "because"}, hardware="8x")
    profile.save_version(said, by=factories.person(), message="Words")
    failed(server)

    assert rows()[0].is_same
