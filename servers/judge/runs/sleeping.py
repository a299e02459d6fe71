"""Memory of an engine that sleeps: what it released, what it lacks to wake up. Sizes in bytes."""

from collections.abc import Mapping
from typing import Any

from servers.judge.memory import available


def words(sleep_info: Mapping[str, Any], state: str) -> str:
    """ "asleep: 71 GiB given back, wakes in about 3 s"; only what was measured is said.

    `sleep_info` is what models.runs.sleep keeps.
    """
    if state == "falling":
        return "goes to sleep"
    if state == "waking":
        usual = sleep_info.get("woke_in")
        return f"wakes up, which took {_seconds(usual)} the last time" if usual else "wakes up"
    back = given_back(sleep_info)
    if back is None:
        said = "how much it gave back nobody can tell"
    elif back <= 0:
        said = "nothing was given back"
    else:
        said = f"{_gib(back)} given back"
    usual = sleep_info.get("woke_in")
    return f"asleep: {said}" + (f", wakes in about {_seconds(usual)}" if usual else "")


def given_back(sleep_info: Mapping[str, Any]) -> int | None:
    """None where the driver does not tell how much an engine holds."""
    before, after = sleep_info.get("before"), sleep_info.get("after")
    return None if before is None or after is None else int(before) - int(after)


def compute_wake_shortfall(
    sleep_info: Mapping[str, Any], sample: Mapping[str, Any] | None, gpus: str
) -> int:
    """Bytes that its GPUs lack for it to have back what it gave; 0 where that is not known."""
    back = given_back(sleep_info)
    free = available.free(sample, gpus)
    if not back or back <= 0 or not free:
        return 0
    each = back // len(free)
    return sum(max(0, each - size) for size in free.values())


def _gib(size: int) -> str:
    count = size / 2**30
    return f"{count:.0f} GiB" if count >= 10 else f"{count:.1f} GiB"  # noqa: PLR2004


def _seconds(said: float) -> str:
    return f"{said:.1f} s" if said < 10 else f"{said:.0f} s"  # noqa: PLR2004
