"""Environment groups: made from a profile, edited, compared, laid over profiles, deleted."""

from typing import Any

import pytest
from django.forms import BoundField
from django.test import Client

from servers.launch.engines.change import LaunchChange
from servers.launch.engines.launch import Launch
from servers.models import AuditEntry, Box, EnvironmentGroup, Profile, Role, Secret
from servers.models.people.key import MASK
from tests import factories
from tests.factories import NCCL

WHY = factories.NCCL_REASONS

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]


@pytest.fixture
def olga() -> Client:
    return client("olga", Role.OPERATOR)


@pytest.fixture
def eva() -> Client:
    return client("eva", Role.EDITOR)


def client(name: str, role: Role) -> Client:
    return factories.log_in(factories.person(name, role))


def profile(box: Box, name: str = "coder", **launch: Any) -> Profile:
    return factories.server(box, name, "gpt-oss-120b", **launch).profile


def text(of: Any) -> str:
    return " ".join(of.content.decode().split())


def test_the_variables_of_a_profile_become_a_group_with_their_reasons(
    olga: Client, box: Box
) -> None:
    source = profile(box, env=NCCL, reasons={**WHY, "--seed": "luck"}, flags=("--seed", "1"))
    assert f"/groups/new/?from={source.slug}" in text(olga.get(f"/profiles/{source.slug}/"))
    form = olga.get(f"/groups/new/?from={source.slug}").context["form"]
    assert form["env"].value() == (
        "NCCL_P2P_LEVEL=SYS  # The cards hang on two sockets.\nNCCL_IB_DISABLE=1"
    )

    olga.post(
        f"/groups/new/?from={source.slug}",
        {"name": "Blackwell NCCL", "engine": "", "env": form["env"].value(), "notes": "Two cards."},
    )

    made = EnvironmentGroup.objects.get(slug="blackwell-nccl")
    assert made.variables.env == NCCL
    assert made.variables.reasons == WHY
    assert made.versions.get().author == factories.person("olga")
    assert AuditEntry.objects.filter(
        action="create environment group", by__username="olga"
    ).exists()


def test_a_group_is_laid_over_a_profile_after_a_look(eva: Client, box: Box) -> None:
    made, target = (
        factories.group(),
        profile(box, env={"NCCL_P2P_LEVEL": "PHB", "OMP_NUM_THREADS": "8"}),
    )
    address = f"/profiles/{target.slug}/groups/{made.slug}/"
    listed = text(eva.get(f"/profiles/{target.slug}/overlays/"))
    assert address in listed
    assert "/overlays/blackwell-environment/" in listed

    assert "NCCL_IB_DISABLE" in text(eva.get(address))
    assert Profile.objects.get().versions.count() == 1

    eva.post(address)

    after = Profile.objects.get()
    assert after.launch.env == {
        "NCCL_P2P_LEVEL": "SYS",
        "OMP_NUM_THREADS": "8",
        "NCCL_IB_DISABLE": "1",
    }
    assert after.launch.reasons == WHY
    assert after.current is not None
    assert after.current.message == "Laid over: Blackwell NCCL, version 1"
    assert "the profile has all of it" in text(eva.get(f"/profiles/{target.slug}/overlays/"))
    eva.post(address)
    assert Profile.objects.get().versions.count() == 2


def test_a_group_for_one_engine_is_not_offered_to_another(eva: Client, box: Box) -> None:
    made, target = factories.group(), profile(box)
    EnvironmentGroup.objects.update(engine="sglang")

    assert made.name not in text(eva.get(f"/profiles/{target.slug}/overlays/"))
    assert eva.get(f"/profiles/{target.slug}/groups/{made.slug}/").status_code == 404


