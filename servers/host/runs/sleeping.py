"""Sleep and wake-up of an engine through vLLM's endpoints.

They are there with VLLM_SERVER_DEV_MODE=1 alone. Level 1 keeps the weights in the machine's memory;
level 2 keeps nothing, so that they are read again.
"""

import time

from servers.host.runs.probes import Endpoint, EngineError, fetch_json, post

# Seconds. Some GiB a second go between a GPU and the machine's memory, weights from a disk slower.
WITHIN = 300.0
_SETTLES = 30.0  # it may answer before it has done so
_LOOK_EVERY = 0.25
# What is done to wake up from each level, as vLLM documents it.
_WAKE: dict[int, tuple[tuple[str, object], ...]] = {
    1: (("/wake_up", None),),
    2: (
        ("/wake_up?tags=weights", None),
        ("/collective_rpc", {"method": "reload_weights"}),
        ("/wake_up?tags=kv_cache", None),
    ),
}


def is_sleeping(endpoint: Endpoint) -> bool | None:
    """None where the engine does not say."""
    answer = fetch_json(endpoint, "/is_sleeping")
    found = answer.get("is_sleeping") if isinstance(answer, dict) else None
    return found if isinstance(found, bool) else None


def sleep(endpoint: Endpoint, level: int) -> None:
    """Return when it sleeps; requests that run meanwhile end first. Raises EngineError."""
    post(endpoint, f"/sleep?level={level}&mode=wait", within=WITHIN)
    _settle(endpoint, wanted=True)


def wake(endpoint: Endpoint, level: int) -> None:
    """Return when it is awake. Raises EngineError."""
    for path, body in _WAKE[level]:
        post(endpoint, path, body, within=WITHIN)
    _settle(endpoint, wanted=False)


def _settle(endpoint: Endpoint, *, wanted: bool) -> None:
    until = time.monotonic() + _SETTLES
    while is_sleeping(endpoint) is not wanted:
        if time.monotonic() > until:
            state = "awake" if wanted else "asleep"
            raise EngineError(f"The engine said yes, and is still {state} {_SETTLES:.0f} s later.")
        time.sleep(_LOOK_EVERY)
