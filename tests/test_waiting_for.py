"""What the tests wait with."""

import asyncio
from types import SimpleNamespace as Like

import pytest

from tests import waiting
from tests.waiting import wait_until, wait_until_async


def test_it_gives_what_came_at_last() -> None:
    given = iter(["", "", "here"])

    assert wait_until(lambda: next(given), "it comes", every=0) == "here"


def test_what_never_came_is_said() -> None:
    with pytest.raises(AssertionError, match="never within 0 s: the moon is up"):
        wait_until(lambda: False, "the moon is up", patience=0)
    with pytest.raises(AssertionError, match="never within 0 s: it is 3 by now"):
        wait_until(lambda: False, lambda: f"it is {1 + 2} by now", patience=0)


@pytest.mark.parametrize(("took", "rest"), [(0.0, 0.02), (0.1, 0.4), (60.0, 1.0)])
def test_a_look_that_takes_long_is_not_followed_by_the_next_at_once(
    took: float, rest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, rests = Like(now=0.0), list[float]()
    monkeypatch.setattr(waiting, "time", Like(monotonic=lambda: clock.now))

    def look() -> bool:
        clock.now += took
        return bool(rests)

    wait_until(look, "it comes", pause=rests.append)

    assert rests == [pytest.approx(rest)]


@pytest.mark.asyncio
async def test_the_loop_goes_on_meanwhile() -> None:
    came: list[str] = []
    asyncio.get_running_loop().call_later(0, came.append, "here")

    async def look() -> list[str]:
        return came

    await wait_until_async(lambda: came, "it comes")
    await wait_until_async(look, "it comes")
    assert came == ["here"]
    with pytest.raises(AssertionError, match="never within 0 s: it goes"):
        await wait_until_async(lambda: not came, "it goes", patience=0)