def test_the_page_says_which_profiles_are_not_as_the_group(eva: Client, box: Box) -> None:
    made = factories.group()
    profile(box, "same", env=NCCL, reasons=WHY)
    profile(box, "older", env={"NCCL_P2P_LEVEL": "PHB"})
    profile(box, "stranger", env={"OTHER": "1"})
    mine = profile(box, "hidden", env=NCCL)
    Profile.objects.filter(pk=mine.pk).update(is_private=True)

    response = eva.get(f"/groups/{made.slug}/")

    found = {
        each.profile.name: [one.name for one in each.missing]
        for each in response.context["holders"]
    }
    assert found == {"same": [], "older": ["NCCL_P2P_LEVEL", "NCCL_IB_DISABLE"]}
    assert "is <code>PHB</code>" in text(response)
    assert "/profiles/older/groups/blackwell-nccl/" in text(response)
    over = eva.get(f"/groups/{made.slug}/", {"over": "older"})
    assert over.headers["Location"] == "/profiles/older/groups/blackwell-nccl/"
    assert eva.get(f"/groups/{made.slug}/", {"over": "hidden"}).status_code == 404


def shown(field: BoundField) -> str:
    value = field.value()
    return "" if value is None else str(value)


def edited(by: Client, made: EnvironmentGroup, **values: Any) -> Any:
    form = by.get(f"/groups/{made.slug}/edit/").context["form"]
    said = {name: shown(form[name]) for name in form.fields}
    return by.post(f"/groups/{made.slug}/edit/", {**said, **values})


def test_every_save_is_a_version_and_any_of_them_comes_back(olga: Client) -> None:
    made = factories.group()

    edited(olga, made, env="NCCL_P2P_LEVEL=NODE  # one socket", message="One socket")
    edited(olga, made, notes="Only the notes.")

    assert "Saved: notes. It stays version 2." in text(olga.get(f"/groups/{made.slug}/"))
    made.refresh_from_db()
    assert [each.number for each in made.versions.all()] == [2, 1]
    assert (made.notes, made.variables.env) == ("Only the notes.", {"NCCL_P2P_LEVEL": "NODE"})
    page = text(olga.get(f"/groups/{made.slug}/"))
    assert "One socket" in page
    assert "2 variables" in page

    olga.post(f"/groups/{made.slug}/versions/1/restore/")

    made.refresh_from_db()
    assert made.variables.env == NCCL
    assert made.versions.first().message == "Back to version 1"  # type: ignore[union-attr]
    olga.post(f"/groups/{made.slug}/versions/1/restore/")
    assert made.versions.count() == 3
    actions = set(AuditEntry.objects.values_list("action", flat=True))
    assert {"edit environment group", "restore environment group"} <= actions


def test_the_second_of_two_who_edit_is_shown_the_difference(olga: Client, eva: Client) -> None:
    made = factories.group()
    seen = made.saves
    edited(eva, made, env="NCCL_P2P_LEVEL=NODE")

    refused = edited(olga, made, saves=seen, env="NCCL_P2P_LEVEL=LOC")

    assert "eva has saved this group since you opened it" in text(refused)
    assert [each.name for each in refused.context["conflict"]] == ["NCCL_P2P_LEVEL"]
    made.refresh_from_db()
    assert made.variables.env == {"NCCL_P2P_LEVEL": "NODE"}
    again = refused.context["form"]
    assert again["saves"].value() == str(made.saves)
    olga.post(f"/groups/{made.slug}/edit/", {name: shown(again[name]) for name in again.fields})
    made.refresh_from_db()
    assert made.variables.env == {"NCCL_P2P_LEVEL": "LOC"}


def test_a_secret_goes_along_by_reference_and_is_shown_nowhere(
    olga: Client, eva: Client, box: Box
) -> None:
    sealed = Secret.seal("WANDB_API_KEY", "very-secret-value", None)
    source = profile(box, env=NCCL, secret_env={"WANDB_API_KEY": sealed.pk})
    form = olga.get(f"/groups/new/?from={source.slug}").context["form"]
    assert f"WANDB_API_KEY={MASK}" in form["env"].value()

    olga.post(f"/groups/new/?from={source.slug}", {"name": "Keys", "env": form["env"].value()})
    target = profile(box, "target", env={"WANDB_API_KEY": "written-in-the-clear"})
    eva.post(f"/profiles/{target.slug}/groups/keys/")

    made = EnvironmentGroup.objects.get()
    assert made.variables.secret_env == {"WANDB_API_KEY": sealed.pk}
    assert Secret.objects.count() == 1
    launch = Profile.objects.get(pk=target.pk).launch
    assert launch.secret_env == {"WANDB_API_KEY": sealed.pk}
    assert launch.env == NCCL
    for address in ("/groups/", "/groups/keys/", "/groups/keys/edit/"):
        assert "very-secret-value" not in text(olga.get(address))


