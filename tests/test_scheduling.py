from pathlib import Path
from types import SimpleNamespace as Like

import pytest

from tests import running, scheduling
from tests.nested import run_pytest

MODULE = """
import os
import pytest

{signature}

@pytest.mark.parametrize("number", range(3))
def test_where_it_runs(number):
    print(f"{name} {{number}} {{os.environ['PYTEST_XDIST_WORKER']}}")
"""

NAMES = ("one ", "two ", "three ", "four ", "five ", "six ")


def test_as_much_work_for_each_installation(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    for name in ("a", "b", "c", "d"):
        (tmp_path / f"tests/test_{name}.py").write_text("def test(place: Installation): pass")
    (tmp_path / "tests/test_other.py").write_text("def test(): pass")

    shared = scheduling.share_installations(tmp_path)

    assert sorted(shared) == [f"tests/test_{name}.py" for name in ("a", "b", "c", "d")]
    assert sorted(shared.values()) == ["installation 0"] * 2 + ["installation 1"] * 2


def test_what_starts_an_installation_of_its_own_comes_before_the_shared_one() -> None:
    leak, walk = "tests/browser/test_leak.py::test", "tests/browser/test_walk.py::test"
    items = [Like(nodeid=walk), Like(nodeid=leak)]
    units = {node.partition("::")[0]: "installation 0" for node in (leak, walk)}

    scheduling.sort_items(items, {walk: 9.0, leak: 1.0}, units)  # type: ignore[arg-type]

    assert [item.nodeid for item in items] == [leak, walk]


@pytest.mark.parametrize(
    ("config", "following", "ends"),
    [
        (Like(workerinput={}), "tests/test_a.py::test", False),
        (Like(workerinput={}), "tests/test_other.py::test", True),
        (Like(), "tests/test_other.py::test", False),  # not sorted: another may come
    ],
)
def test_an_installation_ends_before_what_needs_none(
    config: object, following: str, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []
    monkeypatch.setattr(running, "_place", Like(close=lambda: ended.append("the installation")))
    monkeypatch.setattr(scheduling, "share_installations", lambda: {"tests/test_a.py": "unit"})

    teardown = running.pytest_runtest_teardown(Like(config=config), Like(nodeid=following))  # type: ignore[arg-type]

    assert list(teardown) == [None]
    assert bool(ended) == ends


def test_modules_stay_whole_and_installations_with_one_process(tmp_path: Path) -> None:
    for name in ("one", "two", "three", "four", "five", "six"):
        text = MODULE.format(name=name, signature="")
        (tmp_path / f"test_{name}.py").write_text(text)
    (tmp_path / "conftest.py").write_text(
        "from tests import scheduling\n"
        "units = {f'test_{name}.py': 'installation 0' for name in ('one', 'three', 'six')}\n"
        "scheduling.share_installations = lambda: units\n"
        "from tests import durations\n"
        "from pathlib import Path\n"
        "durations.ROOT = Path(__file__).parent\n"
        "durations.WHOLE = durations.ROOT / 'durations.json'\n"
    )
    options = ["-n", "3", "--dist", "loadscope", "--no-loadscope-reorder", "--tell-durations"]
    done = run_pytest(tmp_path, ("tests.durations", "tests.scheduling"), "-rP", *options)

    assert "18 passed" in done.stdout, done.stdout + done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith(NAMES)]
    where = {name: {row[2] for row in rows if row[0] == name} for name in {r[0] for r in rows}}
    assert len(where) == 6
    assert {len(each) for each in where.values()} == {1}
    assert where["one"] == where["three"] == where["six"]
