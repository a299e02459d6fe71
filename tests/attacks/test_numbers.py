"""Numbers that Python refuses to read: of thousands of digits, and digits that are none to `int`.

They stand in pastes, in the labels and variables of images and containers, and in versions that
engines tell. Whoever reads them answers as for any other nonsense, and nothing breaks.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress

from servers.forms.profile_fields import read_box
from servers.judge.images import names
from servers.launch import numbers
from servers.launch.commandline.draft import DraftError, draft
from servers.launch.commandline.paste import read
from servers.launch.commandline.text_boxes import WordsError, ulimits
from servers.launch.commandline.tokens import PasteError
from servers.launch.engines import flaglist, placement
from tests.cases import table

STRANGE = ("9" * 5000, "²", "١")
OPTIONS = (
    *("--gpus {n}", "--gpus count={n}", "-p {n}:{n}", "-p 8000:{n}", "--ulimit memlock={n}"),
    *("--shm-size {n}g", "--memory {n}g", "--restart on-failure:{n}", "--pids-limit {n}"),
)
ANSWERS = (PasteError, DraftError, WordsError)


def pasted(option: str) -> None:
    for command in read(f"docker run {option} vllm/vllm-openai:v0.20.2 --model a/b"):
        draft(command)


def readers(n: str) -> Iterator[tuple[str, Callable[[], object]]]:
    yield "driver", lambda: names.satisfies(f"{n}.1", "cuda>=12.8")
    yield "condition", lambda: names.satisfies("580.1", f"cuda>={n}.8 driver<{n}")
    yield "first driver", lambda: names.first_for(names.find_needed_cuda(f"cuda>={n}.1"))
    yield "version", lambda: flaglist.read_release(f"{n}.1.1")
    yield "cards", lambda: placement.parse_gpu_requirement(f"{n}x RTX PRO 6000")
    yield "ulimit", lambda: ulimits(f"memlock={n}")
    yield "size", lambda: read_box("size", f"{n}g")
    yield "time", lambda: read_box("span", f"{n}m")
    for option in OPTIONS:
        yield option, lambda option=option: pasted(option.format(n=n))  # type: ignore[misc]


@table(("name", "reader"), lambda: [each for n in STRANGE for each in readers(n)])
def test_a_number_that_is_none_breaks_nothing(name: str, reader: Callable[[], object]) -> None:
    with suppress(*ANSWERS):
        reader()


@table(
    ("text", "number"),
    [("0", 0), ("007", 7), ("9" * 18, 10**18 - 1), ("9" * 19, None)]
    + [(text, None) for text in ("", "-1", "+1", "1_0", " 1", "1.0", *STRANGE)],
)
def test_a_whole_number_is_of_few_plain_digits(text: str, number: int | None) -> None:
    assert numbers.whole(text) == number
