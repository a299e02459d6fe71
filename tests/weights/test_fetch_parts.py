"""Parts of a download by themselves: its pace, its hashes, the list that it begins with."""

import hashlib

import pytest

from servers.host.weights.fetch import listing
from servers.host.weights.fetch.places import FetchError, Pace
from tests.model_hub import etag, model_hub

MIB = 1 << 20


def test_a_pace_is_kept_over_all_streams() -> None:
    now = 0.0
    pace = Pace(10 * MIB, clock=lambda: now)
    for _ in range(100):
        now += pace.take(MIB)
    assert now == pytest.approx(10.0, abs=0.3)
    pace.set(0)
    assert pace.take(1 << 40) == 0.0
    pace.set(MIB)
    assert pace.take(MIB) == pytest.approx(1.0, abs=0.3)


def test_hashes_are_those_of_git_and_of_large_files() -> None:
    assert etag(b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a"
    assert etag(b"x" * 2000) == hashlib.sha256(b"x" * 2000).hexdigest()


def test_a_list_without_an_end_is_not_read_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_LONGEST", 100)
    with model_hub() as hub, listing.outside("") as outside:
        hub.has("a/b", {f"{number}.json": b"{}" for number in range(9)})
        with pytest.raises(FetchError, match="answers with more than"):
            listing.ask(outside, hub.url, "a/b", "main")
