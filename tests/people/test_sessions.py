"""Sessions that two places may hold end in both, and end and begin while one of them is away."""

from pathlib import Path

import pytest

from servers.state import store
from servers.state.sessions import SessionStore

pytestmark = pytest.mark.django_db


def test_people_log_in_and_out_while_redis_is_away(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(store, "client", store.connect(f"unix://{tmp_path}/none.sock"))
    held = SessionStore()
    held["of"] = "ada"
    held.save()

    held.cycle_key()

    key = held.session_key
    assert SessionStore(key)["of"] == "ada"
    held.flush()
    assert "of" not in SessionStore(key)


@pytest.mark.usefixtures("own_redis")
def test_one_that_is_in_both_places_ends_in_both() -> None:
    held = SessionStore()
    held["of"] = "ada"
    held.save()
    held._keep()
    key = held.session_key

    held.flush()

    assert "of" not in SessionStore(key)
