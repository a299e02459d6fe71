"""Whatever is pasted is read or refused: nothing else happens, and it never takes long."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servers.launch.commandline import tokens
from servers.launch.commandline.paste import LONGEST, _read, blank_fences, normalize, read
from servers.launch.commandline.tokens import PasteError, fill_placeholders
from tests.cases import table
from tests.commandline.pastes import cases

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


LONG = "x" * 6600


@table(
    "paste",
    [
        f"A={LONG}\n" + "B=$A$A$A\n" * 2000 + "vllm serve $B",
        "A=(x)\n" + 'A+=("${A[@]}" "${A[@]}")\n' * 40 + "vllm serve ${A[@]}",
        f"A={'a' * 19_000}\nvllm serve ${{A//a/{'b' * 30_000}}}",
        f"A={'a' * 19_000}\nvllm serve ${{A#*b}}",
        f"A={'a' * 3_000}\nvllm serve ${{A#{'*a' * 200}b}}",
        "".join(f"cat <<E{n}\nx\nE{n}\n" for n in range(3500)) + "vllm serve x",
        "vllm serve " + "x " * 29_000,
        "vllm " + "&&" * 29_000,
        f"alias a=vllm{LONG}\n" * 8,
        "services:\n  a:\n    image: x\n    command: " + "${A:-" * 9000 + "}" * 9000,
    ],
)
def test_a_paste_that_grows_while_it_is_read_is_refused(paste: str) -> None:
    """By what is counted, and so on every machine alike."""
    with pytest.raises(PasteError, match="more than any launch command"):
        read(paste[:LONGEST])


def test_guides_are_far_from_the_bounds() -> None:
    for each in cases("gives"):
        with tokens.budget(steps=tokens.STEPS // 20, written=tokens.WRITTEN // 20):
            _read(blank_fences(normalize(each.paste)))


def test_what_a_person_fills_in_does_not_grow_either() -> None:
    [command] = read("docker run -e A vllm/vllm-openai --x " + "$A " * 2000)
    assert fill_placeholders(command, {"A": "value"}).command[-1] == "value"
    with pytest.raises(PasteError, match="more than any launch command"):
        fill_placeholders(command, {"A": "x" * 10_000})


def test_what_is_no_paste_is_not_counted() -> None:
    with tokens.budget(steps=1, written=1):
        tokens.spend_step()
        with pytest.raises(tokens.TooMuchError):
            tokens.spend_step()
        with pytest.raises(tokens.TooMuchError):
            tokens.spend_write(2)
    tokens.spend_step(10**9)
    tokens.spend_write(10**9)


def test_nothing_of_a_paste_is_run(tmp_path: Path) -> None:
    file = tmp_path / "made"
    read(f"vllm serve x --port $(touch {file}) --host `touch {file}`")
    assert not file.exists()
