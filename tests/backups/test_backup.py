"""A backup that is taken here and restored into an installation that is empty."""

import json
import stat
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.utils import timezone

from servers.launch.engines.launch import Launch
from servers.lifecycle.people import backup
from servers.lifecycle.people import restore as restoring
from servers.lifecycle.people.backup import TABLES
from servers.models import (
    AuditEntry,
    Box,
    EnvironmentGroup,
    Key,
    NotificationChannel,
    Profile,
    RegistryCredential,
    Role,
    Run,
    Secret,
    Server,
    User,
)
from servers.models.people.key import SecretError
from servers.models.runs.run import RunState
from tests import factories

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]

# Models that no backup keeps, by the reason.
LEFT_OUT = {
    "history": {
        "ActiveUser",
        "Alert",
        "AuditEntry",
        "Benchmark",
        "BenchmarkJob",
        "BenchmarkPoint",
        "Canary",
        "CanaryJob",
        "FiguresChunk",
        "HistoryChunk",
        "ImageJob",
        "Job",
        "LoginFailure",
        "Notification",
        "PromptAnswer",
        "PromptRun",
        "Reboot",
        "Request",
        "Run",
        "RunHealth",
        "RunPlan",
        "RunStart",
        "UpgradeTrial",
        "Usage",
    },
    "seen again": {
        "BoxObservation",
        "CheckpointFacts",
        "ExternalEngine",
        "HostResources",
        "ImageFacts",
        "ImageInventory",
        "ModelInventory",
        "OtherWorkloads",
        "StoredCheckpoint",
        "StoredImage",
        "TagChecks",
        "TagNews",
    },
    "a time in which words are kept, which is over by itself": {"Capture"},
    "what people asked, which is to be gone after a week": {"CapturedCall"},
    "over by itself within days, and of GPUs of this box": {"Claim"},
    "of what is the matter now": {"Dismissal"},
    "goes on where its files are": {"Download"},
    "links that work for three days": {"Invite"},
    "boxes join a restored hub anew": {"BoxInvitation", "BoxLink", "BoxUpgrade", "SecretCopy"},
    "logs": {"JobLog", "LogChunk", "RunLog"},
    "made again": {"ProfileImport"},
}
PHRASE = "a phrase of several words"


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A passphrase that takes as long to try as in earnest would make these tests long."""
    monkeypatch.setattr(backup, "COST", 2**8)


@pytest.fixture
def full(settings: Any) -> Server:
    """An installation that people have used."""
    settings.BOX = "rtx8"
    box = factories.box("rtx8", hf_cache="/mnt/hub", facts={"docker": {"version": "28"}})
    ada = User.objects.create(username="ada", role=Role.ADMIN, password="pbkdf2$of-ada")
    User.objects.create(username="zoë", role=Role.OPERATOR, is_active=False)
    server = factories.server(box, "glm-5", flags=("--tp", "8"))
    secret = Secret.seal("HF_TOKEN", "hf_verysecret", ada)
    Box.objects.update(hf_token=secret)
    profile = server.profile
    launch = replace(profile.launch, secret_env={"HF_TOKEN": secret.pk}, env={"NAME": "ünïcode ✓"})
    profile.save_version(launch, by=ada, message="With a token")
    profile.fans.add(ada)
    server.fans.add(ada)
    factories.group()
    factories.outlet(address="https://chat.example/hook", key="shared")
    login = RegistryCredential(registry="ghcr.io", username="team")
    login.keep("ghp_verysecret")
    login.save()
    Key.make(ada, "laptop", Role.EDITOR, expires_at=None)
    factories.run(server, RunState.STOPPED)
    return server


def empty() -> None:
    """As on the first day: the tables that a backup keeps, and runs, hold nothing."""
    Run.objects.all().delete()
    Server.objects.all().delete()
    Profile.objects.update(current=None)
    EnvironmentGroup.objects.update(current=None)
    Box.objects.all().delete()
    for table in reversed(TABLES):
        table.model._default_manager.all().delete()


def content() -> dict[str, list[dict[str, Any]]]:
    """All that a backup keeps, but for what is sealed: that is never the same twice."""
    return {
        table.name: [
            {name: getattr(row, name) for name in table.columns if name != "box_id"}
            for row in table.all()
        ]
        for table in TABLES
        if table.name != "boxes"
    }


@pytest.fixture
def taken(full: Server, tmp_path: Path) -> Path:
    path = tmp_path / "monday.inferdash"
    backup.take(path, passphrase=PHRASE)
    return path


def restore(path: Path, **how: Any) -> restoring.Restored:
    phrase = how.pop("passphrase", PHRASE)
    return restoring.restore(restoring.check(backup.read_archive(path), passphrase=phrase), **how)


def test_all_that_people_have_made_comes_back(full: Server, taken: Path) -> None:
    before = content()
    empty()

    restore(taken)

    assert content() == before
    server = Server.objects.get()
    assert server.run is None
    assert server.profile.launch.env == {"NAME": "ünïcode ✓"}
    assert [version.number for version in server.profile.versions.all()] == [2, 1]
    assert Profile.objects.get().fans.get().username == "ada"
    assert server.fans.get().username == "ada"
    assert Secret.objects.get().reveal() == "hf_verysecret"
    assert NotificationChannel.objects.get().address == "https://chat.example/hook"
    assert NotificationChannel.objects.get().key == "shared"
    assert RegistryCredential.objects.get().password == "ghp_verysecret"
    box = Box.objects.get()
    assert (box.hf_cache, box.hf_token, box.facts) == ("/mnt/hub", Secret.objects.get(), {})


def test_what_is_made_after_a_restore_gets_keys_of_its_own(taken: Path) -> None:
    empty()
    restore(taken)

    made = Secret.seal("OTHER", "value", None)

    assert list(Secret.objects.filter(pk=made.pk).values_list("name", flat=True)) == ["OTHER"]


def test_without_the_passphrase_secrets_are_to_be_entered_again(taken: Path) -> None:
    empty()

    done = restore(taken, passphrase="")

    assert done.to_enter == [
        "the secret HF_TOKEN",
        "the password at the registry ghcr.io",
        "the address of the outlet Team chat, which is off until then",
    ]
    with pytest.raises(SecretError, match="enter it again under Settings"):
        Secret.objects.get().reveal()
    assert not NotificationChannel.objects.get().is_enabled


def test_another_passphrase_restores_nothing(taken: Path) -> None:
    empty()

    with pytest.raises(backup.WrongPassphrase, match="the passphrase is another one"):
        restore(taken, passphrase="not this one")

    assert not User.objects.exists()


def test_no_value_of_a_secret_stands_in_the_file_and_only_its_owner_reads_it(
    taken: Path,
) -> None:
    with zipfile.ZipFile(taken) as file:
        whole = b"".join(file.read(name) for name in file.namelist())

    for value in (b"hf_verysecret", b"ghp_verysecret", b"chat.example/hook", b"shared"):
        assert value not in whole
    assert stat.S_IMODE(taken.stat().st_mode) == 0o600


def test_a_file_that_is_there_already_stays(taken: Path) -> None:
    before = taken.read_bytes()

    with pytest.raises(backup.BackupError, match="is there already"):
        backup.take(taken, passphrase="")

    assert taken.read_bytes() == before
    assert [each.name for each in taken.parent.iterdir()] == [taken.name]


def test_an_installation_that_is_not_empty_is_left_as_it_is(taken: Path) -> None:
    Profile.objects.update(name="Changed since")

    with pytest.raises(
        backup.BackupError, match=r"not empty: it has 2 people, 1 secret,.*--replace"
    ):
        restore(taken)

    assert Profile.objects.get().name == "Changed since"


def test_replace_brings_it_back_to_what_it_was(taken: Path) -> None:
    before = content()
    Profile.objects.update(name="Changed since")
    User.objects.create(username="mallory", role=Role.ADMIN)

    restore(taken, replace=True)

    assert content() == before
    assert AuditEntry.objects.filter(action="restore").exists()


def test_replace_does_not_lose_engines_that_run(full: Server, taken: Path) -> None:
    factories.run(full, RunState.READY)

    with pytest.raises(backup.BackupError, match="1 engine runs by this installation"):
        restore(taken, replace=True)


def test_the_only_box_of_a_backup_becomes_this_one(taken: Path, settings: Any) -> None:
    empty()
    settings.BOX = "rtx9"
    here = Box.objects.create(slug="rtx9", seen_at=timezone.now(), facts={"driver": "590"})

    done = restore(taken)

    assert done.renamed == ("rtx8", "rtx9")
    assert Server.objects.get().box == here
    here.refresh_from_db()
    assert (here.hf_cache, here.facts) == ("/mnt/hub", {"driver": "590"})


def test_a_box_may_keep_its_name(taken: Path, settings: Any) -> None:
    empty()
    settings.BOX = "rtx9"

    done = restore(taken, keep_boxes=True)

    assert Server.objects.get().box.slug == "rtx8"
    assert done.elsewhere == ["rtx8"]


NOBODY = 10**9  # a row's number that no row of a test comes to
type Spoil = Callable[[dict[str, Any], dict[str, Any]], None]


def spoiled(path: Path, spoil: Spoil, *, digest: bool = True) -> Path:
    """The same backup after somebody has changed manifest and rows."""
    read = backup.read_archive(path)
    manifest, rows = dict(read.manifest), json.loads(json.dumps(read.rows))
    text, made = backup.pack_rows(rows)
    spoil(manifest, rows)
    text, made = backup.pack_rows(rows)
    if digest:
        manifest["digest"] = made
    other = path.with_name("spoiled.inferdash")
    backup.write_archive(other, manifest, text, read.secrets)
    return other


def row_of(table: str, **values: Any) -> Spoil:
    return lambda _manifest, rows: rows[table][-1].update(values)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda manifest, rows: manifest.update(format=2), "made by a newer inferdash"),
        (lambda manifest, rows: manifest.update(format="1"), "of which format"),
        (lambda manifest, rows: manifest.update(what="a cake"), "no backup of inferdash"),
        (lambda manifest, rows: rows.update(robots=[]), "tables that are not known here: robots"),
        (row_of("people", wings=2), r"row 2 of people has wings.*newer inferdash"),
        (row_of("people", role=9), "role in row 2 of people is 9"),
        (row_of("people", username="x" * 200), "username in row 2 of people cannot be"),
        (row_of("people", username=None), "username in row 2 of people is empty"),
        (row_of("profiles", created_at="yesterday"), "created_at in row 1 of profiles"),
        (row_of("profiles", fans=[NOBODY]), "fans of profile .* names what is not in it"),
        (row_of("servers", profile_id=NOBODY), "profile of server .* names what is not in it"),
        (row_of("profile_versions", spec={"engine": "vllm", "magic": 1}), "newer inferdash"),
        (row_of("keys", person_id=None), "person_id in row 1 of keys is empty"),
        (lambda manifest, rows: rows["people"].append("ada"), "is no row"),
        (lambda manifest, rows: rows["people"][0].pop("id"), "has no id"),
        (lambda manifest, rows: rows["people"].append(rows["people"][0]), "did not take it"),
    ],
)
def test_what_cannot_be_restored_is_refused_whole(taken: Path, spoil: Spoil, says: str) -> None:
    empty()

    with pytest.raises(backup.BackupError, match=says):
        restore(spoiled(taken, spoil), passphrase="")

    assert not User.objects.exists()


def test_rows_that_were_changed_are_noticed(taken: Path) -> None:
    other = spoiled(taken, row_of("people", role=4), digest=False)

    with pytest.raises(backup.BackupError, match="is damaged"):
        backup.read_archive(other)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 half a file", b"hello" * 100])
def test_what_is_no_backup_is_said_to_be_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "cake.inferdash"
    path.write_bytes(content)

    with pytest.raises(backup.BackupError, match="no backup of inferdash"):
        backup.read_archive(path)


def test_a_column_that_came_later_gets_its_default(taken: Path) -> None:
    empty()

    restore(
        spoiled(taken, lambda _manifest, rows: rows["boxes"][0].pop("model_folders")), passphrase=""
    )

    assert Box.objects.get().model_folders == ""


def test_every_model_is_kept_or_left_out_for_a_reason() -> None:
    models = {model.__name__ for model in apps.get_app_config("servers").get_models()}
    kept = {table.model.__name__ for table in TABLES}

    left_out = set[str]().union(*LEFT_OUT.values())
    assert models == kept | left_out
    assert not kept & left_out


def test_every_link_between_kept_rows_is_kept() -> None:
    """But for Django's own groups and permissions, in whose place roles are."""
    links = {
        f"{table.name}.{field.name}"
        for table in TABLES
        for field in table.model._meta.many_to_many
        if field.name not in table.many
    }

    assert links == {"people.groups", "people.user_permissions"}


