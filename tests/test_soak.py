import pytest

from tests.bench import soak

GROWTH = f"memory after {(minutes := 1.5):g} min"


@pytest.mark.soak
@pytest.mark.takes(240)
def test_streams_that_are_hung_up_on_leave_nothing_and_lose_nothing() -> None:
    """Memory grows while it is warm: half an hour says how much (make soak), not this."""
    found = {each.name: each.value for each in soak.run(minutes)}

    del found[GROWTH]
    assert found == {
        "requests that broke": 0,
        "requests that were lost": 0,
        "connections left": 0,
    }
