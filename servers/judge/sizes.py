"""How bytes read, on pages as in sentences."""

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
