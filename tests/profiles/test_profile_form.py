"""What an editor may not get by way of the profile form."""

from typing import Any

import pytest
from django.utils.datastructures import MultiValueDict

from servers.forms.profile import ProfileForm, initial
from servers.forms.profile_fields import LONGEST_TEXT, image_reference
from servers.launch.engines import flaghelp
from servers.launch.engines.launch import Launch
from servers.models import Box, Profile, Role, Secret, User
from servers.models.people.key import MASK
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def editor() -> User:
    return factories.person("eva", Role.EDITOR)


def privileged(box: Box, **launch: Any) -> Profile:
    return factories.server(box, privileged=True, **launch).profile


def typed(profile: Profile, **changes: Any) -> MultiValueDict[str, Any]:
    """What a browser sends of the form as it is shown, with these fields changed."""
    values = {"box": profile.servers.get().box.pk, **profile.about, **initial(profile.launch)}
    values |= {"saves": profile.saves, **changes}
    kept = {
        name: value for name, value in values.items() if value is not None and value is not False
    }
    return MultiValueDict({name: [str(value)] for name, value in kept.items()})


def saved(profile: Profile, person: User, **changes: Any) -> ProfileForm:
    form = ProfileForm(typed(profile, **changes), person=person, profile=profile)
    form.is_valid()
    return form


@pytest.mark.parametrize(
    "change",
    [
        {"image": "evil.example/own:1"},
        {"volumes": "/data:/data"},
        {"flags": "--trust-remote-code"},
        {"entrypoint": "sh -c 'chroot /host'"},
        {"env": "LD_PRELOAD=/data/own.so"},
        {"env": "HF_TOKEN=another-token-of-mine"},
        {"network": "host"},
        {"ipc_host": True},
        {"checkpoint": "evil/remote-code"},
    ],
)
def test_an_editor_cannot_change_what_an_admins_privileges_are_used_for(
    change: dict[str, Any], box: Box, editor: User
) -> None:
    form = saved(privileged(box), editor, **change)

    assert "Only an admin may save a change" in str(form.errors["privileged"])


def test_an_editor_may_rename_a_privileged_profile(box: Box, editor: User) -> None:
    profile = privileged(box, cap_add=("SYS_NICE", "SYS_ADMIN"), devices=("/dev/sda",))

    assert not saved(profile, editor, name="Another name", notes="Of the storage team.").errors


def test_an_editor_may_take_the_privileges_out(box: Box, editor: User) -> None:
    form = saved(privileged(box), editor, privileged=False, image="mine:1")

    assert not form.errors


def test_an_editor_may_not_give_or_copy_privileges(box: Box, editor: User) -> None:
    plain = factories.server(box, "plain").profile
    given = saved(plain, editor, devices="/dev/sda")
    source = privileged(box)
    copied = ProfileForm(typed(source, name="Mine"), person=editor, copied_from=source)

    assert "Only an admin may set this" in str(given.errors["devices"])
    assert "Only an admin may set this" in str(copied.errors["privileged"])


def test_an_admin_may_change_everything(box: Box) -> None:
    form = saved(privileged(box), factories.person(), image="another:1", pid="host")

    assert not form.errors


def test_an_editor_cannot_place_a_privileged_profile_on_another_box(
    box: Box, editor: User, own_redis: object
) -> None:
    client = factories.log_in(editor)
    other = factories.box("spark-1")

    refused = client.post(f"/profiles/{privileged(box).slug}/place/", {"box": other.slug})
    placed = client.post(
        f"/profiles/{factories.server(box, 'plain').profile.slug}/place/", {"box": other.slug}
    )

    assert refused.status_code == 403
    assert b"Only an admin may place it on another box" in refused.content
    assert [server.profile.slug for server in other.servers.all()] == ["plain"]
    assert placed.status_code == 302


def test_a_mask_is_no_value_for_another_variable(box: Box, editor: User) -> None:
    profile = factories.server(box).profile
    secret = Secret.seal("HF_TOKEN", "hf_of_somebody_else", editor)
    launch = Launch(engine="vllm", image="x", checkpoint="y", secret_env={"HF_TOKEN": secret.pk})
    profile.save_version(launch, by=editor)

    kept = saved(profile, editor)
    renamed = saved(profile, editor, env=f"MY_TOKEN={MASK}")

    assert kept.launch().secret_env == {"HF_TOKEN": secret.pk}
    assert "Write the value of MY_TOKEN" in str(renamed.errors["env"])


