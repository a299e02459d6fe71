"""Docker's restart policies as inferdash's own, and back."""

import re
from typing import Any

from servers.launch.engines.launch import Launch

_ON_FAILURE = re.compile(r"on-failure(?::(\d{1,6}))?")
MOST_TRIES = 100  # a form's limit, too


def read(policy: str) -> tuple[dict[str, Any], str]:
    """Fields of Launch for what `--restart` says, and a remark on them; both may be empty."""
    if policy in ("", "no"):
        return {}, ""
    if policy in ("always", "unless-stopped"):
        return {"restart": "always", "start_with_box": True}, (
            f"--restart {policy}: inferdash does that itself, with pauses that grow, and after a "
            "restart of the box; Docker’s own policy stays off. A person’s stop ends it."
        )
    found = _ON_FAILURE.fullmatch(policy)
    if found is None:
        return {}, f"--restart {policy}: Docker has no such policy. Choose one under Life."
    values: dict[str, Any] = {"restart": "on-failure"}
    if found[1] and int(found[1]):
        values["restart_tries"] = min(int(found[1]), MOST_TRIES)
        return values, (
            f"--restart {policy}: inferdash does that itself, with pauses that grow; Docker’s own "
            "policy stays off."
        )
    return values, (
        f"--restart {policy}: inferdash does that itself and gives up after "
        f"{Launch.restart_tries} starts in a row that failed, where Docker would go on for ever."
    )


def to_docker(launch: Launch) -> str | None:
    """What `docker run --restart` would be given to do as nearly the same as Docker can."""
    if launch.restart == "on-failure" and not launch.start_with_box:
        return f"on-failure:{launch.restart_tries}"
    return "unless-stopped" if launch.restart or launch.start_with_box else None


def inexact(launch: Launch) -> str:
    """What of it Docker has no policy for, as a remark; "" where it has one."""
    if launch.restart == "always" and not launch.start_with_box:
        return "whenever it ends, but not after a restart of the box"
    if launch.restart != "always" and launch.start_with_box:
        tries = f"up to {launch.restart_tries} times in a row" if launch.restart else "only"
        return f"{tries}{' and' if launch.restart else ''} after a restart of the box"
    return ""
