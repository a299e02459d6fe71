import mmap
import os
from pathlib import Path

import pytest

from servers.host.kernel import resources
from servers.host.kernel.resources import SharedSegment, segments


@pytest.fixture
def box(tmp_path: Path) -> Path:
    """This machine's shared memory, with no process but this one.

    While one of others waits for a disk, nothing counts as nobody's.
    """
    (tmp_path / "dev").symlink_to("/dev")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / str(os.getpid())).symlink_to("/proc/self")
    return tmp_path


def test_a_segment_is_somebody_s_while_it_is_mapped_and_nobody_s_afterwards(box: Path) -> None:
    path = Path(f"/dev/shm/inferdash-test-segment-{os.getpid()}")  # noqa: S108
    path.write_bytes(b"x" * 8192)
    try:
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 8192):
            assert SharedSegment(path=str(path), bytes=8192, mapped=True) in segments(box)
        assert SharedSegment(path=str(path), bytes=8192, mapped=False) in segments(box)
    finally:
        path.unlink()
    assert not any(each.path == str(path) for each in segments(box))


def test_what_is_hidden_is_not_accused(tmp_path: Path) -> None:
    (tmp_path / "dev/shm").mkdir(parents=True)
    (tmp_path / "dev/shm/psm_1").write_bytes(b"x" * 4096)
    maps = tmp_path / "proc/7/maps"
    maps.mkdir(parents=True)  # it is not a file, so it cannot be read
    (tmp_path / "proc/7/stat").write_text("7 (python3) S 1")

    (found,) = segments(tmp_path)

    assert (found.path, found.mapped) == ("/dev/shm/psm_1", True)
    assert segments(tmp_path / "none") == []


def test_a_file_that_is_only_open_is_used_too(box: Path) -> None:
    path = Path(f"/dev/shm/inferdash-test-open-{os.getpid()}")  # noqa: S108
    path.write_bytes(b"x" * 8192)
    try:
        with path.open("rb"):
            assert SharedSegment(path=str(path), bytes=8192, mapped=True) in segments(box)
        assert SharedSegment(path=str(path), bytes=8192, mapped=False) in segments(box)
    finally:
        path.unlink()


def test_a_process_that_hangs_in_the_kernel_is_not_asked(tmp_path: Path) -> None:
    """It may hold the lock on its memory for ever: whoever reads its map would wait as long."""
    (tmp_path / "dev/shm").mkdir(parents=True)
    (tmp_path / "dev/shm/psm_1").write_bytes(b"x" * 4096)
    (tmp_path / "proc/7").mkdir(parents=True)
    (tmp_path / "proc/7/stat").write_text("7 (VLLM::Worker (1)) D 1")
    os.mkfifo(tmp_path / "proc/7/maps")  # nobody ever writes to it

    (found,) = segments(tmp_path)

    assert found.mapped


def test_whoever_is_seen_twice_in_the_kernel_is_stuck_and_looked_at_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused: list[float] = []
    stat = tmp_path / "stat"
    stat.write_text("7 (VLLM::Worker (1)) D 1")
    monkeypatch.setattr("servers.host.kernel.resources.time.sleep", paused.append)

    assert resources.is_stuck(tmp_path)
    assert len(paused) == 1, "between the two looks, and not after them"

    monkeypatch.setattr(
        "servers.host.kernel.resources.time.sleep", lambda _s: stat.write_text("7 (x) S 1")
    )
    assert not resources.is_stuck(tmp_path), "it waited for a disk"


def test_a_name_that_is_no_text_spoils_no_page(tmp_path: Path) -> None:
    """Anybody may make one, and no page or database can say it."""
    folder = tmp_path / "dev/shm"
    folder.mkdir(parents=True)
    (folder / os.fsdecode(b"sgl_shm_mm_\xe4")).write_bytes(b"x")
    (folder / os.fsdecode(b"\xe4")).mkdir()
    (folder / os.fsdecode(b"\xe4/inner")).write_bytes(b"x")
    (folder / "plain").write_bytes(b"x")

    assert [each.path.encode() for each in segments(tmp_path)] == [b"/dev/shm/plain"]