@pytest.mark.parametrize(
    ("network", "is_one"),
    [
        ("bridge", True),
        ("host", True),
        ("team_net-2", True),
        ("none", False),
        ("container:redis", False),
        ("Container:redis", False),
        ("ns:/proc/1/ns/net", False),
        ("a b", False),
    ],
)
def test_a_network_is_one_of_dockers(network: str, is_one: bool, box: Box, editor: User) -> None:
    form = saved(factories.server(box).profile, editor, network=network)

    assert ("network" not in form.errors) is is_one


@pytest.mark.parametrize(
    ("reference", "is_one"),
    [
        ("vllm/vllm-openai:v0.20.2", True),
        ("ghcr.io/ggml-org/llama.cpp:server-cuda", True),
        ("localhost:5000/a_b/c--d:1", True),
        ("busybox@sha256:" + "a" * 64, True),
        ("", False),
        ("--privileged", False),
        ("a//b", False),
        ("a b", False),
        ("vllm:", False),
        ("a" + "." * 100_000 + "!", False),
    ],
)
def test_an_image_reference_is_looked_at_in_no_time(reference: str, is_one: bool) -> None:
    assert bool(image_reference.regex.search(reference)) is is_one  # type: ignore[union-attr]


def test_no_form_keeps_the_web_process_busy(
    box: Box, editor: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a quotation stays open each of its lines is looked at with all before it."""
    looked_at: list[int] = []
    scan = flaghelp._scan

    def counted(text: str) -> tuple[int | None, bool]:
        looked_at.append(len(text))
        return scan(text)

    monkeypatch.setattr(flaghelp, "_scan", counted)
    profile = factories.server(box).profile

    longest = saved(profile, editor, flags="'\n" + ("a" * 99 + "\n") * (LONGEST_TEXT // 100 - 1))
    assert "never closed" in str(longest.errors["flags"])
    assert max(looked_at) > LONGEST_TEXT - 200

    looked_at.clear()
    longer = saved(profile, editor, flags="'\n" + "a\n" * 500_000)
    assert "at most" in str(longer.errors["flags"])
    assert max(looked_at, default=0) < 100, "more was read than its other fields"


def test_what_ready_means_and_how_long_it_may_take_are_kept(box: Box, editor: User) -> None:
    profile = factories.server(box, ready_path="/health", ready_limit=5400).profile

    unchanged = saved(profile, editor).launch()
    changed = saved(profile, editor, ready_path="/warm", ready_limit="20m").launch()

    assert (unchanged.ready_path, unchanged.ready_limit) == ("/health", 5400)
    assert (changed.ready_path, changed.ready_limit) == ("/warm", 1200)


def test_what_is_asked_of_a_ready_server_and_what_comes_of_it_are_kept(
    box: Box, editor: User
) -> None:
    profile = factories.server(box, restart_unhealthy=300, ask_every=600).profile

    unchanged = saved(profile, editor).launch()
    changed = saved(profile, editor, restart_unhealthy="", ask_every="1h", ask_when_ready="",
                    measure_when_ready="on")  # fmt: skip

    assert (unchanged.restart_unhealthy, unchanged.ask_every) == (300, 600)
    assert (unchanged.ask_when_ready, unchanged.measure_when_ready) == (True, False)
    now = changed.launch()
    assert (now.restart_unhealthy, now.ask_every, now.ask_when_ready) == (0, 3600, False)
    assert now.measure_when_ready


@pytest.mark.parametrize(
    ("field", "text", "says"),
    [
        ("ready_path", "http://elsewhere/health", "is not a path"),
        ("ready_limit", "20", "Write 20m, 90s or 1h30m"),
        ("restart_unhealthy", "10s", "is shorter than a minute"),
        ("ask_every", "5", "Write 20m, 90s or 1h30m"),
    ],
)
def test_what_ready_means_is_checked_beside_its_field(
    field: str, text: str, says: str, box: Box, editor: User
) -> None:
    form = saved(factories.server(box).profile, editor, **{field: text})

    assert says in str(form.errors[field])


@pytest.mark.parametrize("name", ["New", "Paste", "check", "Paths!"])
def test_a_profile_cannot_have_the_name_of_a_page(name: str, box: Box, editor: User) -> None:
    profile = factories.server(box).profile

    assert "has this name already" in str(saved(profile, editor, name=name).errors["name"])
