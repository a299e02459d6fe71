"""Secrets of boxes that have joined: who is given which, and who can open it."""

import base64
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from django.conf import settings
from django.utils import timezone

from servers.lifecycle.images.inventory import load_credentials
from servers.lifecycle.links import sealing
from servers.lifecycle.runs import commands, starts
from servers.models import Box, BoxLink, RegistryCredential, Run, RunPlan, Secret, SecretCopy
from servers.models.people.key import SecretError
from servers.models.people.sealed_copies import CopyError, find_public_key, open_copy, seal_copy
from servers.models.runs.run import RunState
from tests import factories
from tests.cases import Cases


def make_key() -> str:
    return base64.b64encode(X25519PrivateKey.generate().private_bytes_raw()).decode()


def test_a_copy_opens_with_its_key_and_in_its_row_alone() -> None:
    mine, other = make_key(), make_key()
    sealed = seal_copy(find_public_key(mine), "hf_verysecret ü", bound_to="secret 1")

    assert open_copy(mine, sealed, bound_to="secret 1") == "hf_verysecret ü"
    assert b"verysecret" not in sealed
    assert seal_copy(find_public_key(mine), "hf_verysecret ü", bound_to="secret 1") != sealed
    with Cases() as cases:
        for key, text, row in (
            (other, sealed, "secret 1"),
            (mine, sealed, "secret 2"),
            (mine, sealed[:-1] + bytes([sealed[-1] ^ 1]), "secret 1"),
            (mine, b"\x01" + sealed[2:], "secret 1"),
            (mine, b"\x02" + sealed[1:], "secret 1"),
            (mine, sealed[:20], "secret 1"),
            (mine, b"", "secret 1"),
            ("no key", sealed, "secret 1"),
        ):
            with cases.named(f"{key == mine} {len(text)} {row}"), pytest.raises(CopyError):
                open_copy(key, text, bound_to=row)


class FarBox:
    """A box that has joined, with its key at hand; `become` makes this process run there."""

    def __init__(self, slug: str, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.row = factories.box(slug)
        self.folder, self.patch = folder / slug, patch
        (self.folder / "wire").mkdir(parents=True)
        key = make_key()
        (self.folder / "wire" / "seal.key").write_text(key)
        self.link = BoxLink.objects.create(
            box=self.row, name=slug, public_key=f"ssh-ed25519 {slug}", port=8480 + self.row.pk,
            seal_key=find_public_key(key), joined_at=timezone.now(), sealed_password=b"x",
            sealed_relay_secret=b"x",
        )  # fmt: skip

    def become(self) -> None:
        self.patch.setattr(settings, "WIRE", "box")
        self.patch.setattr(settings, "BOX", self.row.slug)
        self.patch.setattr(settings, "DATA", self.folder)

    def leave(self) -> None:
        self.patch.setattr(settings, "WIRE", "hub")
        self.patch.setattr(settings, "BOX", "hub")


@pytest.fixture
def boxes(db: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[FarBox, FarBox]:
    made = FarBox("milo", tmp_path, monkeypatch), FarBox("otis", tmp_path, monkeypatch)
    made[0].leave()
    return made


def copies_of(box: Box) -> set[str]:
    rows = SecretCopy.objects.filter(box=box).select_related("secret", "registry")
    return {str(each.secret or each.registry) for each in rows}


def test_a_box_is_given_what_its_servers_need_and_nothing_else(
    boxes: tuple[FarBox, FarBox],
) -> None:
    milo, otis = boxes
    token, own, others = (
        Secret.seal(name, f"value of {name}", None) for name in ("HF_TOKEN", "OWN", "OTHERS")
    )
    for registry in ("ghcr.io", "nvcr.io"):
        login = RegistryCredential(registry=registry, username="ada")
        login.keep(f"password of {registry}")
        login.save()
    Box.objects.filter(pk=milo.row.pk).update(hf_token=token)
    milo.row.refresh_from_db()
    image = "ghcr.io/ours/vllm:1"
    server = factories.server(milo.row, "mine", image=image, secret_env={"KEY": own.pk})
    factories.server(otis.row, "theirs", secret_env={"KEY": others.pk})

    run = commands.start(server, by=factories.person())

    assert copies_of(milo.row) == {"HF_TOKEN", "OWN", "ghcr.io"}
    assert copies_of(otis.row) == set()
    assert sealing.seal_for(milo.row) == 0
    milo.become()
    assert run is not None
    site = starts.site(run)
    assert site.hf_token == "value of HF_TOKEN"  # noqa: S105
    assert site.secrets == {"KEY": "value of OWN"}
    assert [each.password for each in load_credentials()] == ["password of ghcr.io"]
    with pytest.raises(SecretError, match="was not given to this box"):
        others.reveal()
    otis.become()
    with pytest.raises(SecretError):
        own.reveal()
    SecretCopy.objects.filter(secret=own).update(box=otis.row)
    with pytest.raises(SecretError, match="cannot be opened with this box's key"):
        own.reveal()

    # What only one of both can read of the containers' variables stands in nobody's way.
    SecretCopy.objects.filter(secret=own).update(box=milo.row)
    RunPlan.objects.filter(run=run.pk).update(sealed_secrets=b"by another secrets.key")
    run.plan.refresh_from_db()
    for become in (milo.become, milo.leave):
        become()
        assert "value of OWN" in starts.secret_values(run)


def test_copies_follow_the_values_keys_and_placements(boxes: tuple[FarBox, FarBox]) -> None:
    milo, _otis = boxes
    own = Secret.seal("OWN", "before", None)
    login = RegistryCredential(registry="ghcr.io", username="ada")
    login.keep("before")
    login.save()
    server = factories.server(
        milo.row, "mine", image="ghcr.io/ours/vllm:1", secret_env={"KEY": own.pk}
    )
    assert sealing.seal_for(milo.row) == 2
    SecretCopy.objects.update(made_at=timezone.now() - timedelta(hours=1))
    Secret.objects.update(created_at=timezone.now() - timedelta(hours=2))
    RegistryCredential.objects.update(created_at=timezone.now() - timedelta(hours=2))
    assert sealing.seal_for(milo.row) == 0

    own.replace("after", None)
    login.keep("after")
    login.save()
    sealing.seal_anew()
    milo.become()
    assert own.reveal() == "after"
    assert [each.password for each in load_credentials()] == ["after"]
    # Of an engine that was found on the box: it alone can open it.
    found = Secret.seal("FOUND", "in a container", None)
    assert found.reveal() == "in a container"
    milo.leave()
    with pytest.raises(SecretError):
        found.reveal()

    key = make_key()
    (milo.folder / "wire" / "seal.key").write_text(key)
    BoxLink.objects.update(seal_key=find_public_key(key))
    assert sealing.seal_for(milo.row) == 2
    milo.become()
    assert own.reveal() == "after"
    milo.leave()

    # Of a version that is none any more, and that is to be started again.
    run = factories.run(server, RunState.FAILED, restart_at=timezone.now())
    server.profile.save_version(replace(server.launch, secret_env={}), by=None, message="None")
    sealing.seal_for(milo.row)
    assert "OWN" in copies_of(milo.row)
    Run.objects.filter(pk=run.pk).update(restart_at=None)
    sealing.seal_for(milo.row)
    assert "OWN" not in copies_of(milo.row)

    type(server).objects.filter(pk=server.pk).update(removed_at=timezone.now())
    sealing.seal_for(milo.row)
    assert copies_of(milo.row) == {"FOUND"}
    BoxLink.objects.update(revoked_at=timezone.now())
    assert sealing.seal_for(milo.row) == 0
