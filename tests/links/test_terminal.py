"""`inferdash boxes`, against the API that it speaks to."""

import io
from typing import Any

import pytest
from django.utils import timezone

from inferdash.terminal.__main__ import main
from servers.lifecycle.links import decisions
from servers.models import (
    Box,
    BoxInvitation,
    BoxLink,
    BoxUpgrade,
    Key,
    Role,
    Secret,
    SecretCopy,
    User,
)
from tests.links import linked


def test_a_box_is_invited_let_in_and_revoked_from_a_terminal(
    transactional_db: None,
    live_server: Any,
    hub: User,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    key = Key.make(hub, "laptop", Role.ADMIN, expires_at=None)[1]
    monkeypatch.setenv("INFERDASH_URL", live_server.url)
    monkeypatch.setenv("INFERDASH_KEY", key)

    def run(*words: str, code: int = 0) -> str:
        assert main(["boxes", *words]) == code
        said = capsys.readouterr()
        return said.out + said.err

    assert "make join TOKEN=ifj1_" in run("add")
    assert BoxInvitation.objects.select_open().count() == 1
    link = linked.ask("laurel")
    assert f"laurel asks to join from 10.0.0.17: {link.words}" in run("list")
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert "--yes" in run("let-in", "laurel", code=2), "nobody has compared the words"
    assert "No box orchid asks" in run("let-in", "orchid", "-y", code=3)

    assert "laurel-2 is let in" in run("let-in", "laurel", "--as", "laurel-2", "-y")
    link = BoxLink.objects.get()
    assert link.box is not None
    link.box.seen_at = timezone.now()
    link.box.save()
    assert "laurel-2  joined" in run("list")
    settings.VERSION = "1.3.0"
    BoxLink.objects.update(told_at=timezone.now())
    # The box's steps, one at each look.
    steps = iter(({"step": "fetching", "percent": 40}, {"step": "done", "is_open": None}))
    monkeypatch.setattr(
        "inferdash.terminal.boxes.time.sleep",
        lambda seconds: BoxUpgrade.objects.update(**next(steps)),
    )
    told = run("bring-up", "laurel-2", "-y").splitlines()
    assert told == ["waiting for the box", "fetching 40 %", "laurel-2 has 1.3.0 now."]
    Box.objects.update(facts={"twins": ["aa", "zz"]})
    decisions.hold_twins()
    assert "laurel-2  held" in run("list")
    assert "laurel-2 is let in again." in run("release", "laurel-2")
    secret = Secret.seal("HF_TOKEN", "value", hub)
    SecretCopy.objects.create(box=link.box, secret=secret, sealed=b"sealed")
    assert "It has seen HF_TOKEN: change them." in run("revoke", "laurel-2", "-y")
    assert not BoxLink.objects.select_joined()

    linked.ask("orchid")
    assert "orchid is refused" in run("refuse", "orchid")
    viewer = User.objects.create_user("kay", role=Role.VIEWER)
    monkeypatch.setenv("INFERDASH_KEY", Key.make(viewer, "k", Role.VIEWER, expires_at=None)[1])
    assert "laurel-2  revoked" in run("list")
