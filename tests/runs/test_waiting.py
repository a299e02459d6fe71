"""A thread that waits for what browsers are told."""

import threading
import time

import pytest
from django.test import override_settings

from servers import events
from servers.events import wait

SOON = 20.0  # seconds: only what is broken takes that long


def about_server(message: dict[str, object]) -> bool:
    return (message.get("kind"), message.get("id")) == ("server", 7)


def test_it_looks_again_when_it_hears_of_it_and_not_before(
    own_redis: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_LOST", 3 * SOON)  # by itself it would look too late
    looks: list[str] = []
    states = ["queued"]
    told = threading.Event()
    in_time: list[bool] = []

    def look() -> str:
        looks.append(states[-1])
        if len(looks) == 1:
            teller.start()
        else:
            told.set()
        return states[-1]

    def tell() -> None:
        events.publish_change("server", 8)
        states.append("starting")
        events.publish_change("server", 7)
        in_time.append(told.wait(SOON))

    teller = threading.Thread(target=tell)
    found = wait(
        look,
        lambda state: state == "starting",
        groups=[events.LIVE],
        seconds=3 * SOON,
        is_about=about_server,
    )
    teller.join()

    assert (found, looks, in_time) == ("starting", ["queued", "starting"], [True])


def test_when_the_time_is_over_it_says_how_things_are(own_redis: None) -> None:
    began = time.monotonic()
    assert (
        wait(lambda: "queued", lambda _state: False, groups=[events.LIVE], seconds=0.2) == "queued"
    )
    assert 0.2 <= time.monotonic() - began < SOON


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_no_time_at_all_is_one_look(own_redis: None, seconds: float) -> None:
    assert wait(lambda: 1, lambda _one: False, groups=[events.LIVE], seconds=seconds) == 1


def test_without_redis_it_looks_once() -> None:
    nowhere = {
        "BACKEND": "channels_redis.core.RedisChannelLayer",
        "CONFIG": {"hosts": ["redis://127.0.0.1:1"]},
    }
    with override_settings(CHANNEL_LAYERS={"default": nowhere}):
        assert wait(lambda: "gone", lambda _s: False, groups=[events.LIVE], seconds=SOON) == "gone"
