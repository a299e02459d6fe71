"""What breaks in one round of the watcher is told, and does not end the others."""

import logging
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from django.db.utils import DataError, OperationalError

from servers import live
from servers.host.containers import ContainerError
from servers.models import Box
from servers.watcher import boxes, faults
from servers.watcher.loop import Watcher


@pytest.fixture
def watcher(
    own_redis: redis.Redis, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Watcher:
    settings.BOX_FILE = tmp_path / "box.toml"
    monkeypatch.setattr(boxes, "gather", lambda _sample: (None, {"problems": []}))
    return Watcher()


def on_thread(name: str, work: Any) -> None:
    """As one of the watcher's loops does it."""
    raised: list[BaseException] = []

    def does() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=does, name=name)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


class Work:
    """Looks around, and finds something that nobody has thought of."""

    error: Exception | None = DataError("value too long for type character varying(20)")

    def look(self) -> None:
        if self.error is not None:
            raise self.error


@pytest.mark.django_db(transaction=True)
def test_a_round_that_breaks_is_told_on_the_boxs_page_until_one_goes_well(
    watcher: Watcher, caplog: pytest.LogCaptureFixture
) -> None:
    work = Work()
    with caplog.at_level(logging.ERROR):
        for _round in range(3):
            on_thread("looking_around", partial(watcher._surviving, work.look))
    watcher._give_sign_of_life()

    assert caplog.text.count("A round of looking_around broke") == 1
    assert caplog.text.count("value too long") == 1
    ((what, fix),) = live.panel(Box.objects.get()).problems
    assert what == "inferdash itself fails at what others run"
    assert "(DataError)" in fix
    assert "value too long" not in fix  # it may be anybody's words

    work.error = None
    on_thread("looking_around", partial(watcher._surviving, work.look))
    watcher._give_sign_of_life()
    assert live.panel(Box.objects.get()).problems == ()


@pytest.mark.django_db(transaction=True)
def test_what_stays_broken_ends_the_watcher_for_another_to_begin_anew(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Work()
    watcher._surviving(work.look)
    monkeypatch.setattr(faults, "TOO_LONG", 0.0)

    with pytest.raises(DataError):
        watcher._surviving(work.look)


@pytest.mark.django_db(transaction=True)
def test_a_database_that_is_away_is_no_fault_of_ours(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "TOO_LONG", 0.0)
    work = Work()
    work.error = OperationalError("server closed the connection")
    for _round in range(2):
        watcher._surviving(work.look)
    assert watcher.faults.problems() == []


@pytest.mark.django_db(transaction=True)
def test_who_listens_to_docker_hears_that_it_is_away(watcher: Watcher) -> None:
    work = Work()
    work.error = ContainerError("Docker Engine does not answer on this box.")
    with pytest.raises(ContainerError):
        watcher._surviving(work.look, but=ContainerError)
    assert watcher.faults.problems() == []
