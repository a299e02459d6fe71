"""inferdash as a service, on a box whose people keep their homes shut to it."""

from pathlib import Path, PurePosixPath

import pytest

from servers.host.files import paths
from servers.host.files.box_files import BoxFiles, RefusedFileError


def test_models_elsewhere_are_read_where_a_home_is_shut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models/config.json").write_text("{}")
    (tmp_path / "home/ada/.ssh").mkdir(parents=True)
    (tmp_path / "home/ada/.ssh/id").write_text("secret")
    real = paths.resolve

    def shut(path: str, *, root: Path) -> PurePosixPath:
        if path.startswith("/home/ada/"):
            raise paths.HiddenPathError("inferdash may not look into /home/ada")
        return real(path, root=root)

    monkeypatch.setattr(paths, "resolve", shut)

    files = BoxFiles.from_text(["/models", "/home"], ["/home/ada/.ssh"], root=tmp_path)

    assert files.read(PurePosixPath("/models/config.json"), 100) == b"{}"
    with pytest.raises(RefusedFileError):
        files.read(PurePosixPath("/home/ada/.ssh/id"), 100)
