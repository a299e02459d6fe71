import ast
import json
import re
import subprocess
import tempfile
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests import groups
from tests.__main__ import find_mypy_cache
from tests.cases import table
from tests.groups import GROUPS, ROOT, GroupError, GuardedGroup, changed, hash_inputs, hashes, write
from tests.nested import run_pytest

SOAK = next(each for each in GROUPS if each.marker == "soak")
TESTS = """
import pytest

@pytest.mark.soak
def test_of_a_group():
    pass

def test_of_none():
    pass
"""


BODIES = {"passes": "pass", "fails": "assert False", "skips": "pytest.skip('no')"}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository that has one file for each pattern of each group."""
    root = tmp_path / "checkout"
    for pattern in {each for group in GROUPS for each in group.inputs}:
        file = root / pattern.replace("*", "x")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("1")
    subprocess.run(["git", "init", "-q", root], check=True)
    return root


def test_a_changed_input_makes_its_group_run_and_no_other(checkout: Path) -> None:
    proved = checkout / "proved.json"
    write(hashes(checkout), proved)
    assert changed(checkout, proved) == set()

    (checkout / "tests/test_soak.py").write_text("2")

    assert changed(checkout, proved) == {"soak"}


def test_a_new_a_removed_and_a_renamed_input_count_too(checkout: Path) -> None:
    seen = [hash_inputs(SOAK, checkout)]
    new = checkout / "servers/gateway/deep/new.py"
    new.parent.mkdir()
    new.write_text("")
    seen.append(hash_inputs(SOAK, checkout))
    new.rename(new.with_name("newer.py"))
    seen.append(hash_inputs(SOAK, checkout))
    (checkout / "servers/gateway/x").unlink()
    seen.append(hash_inputs(SOAK, checkout))

    assert len(set(seen)) == len(seen)


def test_what_is_never_committed_counts_for_nothing(checkout: Path) -> None:
    before = hash_inputs(SOAK, checkout)
    (checkout / ".gitignore").write_text("__pycache__/\n")
    (checkout / "servers/gateway/__pycache__").mkdir()
    (checkout / "servers/gateway/__pycache__/x.pyc").write_bytes(b"0")

    assert hash_inputs(SOAK, checkout) == before


def test_only_what_was_green_with_the_inputs_of_now_is_proved(
    checkout: Path, tmp_path: Path
) -> None:
    proved, before = tmp_path / "proved.json", hashes(checkout)
    green = before.keys() - {"chaos"}
    write(before, proved)
    (checkout / "tests/test_soak.py").write_text("changed while the tests ran")

    assert groups.keep(before, green, checkout, proved) == {"chaos", "soak"}

    assert changed(checkout, proved) == {"chaos", "soak"}


def test_a_group_that_nobody_has_proved_runs(checkout: Path, tmp_path: Path) -> None:
    assert changed(checkout, tmp_path / "none.json") == {each.marker for each in GROUPS}


def test_a_group_whose_inputs_are_gone_is_an_error(checkout: Path) -> None:
    with pytest.raises(GroupError, match="The group lost has no inputs"):
        hash_inputs(GuardedGroup(marker="lost", about="-", inputs=("nowhere/*",)), checkout)


def test_every_pattern_names_a_file_of_this_repository() -> None:
    assert {each.marker: groups.unused_patterns(each) for each in GROUPS} == {
        each.marker: [] for each in GROUPS
    }


@table("group", GROUPS, ids=lambda group: group.marker)
def test_what_the_tests_of_a_group_import_is_an_input(group: GuardedGroup) -> None:
    modules = [
        path
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if path.name != "test_groups.py" and re.search(rf"mark\.{group.marker}\b", path.read_text())
    ]
    used = {str(path.relative_to(ROOT)) for path in modules}
    used |= {name for path in modules for name in imported(path)}

    assert modules
    assert {name for name in used if not any(fnmatchcase(name, p) for p in group.inputs)} == set()


def imported(path: Path) -> Iterator[str]:
    """The modules of the tests that it names itself, as files."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests"):
            names = [str(node.module), *(f"{node.module}.{each.name}" for each in node.names)]
        for name in names:
            file = ROOT / f"{name.replace('.', '/')}.py"
            if file.is_file():
                yield str(file.relative_to(ROOT))


def run(folder: Path, proved: dict[str, str], *options: str) -> str:
    (folder / "test_sample.py").write_text(TESTS)
    (folder / "proved.json").write_text(json.dumps(proved))
    environment = {groups.VARIABLE: str(folder / "proved.json")}
    done = run_pytest(folder, ("tests.groups", "tests.parts"), *options, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("processes", ["0", "2"])
def test_pytest_leaves_out_what_is_proved_and_says_so(tmp_path: Path, processes: str) -> None:
    said = run(tmp_path, hashes(), "--changed", "-n", processes)

    assert "1 passed" in said
    assert f"soak: 1 tests of {SOAK.about}" in said.partition("PROVED BEFORE")[2]


def test_pytest_runs_what_was_proved_of_other_inputs(tmp_path: Path) -> None:
    said = run(tmp_path, hashes() | {"soak": "of other inputs"}, "--changed", "-n", "2")

    assert "2 passed" in said
    assert "PROVED BEFORE" not in said


@table(
    ("tests", "proved"),
    [
        ("soak passes; other passes", ["other", "soak"]),
        ("soak passes; other fails", ["soak"]),
        ("soak fails; other passes", ["other"]),
        ("soak skips; other passes", ["other"]),
        ("soak passes; other passes; nothing can be read", []),
    ],
)
def test_a_run_tells_which_groups_it_has_proved(tests: str, proved: list[str]) -> None:
    """`other` stands for a second group; a test of none fails each time."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = "import pytest\ndef test_of_none():\n    assert False\n"
        for number, words in enumerate(tests.split("; ")):
            who, does = words.split(" ", 1)
            if does in BODIES:
                marker = {"soak": "soak", "other": "chaos"}[who]
                text += f"@pytest.mark.{marker}\ndef test_{number}():\n    {BODIES[does]}\n"
            else:
                (folder / "test_broken.py").write_text("import nothing_of_that_name\n")
        (folder / "test_sample.py").write_text(text)
        run_pytest(folder, ("tests.groups",), "-n", "2", **{groups.OUTCOME: f"{folder}/outcome"})
        told = json.loads((folder / "outcome").read_text())

    assert told == sorted({"soak": "soak", "other": "chaos"}[each] for each in proved)


def test_without_the_option_every_test_runs(tmp_path: Path) -> None:
    assert "2 passed" in run(tmp_path, hashes())


def test_the_cache_of_types_is_another_once_models_have_moved(tmp_path: Path) -> None:
    models = tmp_path / "servers/models"
    models.mkdir(parents=True)
    (models / "box.py").touch()
    before = find_mypy_cache(tmp_path)
    (models / "box.py").write_text("changed = True\n")
    assert find_mypy_cache(tmp_path) == before

    (models / "box.py").rename(models / "machine.py")

    assert find_mypy_cache(tmp_path) != before
