"""What the palette lists while one types, and for whom."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from servers.models import Profile, Role, User
from servers.models.runs.run import RunState
from servers.views import search
from tests import factories

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]


def client(role: Role = Role.ADMIN) -> Client:
    return factories.log_in(User.objects.get_or_create(username=f"a-{role.label}", role=role)[0])


def found(text: str, by: Client) -> dict[str, list[str]]:
    said: Any = by.get("/search.json", {"q": text}).json()
    return {each["title"]: [hit["title"] for hit in each["hits"]] for each in said["groups"]}


def test_each_kind_is_found_by_its_words_and_leads_to_its_page() -> None:
    box = factories.box("rtx8")
    factories.run(factories.server(box, "glm-5"))
    factories.server(factories.box("spark-1"), "small", model="qwen3-8b")
    factories.stored(box, "zai-org/GLM-5")
    admin = client()

    assert found("glm", admin) == {
        "Servers": ["glm-5"], "Profiles": ["glm-5"], "Models": ["zai-org/GLM-5"],
    }  # fmt: skip
    assert found("qwen spark", admin)["Servers"] == ["small"], "by its model and its box"
    assert found("RTX8", admin)["Boxes"] == ["rtx8"]
    assert found("docker paste", admin) == {"Pages": ["New profile from a command or compose file"]}
    assert found("no such thing", admin) == found("  ", admin) == {}
    said: Any = admin.get("/search.json", {"q": "glm"}).json()
    for hit in (hit for group in said["groups"] for hit in group["hits"]):
        assert admin.get(hit["url"]).status_code == 200


def test_nobody_finds_what_they_may_not_see() -> None:
    server = factories.server(factories.box(), "secret-plan")
    Profile.objects.filter(pk=server.profile_id).update(is_private=True)

    assert "Profiles" not in found("secret-plan", client(Role.VIEWER))
    assert found("audit", client()) == {"Pages": ["Activity"]}
    assert found("audit", client(Role.VIEWER)) == {}
    for name, _title, _words in search.PAGES:
        assert client().get(reverse(name)).status_code == 200, name


def test_a_search_has_a_bound(django_assert_max_num_queries: Any) -> None:
    box = factories.box("rtx8")
    for number in range(12):
        factories.stored(box, f"org/many-{number}", path=f"/mnt/many-{number}")
    admin = client()
    assert len(found("many", admin)["Models"]) == search.EACH
    with django_assert_max_num_queries(8):
        found("many " * 1000, admin)


def test_actions_are_offered_by_their_verb_to_those_who_may() -> None:
    box = factories.box("rtx8")
    factories.run(factories.server(box, "glm-5"))
    factories.server(box, "small")
    factories.run(factories.server(box, "broken"), RunState.FAILED)
    factories.run(factories.server(box, "program", engine="other"))
    for name in ("shut-theirs", "shut-own"):
        server = factories.server(box, name)
        Profile.objects.filter(pk=server.profile_id).update(is_private=True)
    client(Role.EDITOR)
    editor = User.objects.get(role=Role.EDITOR)
    Profile.objects.filter(slug="shut-own").update(owner=editor)
    failed = []
    for text, role, expected in (
        ("start", Role.OPERATOR, None),
        ("run the", Role.ADMIN, None),
        ("sta small", Role.OPERATOR, ["Start small"]),
        ("start glm", Role.OPERATOR, None),
        ("stop glm", Role.OPERATOR, ["Stop glm-5 …"]),
        ("stop glm", Role.VIEWER, None),
        ("restart", Role.ADMIN, ["Restart glm-5 …", "Restart program …"]),
        ("log of glm-5", Role.VIEWER, ["Log of glm-5"]),
        ("why broken", Role.VIEWER, ["Why broken failed"]),
        ("why glm-5", Role.VIEWER, None),
        ("chat with glm", Role.OPERATOR, ["Chat with glm-5"]),
        ("chat", Role.OPERATOR, ["Chat with glm-5"]),
        ("edit small", Role.OPERATOR, None),
        ("edit small", Role.EDITOR, ["Edit the profile of small"]),
        ("edit shut", Role.EDITOR, ["Edit the profile of shut-own"]),
        ("st", Role.ADMIN, None),
    ):
        if (offered := found(text, client(role)).get("Actions")) != expected:
            failed.append((text, role.label, offered))
    assert failed == []

    said: Any = client().get("/search.json", {"q": "start small"}).json()
    (action,) = said["groups"][0]["hits"]
    assert (action["post"], action["ask"]) == ("/servers/small/start/", "")
    for text, address in (("log glm", "/servers/glm-5/log/"), ("why broken", "/servers/broken/")):
        said = client().get("/search.json", {"q": text}).json()
        assert said["groups"][0]["hits"][0]["url"] == address
    said = client().get("/search.json", {"q": "stop glm"}).json()
    assert said["groups"][0]["hits"][0]["ask"] == "/servers/glm-5/stop/ask/"
