"""Releases that a box is brought to: tried, kept, or given up for the one before."""

import os
import signal
import subprocess
from pathlib import Path

from inferdash.wire import releases
from inferdash.wire.trial import AGAIN, PlacedRelease, ReleaseState
from servers.host.links.files import WireFiles
from tests.cases import table
from tests.waiting import PATIENCE, wait_until


def place(folder: Path, script: str) -> PlacedRelease:
    """A release whose Python, whatever it is told to run, does this."""
    folder.mkdir()
    python = folder / "python"
    python.write_text(f"#!/bin/sh\necho {folder.name} runs\n{script}\n")
    python.chmod(0o755)
    return PlacedRelease(root=str(folder), python=str(python))


def begin(tmp_path: Path, new: str, *, old: str = "exit 0", within: float = PATIENCE) -> Path:
    """State of a trial of `new`; {state} in a script is that file, {before} its first start."""
    path = tmp_path / "state.json"
    before = tmp_path / "before"
    words = {"{state}": str(path), "{before}": str(before)}
    for word, text in words.items():
        new, old = new.replace(word, text), old.replace(word, text)
    current, tried = place(tmp_path / "old", old), place(tmp_path / "new", new)
    state = ReleaseState(
        base=current, base_name="old", current=current, trial=tried, upgrade=7, within=within
    )
    state.write(path)
    # What the release itself writes once it is well.
    well = state.change(current=tried, previous=current, trial=None)
    well.write(Path(tried.root) / "well.json")
    return path


def launch(path: Path) -> "subprocess.Popen[str]":
    environment = {name: text for name, text in os.environ.items() if name != "INFERDASH_RELEASES"}
    return subprocess.Popen(
        releases.make_launch(path), stdout=subprocess.PIPE, text=True, env=environment
    )


def finish(path: Path) -> tuple[int, list[str], ReleaseState]:
    with launch(path) as launched:
        said, _ = launched.communicate(timeout=PATIENCE)
    state = ReleaseState.read(path)
    assert state is not None
    return launched.returncode, [line for line in said.splitlines() if "runs" in line], state


@table(
    ("new", "within", "failed"),
    {
        "it ends by itself": ("exit 3", PATIENCE, "It ended by itself with exit code 3."),
        "it says nothing in time": ("exec sleep 600", 0.5, "It was not well within 0.5 s."),
        "it is broken": ("exec /no/such", PATIENCE, "It ended by itself with exit code 127."),
    }.values(),
)
def test_a_release_that_is_not_well_gives_way(
    tmp_path: Path, new: str, within: float, failed: str
) -> None:
    code, ran, state = finish(begin(tmp_path, new, within=within))

    # One that is given up at once may not have come to say anything.
    assert (code, ran[-1]) == (0, "old runs")
    assert (state.failed, state.trial) == (failed, None)
    assert Path(state.current.root).name == "old"


def test_one_that_is_well_stays_and_may_be_followed_by_another(tmp_path: Path) -> None:
    """It ends once with the code that asks for another start, and then for good."""
    again = f"if [ -e well.json ]; then mv well.json {{state}}; exit {AGAIN}; fi; exit 4"

    code, ran, state = finish(begin(tmp_path, again, old="exit 9"))

    assert (code, ran) == (4, ["new runs", "new runs"])
    assert Path(state.current.root).name == "new"
    assert state.failed == ""


def test_the_end_of_the_launcher_is_the_end_of_what_it_started(tmp_path: Path) -> None:
    """Told once, and the trial is taken up again at the next start."""
    heard = tmp_path / "heard"
    script = (
        f"trap 'echo x >> {heard}; exit 0' TERM; touch {tmp_path}/up; while :; do sleep 0.1; done"
    )
    path = begin(tmp_path, script)

    with launch(path) as launched:
        wait_until((tmp_path / "up").exists, "the release runs")
        launched.send_signal(signal.SIGTERM)
        launched.communicate(timeout=PATIENCE)

    assert heard.read_text() == "x\n"
    assert launched.returncode == 0
    state = ReleaseState.read(path)
    assert state is not None
    assert state.trial is not None


def test_a_folder_that_has_changed_since_counts_again(tmp_path: Path) -> None:
    root, files = tmp_path / "inferdash", WireFiles(tmp_path / "data")
    (root / "servers").mkdir(parents=True)
    (root / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    assert releases.find_start(files, root) == []
    files.data.mkdir()
    new = place(files.data / "new", "exit 0")

    releases.begin_trial(new, files, root=root, upgrade=7, within=60)
    releases.confirm(files)

    path = releases.find_state(files)
    assert releases.find_start(files, root) == releases.make_launch(path)
    (root / "servers" / "newer.py").write_text("pass")
    assert releases.find_start(files, root) == []
    assert not path.exists()
