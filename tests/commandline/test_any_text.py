"""Whatever is pasted is read or refused: nothing else happens, and it never takes long."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servers.commandline.command import PasteError
from servers.commandline.read import LONGEST, read

_PARTS = """docker run|vllm serve|sudo |-it |--gpus all |-e A=b |img/x |bash -c |$(|${A|:-|}|)|'|"|`|\\|
|<<EOF|EOF|services:|  a:|    image: x|    command: |- |#|# |$ |> |if |fi|for |done|;|&&|export A=1|A=(
|&anchor|*anchor|<<: |{|[|]|“|’|—|^|\t|~|=|...|@|%|\0|x"""


@given(st.lists(st.sampled_from([*_PARTS.split("|"), "\n", " ", "é"]), max_size=25))
def test_any_text_is_read_or_refused(parts: list[str]) -> None:
    paste = "".join(parts)
    refused = None
    commands = []
    try:
        commands = read(paste)
    except PasteError as error:
        refused = error
    if refused is None:
        assert commands
    else:
        assert min(refused.line, refused.column) >= 1
        assert re.match(r"Line \d+, column \d+: \S", str(refused))


@pytest.mark.parametrize(
    "paste",
    [
        "A=x\n" + "A=$A$A\n" * 40 + "vllm serve $A",
        "image: " + "[" * 5_000,
        "a: &a [x]\nb: &b [*a, *a, *a]\n"
        + "".join(f"c{n}: &c{n} [*{'b' if n == 0 else f'c{n - 1}'}, *b]\n" for n in range(40))
        + "services: *c39\nimage: x\n",
        "x" * (LONGEST + 1),
    ],
    ids=["a value that doubles", "a deep list", "aliases of aliases", "a long text"],
)
def test_a_paste_made_to_be_slow_is_refused(paste: str) -> None:
    with pytest.raises(PasteError):
        read(paste)


def test_nothing_of_a_paste_is_run(tmp_path: Path) -> None:
    file = tmp_path / "made"
    read(f"vllm serve x --port $(touch {file}) --host `touch {file}`")
    assert not file.exists()
