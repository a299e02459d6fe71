"""Profiles that several people change: nothing is overwritten, and every version can come back."""

import re
from typing import Any

import pytest
from django.test import Client

from servers.launch.engines.launch import Launch
from servers.models import Profile, Role, Secret, User
from tests import factories

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]


@pytest.fixture
def profile() -> Profile:
    return factories.server(factories.box(), flags=("--tp", "2")).profile


def browser(name: str, role: Role = Role.EDITOR) -> Client:
    return factories.log_in(factories.person(name, role))


def form_of(client: Client, profile: Profile) -> dict[str, Any]:
    """What the browser would send if nothing was typed."""
    form = client.get(f"/profiles/{profile.slug}/edit/").context["form"]
    values = {field.html_name: field.value() for field in form}
    return {
        name: value for name, value in values.items() if value is not None and value is not False
    }


def save(client: Client, profile: Profile, form: dict[str, Any]) -> Any:
    return client.post(f"/profiles/{profile.slug}/edit/", form)


def test_the_second_of_two_people_is_told_and_nothing_is_overwritten(profile: Profile) -> None:
    ada, ben = browser("ada"), browser("ben")
    adas, bens = form_of(ada, profile), form_of(ben, profile)
    save(ada, profile, {**adas, "flags": "--tp 4", "notes": "Four cards."})

    told = save(ben, profile, {**bens, "flags": "--tp 8"})

    profile.refresh_from_db()
    assert profile.launch.flags == ("--tp", "4")
    assert profile.notes == "Four cards."
    text = told.content.decode()
    assert "ada has saved this profile since you opened it" in text
    assert [(each.name, each.before, each.after) for each in told.context["conflict"]] == [
        ("notes", "Four cards.", ""),
        ("--tp", "4", "8"),
    ]
    # Told, ben may still want it.
    hidden = re.search(r'name="saves" value="(\d+)"', text)
    assert hidden is not None
    assert save(ben, profile, {**bens, "flags": "--tp 8", "saves": hidden[1]}).status_code == 302
    profile.refresh_from_db()
    assert profile.launch.flags == ("--tp", "8")
    assert [version.number for version in profile.versions.all()] == [3, 2, 1]


def test_a_save_that_is_refused_leaves_no_secret_behind(profile: Profile) -> None:
    ada, ben = browser("ada"), browser("ben")
    bens = form_of(ben, profile)
    save(ada, profile, {**form_of(ada, profile), "flags": "--tp 4"})

    save(ben, profile, {**bens, "env": "HF_TOKEN=hf_of_ben"})

    assert not Secret.objects.exists()


def test_going_back_makes_a_new_version(profile: Profile) -> None:
    ada = browser("ada")
    save(ada, profile, {**form_of(ada, profile), "flags": "--tp 4", "message": "More cards"})

    ada.post(f"/profiles/{profile.slug}/versions/1/restore/")

    profile.refresh_from_db()
    assert profile.launch.flags == ("--tp", "2")
    assert [version.message for version in profile.versions.all()] == [
        "Back to version 1",
        "More cards",
        "First version",
    ]


def test_who_saves_notes_alone_is_told_that_they_are_saved(profile: Profile) -> None:
    ada, path = browser("ada"), f"/profiles/{profile.slug}/"
    Profile.objects.update(notes="One line.\nAnother.")
    page = ada.get(f"{path}edit/").content.decode()
    said = {}
    for name, typed in {
        "notes": {"notes": "Slow on Mondays.", "tags": "moe"},
        "nothing": {"notes": "Slow on Mondays.\r\n"},
        "launch": {"flags": "--tp 8", "notes": "Quick."},
    }.items():
        save(ada, profile, {**form_of(ada, profile), **typed})
        said[name] = ada.get(path).content.decode()

    assert "Save version" not in page
    assert "A change of what is started makes version 2." in page
    assert "Saved: notes, tags. It stays version 1." in said["notes"]
    assert "Nothing was changed." in said["nothing"]
    assert "Saved as version 2." in said["launch"]
    profile.refresh_from_db()
    assert profile.notes == "Quick."


def test_an_editor_does_not_go_back_to_what_only_an_admin_may_set(profile: Profile) -> None:
    launch = Launch(engine="vllm", image="a:1", checkpoint="b/c", privileged=True)
    profile.save_version(launch, by=factories.person())
    profile.save_version(Launch(engine="vllm", image="a:1", checkpoint="b/c"), by=None)

    answer = browser("eva").post(f"/profiles/{profile.slug}/versions/2/restore/")

    assert answer.status_code == 403
    assert profile.versions.count() == 3


def test_a_version_shows_what_changed_and_why(profile: Profile) -> None:
    ada = browser("ada")
    save(ada, profile, {**form_of(ada, profile), "flags": "--tp 4  # two were too slow"})

    text = ada.get(f"/profiles/{profile.slug}/versions/2/").content.decode()

    assert "What differs from version 1" in text
    assert "two were too slow" in text


def test_what_it_is_for_and_expected_figures_survive_an_edit(profile: Profile) -> None:
    ada = browser("ada")
    form = form_of(ada, profile) | {"hardware": "2x GB10", "expected": "tokens per second: 30-35"}
    save(ada, profile, {**form, "tags": "MoE, nvfp4 moe"})
    save(ada, profile, {**form_of(ada, profile), "flags": "--tp 4"})

    profile.refresh_from_db()
    assert profile.launch.hardware == "2x GB10"
    assert profile.launch.expected == {"tokens per second": "30-35"}
    assert profile.tags == "moe nvfp4"


@pytest.mark.parametrize(("who", "sees"), [("ada", True), ("eva", False), ("root", True)])
def test_a_private_profile_is_for_its_owner_and_admins(
    who: str, sees: bool, profile: Profile
) -> None:
    role = Role.ADMIN if who == "root" else Role.EDITOR
    Profile.objects.update(is_private=True, owner=browser_owner())
    client = browser(who, role)

    assert (client.get(f"/profiles/{profile.slug}/").status_code == 200) is sees
    assert (client.get(f"/profiles/{profile.slug}/edit/").status_code == 200) is sees
    assert (client.get(f"/profiles/new/?from={profile.slug}").context["form"].initial != {}) is sees
    assert (profile.slug in client.get("/profiles/").content.decode()) is sees


def browser_owner() -> User:
    return factories.person("ada", Role.EDITOR)


def test_two_who_go_back_at_the_same_moment_make_one_version(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = browser("ada")
    save(ada, profile, {**form_of(ada, profile), "flags": "--tp 4"})
    claim = Profile.claim

    def late(self: Profile, *, saves: int) -> None:
        """Somebody else saves between the read and the save."""
        Profile.objects.update(saves=saves + 1)
        claim(self, saves=saves)

    monkeypatch.setattr(Profile, "claim", late)

    answer = ada.post(f"/profiles/{profile.slug}/versions/1/restore/")

    assert answer.status_code == 400
    assert "Somebody else has just saved" in answer.content.decode()
    assert profile.versions.count() == 2
