"""Sizes in bytes as people read them."""

GIB = 2**30


def gib(size: float) -> str:
    """ "41.2 GiB"."""
    return f"{gib_number(size)} GiB"


def gib_number(size: float) -> str:
    """ "41.2", for places where the unit stands once for many figures."""
    value = size / GIB
    if value >= 99.95:
        return f"{value:.0f}"
    # Two digits where one would round something that is there to nothing.
    return f"{value:.2f}" if 0 < value < 0.095 else f"{value:.1f}"


def size(count: float) -> str:
    """Of something that may be small: "80 bytes", "412 KiB", "3.1 MiB"."""
    if count >= GIB / 10:
        return gib(count)
    if count < 1024:
        return f"{count:.0f} bytes"
    return f"{count / 2**20:.1f} MiB" if count >= 2**20 / 10 else f"{count / 1024:.0f} KiB"