@pytest.mark.docker
@pytest.mark.usefixtures("asking")
def test_the_commands_say_what_came_and_what_this_box_lacks(
    full: Server, tmp_path: Path, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    phrase, path = tmp_path / "phrase", tmp_path / "monday.inferdash"
    phrase.write_text(f"{PHRASE}\n")
    settings.BOX_FILE = tmp_path / "box.toml"
    settings.BOX_FILE.write_text("")
    call_command("backup", str(path), passphrase_file=str(phrase))
    empty()

    call_command("restore", str(path), passphrase_file=str(phrase))

    said = capsys.readouterr().out
    assert "2 people, 1 secret, 1 box, 1 environment group, 1 version of it" in said
    assert "Not in it: runs with their logs" in said
    assert "This box lacks 1 image:\n  lmsysorg/sglang:latest-cu130  size not known" in said
    assert "This box lacks 1 model:\n  zai-org/GLM-5-FP8  size not known" in said
    with pytest.raises(CommandError, match="not empty"):
        call_command("restore", str(path), passphrase_file=str(phrase))


def test_sizes_that_a_box_knew_are_told_by_another(full: Server, tmp_path: Path) -> None:
    factories.stored(full.box, "zai-org/GLM-5-FP8", size=700 * 2**30)

    backup.take(tmp_path / "sized", passphrase="")

    needs = backup.read_archive(tmp_path / "sized").manifest["needs"]
    assert needs["models"] == {"zai-org/GLM-5-FP8": 700 * 2**30}


def test_a_launch_of_the_backup_is_one_that_can_be_started(taken: Path) -> None:
    empty()
    restore(taken)

    assert isinstance(Profile.objects.get().launch, Launch)
