import mmap
from pathlib import Path

from servers.host.shm import Segment, segments


def test_a_segment_is_somebody_s_while_it_is_mapped_and_nobody_s_afterwards(tmp_path: Path) -> None:
    path = Path("/dev/shm/inferdash-test-segment")  # noqa: S108
    path.write_bytes(b"x" * 8192)
    try:
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 8192):
            assert Segment(path=str(path), bytes=8192, mapped=True) in segments()
        assert Segment(path=str(path), bytes=8192, mapped=False) in segments()
    finally:
        path.unlink()
    assert not any(each.path == str(path) for each in segments())


def test_what_is_hidden_is_not_accused(tmp_path: Path) -> None:
    (tmp_path / "dev/shm").mkdir(parents=True)
    (tmp_path / "dev/shm/psm_1").write_bytes(b"x" * 4096)
    maps = tmp_path / "proc/7/maps"
    maps.mkdir(parents=True)  # it is not a file, so it cannot be read

    (found,) = segments(tmp_path)

    assert (found.path, found.mapped) == ("/dev/shm/psm_1", True)
    assert segments(tmp_path / "none") == []


def test_a_file_that_is_only_open_is_used_too() -> None:
    path = Path("/dev/shm/inferdash-test-open")  # noqa: S108
    path.write_bytes(b"x" * 8192)
    try:
        with path.open("rb"):
            assert Segment(path=str(path), bytes=8192, mapped=True) in segments()
    finally:
        path.unlink()
