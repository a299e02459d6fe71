"""The systemd unit of a process, by its cgroup."""

import re

from servers.host.kernel.proc import Kernel

_SERVICE = re.compile(r"/([^/]+\.service)(?=/|$)", re.MULTILINE)
_OWN_MANAGER = re.compile(r"user@\d+\.service")
_SESSION = re.compile(r"/session-[^/]+\.scope(?=/|$)", re.MULTILINE)


def unit(kernel: Kernel, pid: int) -> str:
    """ "vllm.service"; "session" for what somebody who logged in has started; "" otherwise.

    A unit of a user's own systemd stands below user@1000.service and is told as
    "user: vllm.service".
    """
    text = kernel.cgroup(pid)
    services: list[str] = _SERVICE.findall(text)
    own = [each for each in services if not _OWN_MANAGER.fullmatch(each)]
    if own:
        return own[-1] if len(own) == len(services) else f"user: {own[-1]}"
    return "session" if services or _SESSION.search(text) else ""
