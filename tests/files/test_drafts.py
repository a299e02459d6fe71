"""What a killed process has written of a file goes with the next one that writes it."""

import os
from pathlib import Path, PurePosixPath

import pytest

from servers.host.files.box_files import BoxFiles

# No process has a number above the kernel's limit.
NOBODY = 2**22 + 1


class KilledError(BaseException):
    """Ends the process before anything is tidied up."""


def kill(*_args: object, **_named: object) -> None:
    raise KilledError


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_draft_of_a_killed_process_does_not_stay(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = BoxFiles.from_text([str(tmp_path)])
    path = PurePosixPath(tmp_path) / "config.json"

    def write() -> None:
        if kind == "file":
            files.write(path, b"{}")
        else:
            files.link(path, "blob")

    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: NOBODY)
        patch.setattr(os, "replace", kill)
        with pytest.raises(KilledError):
            write()
    assert len(list(tmp_path.iterdir())) == 1, "it was killed before the file had its name"

    write()

    assert [each.name for each in tmp_path.iterdir()] == ["config.json"]


def test_a_draft_of_a_process_that_runs_is_left_to_it(tmp_path: Path) -> None:
    draft = tmp_path / f".main.{os.getppid()}"
    draft.write_text("half")

    BoxFiles.from_text([str(tmp_path)]).write(PurePosixPath(tmp_path) / "main", b"whole")

    assert draft.read_text() == "half"
