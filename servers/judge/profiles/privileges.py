"""Launch options that only an admin may use: they control the box."""

from collections.abc import Mapping
from typing import Any

DANGEROUS = ("privileged", "devices", "security_opt", "cap_add", "pid", "user")
HARMLESS_CAPABILITIES = {"SYS_NICE", "IPC_LOCK"}


def opens_the_box(values: Mapping[str, Any]) -> list[str]:
    """Which of a launch's values only an admin may set."""
    given = {name: values.get(name) for name in DANGEROUS}
    given["cap_add"] = set(given["cap_add"] or ()) - HARMLESS_CAPABILITIES
    return [name for name, value in given.items() if value]