def test_a_new_secret_is_sealed_and_a_mask_alone_is_none(olga: Client) -> None:
    refused = olga.post("/groups/new/", {"name": "Keys", "env": f"HF_TOKEN={MASK}"})
    assert "only a mask stands there" in text(refused)
    assert not EnvironmentGroup.objects.exists()

    olga.post("/groups/new/", {"name": "Keys", "env": "WANDB_API_KEY=typed-just-now"})

    [pk] = EnvironmentGroup.objects.get().variables.secret_env.values()
    assert Secret.objects.get(pk=pk).reveal() == "typed-just-now"
    admin = client("ada", Role.ADMIN)
    answer = admin.post(f"/settings/secrets/{pk}/delete/", follow=True)
    assert "is used by the environment group Keys" in text(answer)
    assert Secret.objects.filter(pk=pk).exists()


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"env": ""}, "This field is required."),
        ({"env": "# nothing but a remark"}, "Write at least one variable"),
        ({"env": "no equals sign"}, "is not NAME=value"),
        ({"name": "!!!"}, "at least one letter or digit"),
        ({"name": "blackwell NCCL"}, "There is a group with this name already"),
        ({"name": "New"}, "A page of inferdash has this name already"),
        ({"engine": "tgi"}, "Select a valid choice"),
    ],
)
def test_what_is_no_group_is_refused_beside_its_field(
    olga: Client, values: dict[str, str], says: str
) -> None:
    factories.group()

    response = olga.post("/groups/new/", {"name": "x", "env": "A=1", **values})

    assert says in text(response)
    assert EnvironmentGroup.objects.count() == 1


def test_a_deleted_group_leaves_profiles_as_they_are(olga: Client, eva: Client, box: Box) -> None:
    made, target = factories.group(), profile(box)
    eva.post(f"/profiles/{target.slug}/groups/{made.slug}/")

    answer = olga.post(f"/groups/{made.slug}/delete/", follow=True)

    assert "Profiles keep the variables they got from it." in text(answer)
    assert not EnvironmentGroup.objects.exists()
    assert Profile.objects.get().launch.env == NCCL
    entry = AuditEntry.objects.get(action="delete environment group")
    assert (entry.subject, entry.detail) == ("Blackwell NCCL", {"variables": list(NCCL)})


def test_an_editor_cannot_lay_a_group_over_what_an_admin_has_opened(eva: Client, box: Box) -> None:
    made, target = factories.group(), profile(box, privileged=True)

    assert eva.post(f"/profiles/{target.slug}/groups/{made.slug}/").status_code == 403
    assert Profile.objects.get().versions.count() == 1


def test_a_private_profile_s_variables_are_its_owner_s_to_share(olga: Client, box: Box) -> None:
    source = profile(box, env=NCCL)
    Profile.objects.update(is_private=True)

    assert olga.get(f"/groups/new/?from={source.slug}").status_code == 404


def test_a_variable_is_plain_or_secret_and_never_both() -> None:
    before = Launch(
        engine="vllm", image="i", checkpoint="m", env={"A": "1", "B": "2"}, secret_env={"C": 7}
    )

    after = LaunchChange(set_env={"C": "3"}, set_secret_env={"A": 9}).apply(before)

    assert (after.env, after.secret_env) == ({"B": "2", "C": "3"}, {"A": 9})
    gone = LaunchChange(drop_env=("B", "C")).apply(before)
    assert (gone.env, gone.secret_env) == ({"A": "1"}, {})
