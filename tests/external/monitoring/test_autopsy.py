"""Why a container has ended that nobody watched is read from the log that Docker still has."""

import pytest

from servers.state import samples
from tests.chaos.place import ChaosSite
from tests.external.monitoring.hands import GRACE, WORDS, Hands

pytestmark = pytest.mark.docker

SECRET = "hf_abcdefghijklmnopqrstuvwxyz0123"


def test_the_page_says_why_and_how_many_requests_there_are(place: ChaosSite, hands: Hands) -> None:
    place.watcher()
    crashes = {"ENGINE_SCRIPT": "crash", "ENGINE_FITS": "0.5", "HF_TOKEN": SECRET}
    failed = hands.run("oom", *WORDS, "--gpu-memory-utilization", "0.9", env=crashes)
    ended = hands.run("over")
    hands.sees(ended)

    samples.note_look(place.box.slug)
    assert samples.is_looked_at("rtx8")

    def counted() -> bool:
        samples.note_look(place.box.slug)
        found = hands.found(ended)
        return found is not None and found.running == 0

    place.waits_for("its requests are counted while somebody looks", counted)
    hands.client.stop(ended, timeout=GRACE)
    place.waits_for("the reason is found", lambda: bool((it := hands.found(failed)) and it.why))
    found = hands.found(failed)
    assert found is not None
    assert found.cause, found.why
    assert "memory" in found.why
    assert SECRET not in str(found.to_json())
    assert not hands.sees(ended, "ended").why, "somebody has stopped it, which needs no reason"
