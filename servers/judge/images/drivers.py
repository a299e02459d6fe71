"""The driver requirement of an image: NVIDIA_REQUIRE_CUDA.

Source: NVIDIA's container toolkit, where a start is refused with “unsatisfied condition: cuda>=…”.
The variable holds alternatives, separated by spaces; the parts of one, separated by commas, must
all hold: "cuda>=12.8 brand=tesla,driver>=535,driver<536". CUDA's release notes say which driver
brought which version.
"""

import operator
import re
from collections.abc import Callable

from servers.launch import numbers
from servers.launch.engines.flaglist import read_release

_CUDA_OF = (
    (450, (11, 0)), (455, (11, 1)), (460, (11, 2)), (465, (11, 3)), (470, (11, 4)),
    (495, (11, 5)), (510, (11, 6)), (515, (11, 7)), (520, (11, 8)), (525, (12, 0)),
    (530, (12, 1)), (535, (12, 2)), (545, (12, 3)), (550, (12, 4)), (555, (12, 5)),
    (560, (12, 6)), (565, (12, 7)), (570, (12, 8)), (575, (12, 9)), (580, (13, 0)),
    (590, (13, 1)),
)  # fmt: skip
_PART = re.compile(r"(cuda|driver|brand|arch)(>=|<=|!=|=|<|>)(.+)")
_COMPARE: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
    "!=": operator.ne,
}


def satisfies(driver: str, require: str) -> bool | None:
    """Whether a driver ("580.142") meets the condition; None where that is not known.

    An empty condition is met. Which brand a card is of nobody tells here, so what depends on
    it is not known. Minor versions of CUDA run on every driver of their major version's first
    (forward compatibility aside), but the toolkit goes by the condition, and so does this.
    """
    if not require.strip():
        return True
    found = [_all(part, driver) for part in require.split()]
    return True if True in found else None if None in found else False


def find_needed_cuda(require: str) -> str:
    """The least CUDA version that a condition names first, "12.8"; "" where it names none."""
    found = re.search(r"cuda>=([0-9]+(?:\.[0-9]+)?)", require)
    return found[1] if found else ""


def first_for(cuda: str) -> str:
    """The first driver branch that brought a CUDA version, "570"; "" where it is not known."""
    wanted = _numbers(cuda)
    if not wanted:
        return ""
    return next((str(branch) for branch, brought in _CUDA_OF if brought >= wanted), "")


def _all(alternative: str, driver: str) -> bool | None:
    found = [_one(part, driver) for part in alternative.split(",")]
    return False if False in found else None if None in found else True


def _one(part: str, driver: str) -> bool | None:
    match, mine = _PART.fullmatch(part), read_release(driver)
    if match is None or mine is None:
        return None
    what, how, value = match.groups()
    wanted = _numbers(value)
    if what == "driver" and wanted:
        return _COMPARE[how](mine[: len(wanted)], wanted)
    if what == "cuda" and wanted:
        return _cuda(mine[0], how, (*wanted, 0)[:2])
    return None


def _cuda(branch: int, how: str, wanted: tuple[int, ...]) -> bool | None:
    brought = [cuda for first, cuda in _CUDA_OF if first <= branch]
    if not brought:
        return False if how in (">=", ">") else None
    if branch > _CUDA_OF[-1][0] and how in (">=", ">") and not _COMPARE[how](brought[-1], wanted):
        return None  # newer than this table
    return _COMPARE[how](brought[-1], wanted)


def _numbers(text: str) -> tuple[int, ...]:
    """Nothing where one of them is none: then nothing is known of all."""
    found = [numbers.whole(each) for each in re.findall(r"[0-9]+", text)]
    return tuple(each for each in found if each is not None) if None not in found else ()
