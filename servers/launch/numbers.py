"""Whole numbers in what others write."""

import re

_WHOLE = re.compile(r"[0-9]{1,18}", re.ASCII)


def whole(text: str) -> int | None:
    """The number that up to 18 plain digits are, so that a database can keep it; None otherwise.

    Python's `isdigit` takes digits that `int` refuses (²), and `int` more than 4,300 of them for an
    error (sys.set_int_max_str_digits).
    """
    return int(text) if _WHOLE.fullmatch(text) else None
