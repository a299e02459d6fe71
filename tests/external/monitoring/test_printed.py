"""Where a process of somebody else's prints to is told, and only what is its user's own is read."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from servers.host import logs
from servers.host.external.containers import find_started_process
from servers.host.kernel import processes
from servers.host.kernel.proc import Kernel
from servers.host.kernel.processes import ProcessId
from servers.host.logs import PrintedError
from servers.judge.runs.health import is_orderly
from servers.lifecycle import external
from servers.models import LogChunk, Run, Server
from servers.watcher.logs.follower import FileFollower
from tests import factories
from tests.cases import table
from tests.waiting import wait_until

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")


@contextmanager
def sleeping(**streams: Any) -> Iterator[int]:
    process = subprocess.Popen(["sleep", "600"], **streams, start_new_session=True)
    try:
        # A program is shown without its words while it is put in place.
        words = Path(f"/proc/{process.pid}/cmdline")
        wait_until(words.read_bytes, "the program has its words", every=0.001)
        yield process.pid
    finally:
        process.kill()
        process.communicate()


def test_files_are_told_by_their_streams(tmp_path: Path) -> None:
    out, errors = tmp_path / "out.log", tmp_path / "err.log"
    with out.open("wb") as first, errors.open("ab") as second:
        with sleeping(stdout=first, stderr=second) as pid:
            one, other = logs.list_outlets(pid)
        with sleeping(stdout=first, stderr=subprocess.STDOUT) as pid:
            both = logs.list_outlets(pid)

    assert (one.stream, one.kind, one.path, one.is_appended) == ("o", "file", str(out), False)
    assert (other.stream, other.path, other.is_appended) == ("e", str(errors), True)
    assert [each.stream for each in both] == ["o"], "one file is read once"


def test_names_that_are_no_text_can_be_told_all_the_same(tmp_path: Path) -> None:
    """Else no page and no database could say where it prints to, or runs."""
    folder = tmp_path / os.fsdecode(b"\xe4")
    folder.mkdir()
    with (folder / "out.log").open("wb") as out, sleeping(stdout=out, cwd=folder) as pid:
        (outlet, *_others) = logs.list_outlets(pid)
        life = Kernel().life(pid)
        assert life is not None
        where = find_started_process(pid, start=life.start).folder

    assert outlet.path.encode().endswith(b"/?/out.log")
    assert where.encode().endswith(b"/?")


def test_what_cannot_be_read_is_told_as_what_it_is() -> None:
    with sleeping(stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as pid:
        assert [each.kind for each in logs.list_outlets(pid)] == ["pipe", "nothing"]
        with pytest.raises(PrintedError, match="not go to a file"):
            logs.open_stream(pid, 1)
    master, slave = os.openpty()
    with sleeping(stdout=slave, stderr=slave) as pid:
        (outlet,) = logs.list_outlets(pid)
        assert (outlet.kind, outlet.path[:9]) == ("terminal", "/dev/pts/")
    os.close(master)
    os.close(slave)
    assert logs.list_outlets(2**22 - 3) == ()


def test_a_file_that_the_engine_itself_writes_is_told_where_its_streams_are_none(
    tmp_path: Path,
) -> None:
    log = tmp_path / "llama.log"
    with log.open("wb") as file:
        elsewhere = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        with sleeping(**elsewhere, pass_fds=[file.fileno()]) as pid:
            (own,) = logs.list_outlets(pid, own=f"{tmp_path}/x/../llama.log")
            log.rename(tmp_path / "llama.log.1")
            (moved,) = logs.list_outlets(pid, own=str(tmp_path / "llama.log.1"))
            unnamed = logs.list_outlets(pid, own=str(tmp_path / "another.log"))
            with logs.open_stream(pid, own.number) as opened:
                file.write(b"a line")
                file.flush()
                assert opened.read() == b"a line"
        with sleeping(stdout=file, pass_fds=[file.fileno()]) as pid:
            (stream, _errors) = logs.list_outlets(pid, own=own.path)

    assert (own.kind, own.path, own.is_own) == ("file", str(log), True)
    assert moved.inode == own.inode
    assert [each.kind for each in unnamed] == ["nothing", "pipe"]
    assert not stream.is_own, "what it prints holds all of it"


@as_root
def test_a_file_that_is_not_its_users_is_not_read_to_people(tmp_path: Path) -> None:
    private = tmp_path / "shadow"
    private.write_text("root's own")
    private.chmod(0o600)
    as_nobody = {"user": NOBODY, "group": NOBODY}

    with private.open("ab") as file, sleeping(stdout=file, **as_nobody) as pid:
        with pytest.raises(PrintedError, match="belongs to somebody else"):
            logs.open_stream(pid, 1)
        os.chown(private, NOBODY, NOBODY)
        logs.open_stream(pid, 1).close()
    # A descriptor that names a file without the right to read it.
    private.chmod(0o644)
    handle = os.open(private, os.O_PATH)
    with sleeping(stdout=handle) as pid, pytest.raises(PrintedError):
        logs.open_stream(pid, 1)
    os.close(handle)


def life_of(pid: int) -> tuple[int, int]:
    life = Kernel().life(pid)
    assert life is not None
    return pid, life.start


@contextmanager
def printing_to(path: Path) -> Iterator[tuple[int, int]]:
    """A process whose output goes there, once it was opened through it; its number and start."""
    with path.open("ab") as file, sleeping(stdout=file) as pid:
        logs.open_stream(pid, 1).close()
        yield life_of(pid)


def private(path: Path, text: bytes = b"root:x:1\n") -> Path:
    path.write_bytes(text)
    path.chmod(0o600)
    return path


def test_after_its_end_a_process_is_believed_what_it_was_seen_to_print_to(tmp_path: Path) -> None:
    """Rows may say anything: whoever can write them is not to read by them what root can."""
    own, of_another = private(tmp_path / "out.log"), private(tmp_path / "another.log")
    with printing_to(own) as life, printing_to(of_another) as other:
        pass

    again = logs.reopen_stream(*life, inode(own))
    assert again is not None
    again.close()
    for whose, which in (
        (life, inode(of_another)),
        (other, inode(own)),
        ((life[0], life[1] + 1), inode(own)),
        (life, inode(private(tmp_path / "shadow"))),
        (life, (0, 0)),
    ):
        with pytest.raises(PrintedError, match="nobody can tell any more"):
            logs.reopen_stream(*whose, which)


def test_another_process_that_has_its_number_by_now_is_not_read(tmp_path: Path) -> None:
    with printing_to(tmp_path / "out.log") as (pid, start):
        logs.open_stream(pid, 1, start=start).close()
        with pytest.raises(PrintedError, match="ended while it was looked at"):
            logs.open_stream(pid, 1, start=start - 1)


def test_another_file_under_the_name_of_the_one_that_was_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "out.log"
    with printing_to(path) as life:
        was = inode(path)
    path.rename(tmp_path / "out.log.1")
    path.write_bytes(b"a new one\n")

    assert logs.reopen_stream(*life, was) is None


@as_root
def test_one_that_may_have_taken_the_number_of_a_removed_one_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "out.log"
    path.touch(0o644)
    with printing_to(path) as life:
        pass

    path.chmod(0o600)
    assert logs.reopen_stream(*life, inode(path)) is None, "it was public"
    path.chmod(0o644)
    os.chown(path, NOBODY, NOBODY)
    assert logs.reopen_stream(*life, inode(path)) is None, "it had another owner"


@pytest.mark.django_db
@table(
    "row",
    [
        {"path": "{other}", "inode": "{other}", "offset": 0},
        {"path": "{other}", "inode": "{own}", "offset": 10**12},
        {"path": "{own}", "inode": "{own}", "offset": -5},
        {"path": "{own}", "inode": ["x"], "offset": 0},
        {"path": "{own}", "inode": "{own}", "offset": "1"},
        {"inode": None},
        [],
        "o",
    ],
    ids=str,
)
def test_a_changed_row_shows_nothing_of_another_file(row: Any) -> None:
    with tempfile.TemporaryDirectory() as name:
        own = private(Path(name) / "own.log", b"its own line\n")
        other = private(Path(name) / "other.log", b"of another\n")
        with printing_to(own) as life, printing_to(other):
            pass
        files = {"own": own, "other": other}
        if isinstance(row, dict):
            row = {
                key: _filled(value, files, as_inode=key == "inode") for key, value in row.items()
            }
        key = str(ProcessId(pid=life[0], start=life[1]))
        server = Server.objects.first() or factories.server(factories.box())
        run = factories.external_run(server, container_id=key, files={"o": row}, lines=0)
        follower = FileFollower(run.pk, ProcessId(pid=life[0], start=life[1]), masks=())

        follower.follow()

        text = "\n".join(line.text for line in LogChunk.objects.lines(run.pk, 0, 100))
        end = external.workloads.end_process_run(run, ProcessId(pid=life[0], start=life[1]))

    assert "of another" not in f"{text} {end.last_lines}"
    assert Run.objects.get(pk=run.pk).log.is_complete, "it ends all the same"
    run.delete()


def _filled(value: Any, files: dict[str, Path], *, as_inode: bool) -> Any:
    if not isinstance(value, str) or value[1:-1] not in files:
        return value
    path = files[value[1:-1]]
    return list(inode(path)) if as_inode else str(path)


def inode(path: Path) -> tuple[int, int]:
    said = path.stat()
    return said.st_dev, said.st_ino


def test_a_life_is_named_for_good() -> None:
    kernel = Kernel()
    said = kernel.life(os.getpid())
    assert said is not None
    life = ProcessId.from_process(os.getpid(), said.start, kernel)

    assert ProcessId.parse(str(life)) == life
    assert life.is_running()
    assert not ProcessId(pid=life.pid, start=life.start + 1, boot=life.boot).is_running()
    assert not ProcessId(pid=life.pid, start=life.start, boot="00000000").is_running()
    assert ProcessId.parse("pid-4711-99") == ProcessId(pid=4711, start=99)
    for other in ("c0ffee" * 10, "pid-x-1", "pid-1", ""):
        assert ProcessId.parse(other) is None


def test_an_end_is_heard_at_once() -> None:
    process = subprocess.Popen(["sleep", "600"])
    said = Kernel().life(process.pid)
    assert said is not None
    life = ProcessId.from_process(process.pid, said.start, Kernel())

    assert not processes.ends_within(life, 0.01)
    process.kill()
    assert processes.ends_within(life, 30)
    process.wait()
    assert processes.ends_within(life, 30), "its number may be another's by now"


@table(
    ("engine", "lines", "orderly"),
    [
        ("vllm", ["INFO:     Shutting down", "INFO:     Application shutdown complete."], True),
        ("vllm", ["ERROR EngineCore died", "INFO:     Shutting down"], False),
        ("vllm", ["INFO: GET /health 200"], False),
        ("sglang", ["SIGTERM received. Draining requests and shutting down..."], True),
        ("llamacpp", ["srv    operator(): operator(): cleaning up before exit..."], True),
        ("llamacpp", ["ggml_abort", "cleaning up before exit"], False),
        (
            "llamacpp",
            [
                "0.00.033.630 E srv    load_model: failed to load model, '/models/nope.gguf'",
                "0.00.033.632 I srv    operator(): operator(): cleaning up before exit...",
                "0.00.034.430 E srv  llama_server: exiting due to model loading error",
            ],
            False,
        ),
        ("vllm", [], False),
        ("other", ["Shutting down"], False),
    ],
)
def test_an_end_that_somebody_asked_for_is_read_from_its_last_lines(
    engine: str, lines: list[str], orderly: bool
) -> None:
    assert is_orderly(engine, lines) is orderly
