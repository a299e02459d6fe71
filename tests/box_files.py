"""The door to files of a box, for tests that are about what lies behind it."""

from pathlib import Path, PurePosixPath

from servers.host.files.box_files import BoxFiles


def anywhere(root: Path = Path("/")) -> BoxFiles:
    """As on a box whose box.toml lets profiles mount everything."""
    return BoxFiles(below=(PurePosixPath("/"),), root=root)


def on_box(path: Path) -> PurePosixPath:
    return PurePosixPath(path)
