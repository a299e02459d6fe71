"""The address at which other machines find this one."""

import socket


def find_own_address() -> str | None:
    """The one that this machine's packets to elsewhere carry; nothing is sent to find out.

    None: it has no way to elsewhere.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # RFC 5737: nobody has it
        except OSError:
            return None
        return str(probe.getsockname()[0])
