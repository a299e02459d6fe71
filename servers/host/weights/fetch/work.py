"""The work of a download, in a process of its own, and the parent's side, which starts, hears and kills it."""

import contextlib
import errno
import fcntl
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import asdict, replace
from pathlib import Path, PurePosixPath
from types import NoneType
from typing import Any

import httpx

from servers.host.files.box_files import RefusedFileError
from servers.host.weights.fetch import listing, places
from servers.host.weights.fetch.places import (
    DownloadSpec,
    FetchError,
    HubRefusalError,
    Pace,
    RepositoryFile,
    RetryError,
    StoppedError,
)

TELL_EVERY = 0.5  # seconds
_SILENT = 30.0  # seconds: an answer that has brought nothing for so long is given up
_PAUSES = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_LOOK_AT_LOCK = 0.5
_GIB = 2**30

type Tell = Callable[[Mapping[str, Any]], None]


class HubDownload:
    """One download. Whatever was killed in its middle goes on from the parts that it has left."""

    def __init__(self, job: DownloadSpec, tell: Tell) -> None:
        self._job = job
        self._tell = tell
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._here: dict[str, int] = {}
        self._looked: dict[str, int] = {}
        self._troubles: dict[str, str] = {}
        self._pace = Pace(job.limit)
        self._client = httpx.Client(headers=listing.headers(job.token), timeout=_SILENT)

    def limit(self, pace: int) -> None:
        self._pace.set(pace)

    def run(self) -> None:
        """To its end, once. Raises FetchError."""
        with self._client:
            self._run()

    def _run(self) -> None:
        self._pin()
        where = places.find_places(self._job)
        self._check_room(where)
        todo = sorted(self._job.files, key=lambda file: (bool(file.sha256), file.name))
        teller = threading.Thread(target=self._report_progress, args=[where], daemon=True)
        teller.start()
        try:
            with ThreadPoolExecutor(self._job.streams) as pool:
                jobs = [pool.submit(self._file, file, where) for file in todo]
                done, left = wait(jobs, return_when=FIRST_EXCEPTION)
                if left:
                    self._stop.set()
                    pool.shutdown(cancel_futures=True)
            faults = [each.exception() for each in jobs if not each.cancelled()]
            if fault := next(
                (each for each in faults if not isinstance(each, StoppedError | NoneType)), None
            ):
                raise fault
            where.finish()
        except RefusedFileError as error:
            raise places.describe_refusal(error, where) from error
        except OSError as error:
            raise _of_disk(error, self._job) from error
        finally:
            self._stop.set()
            teller.join()
        self._tell_progress()

    def _pin(self) -> None:
        """Ask the Hub, unless that was done; from then on it is about one commit."""
        job = self._job
        if not job.files:
            with listing.outside(job.token, silence=_SILENT) as hub:
                found = listing.ask(hub, job.endpoint, job.repository, job.revision)
                files = listing.choose_files(found.files, job.patterns)
                listing.check_access(hub, job.endpoint, found, _first(files).name)
            self._job = replace(job, repository=found.repository, commit=found.commit, files=files)
            self._tell(
                {
                    "t": "pinned",
                    "repository": found.repository,
                    "commit": found.commit,
                    "files": [asdict(each) for each in files],
                }
            )

    def _check_room(self, where: places.Places) -> None:
        job = self._job
        try:
            found = where.files.room(where.top)
        except RefusedFileError as error:
            raise places.describe_refusal(error, where) from error
        except OSError as error:
            raise _of_disk(error, job) from error
        if (fault := listing.find_room_fault(found)) is not None:
            raise fault
        for file in job.files:
            size = places.size_at(where.final(file), where)
            if size not in (None, file.size) and not where.may_replace:
                raise _describe_change(where.final(file), file)
        missing = sum(file.size - places.count_present(file, where) for file in job.files)
        promised = sum(size for each, size in job.others if _device(each, where) == found.device)
        if missing + promised > found.free:
            and_others = f", and other downloads still need {_gib(promised)}" if promised else ""
            raise FetchError(
                f"{_gib(missing)} are still to come and {job.shown} has {_gib(found.free)} "
                f"free{and_others}.",
                "Delete what is not used (Models shows who uses what), or choose another folder.",
            )

    def _file(self, file: RepositoryFile, where: places.Places) -> None:
        final, part = where.final(file), where.part(file)
        for path in (final, part, where.lock(file)):
            places.make_room_for(path, where)
        with self._alone(where.lock(file), file, where):
            for is_last in (False, True):
                came = places.size_at(final, where) != file.size
                if came and not where.may_replace and places.is_taken(final, where):
                    raise _describe_change(final, file)
                if came:
                    self._fill(file, part, where)
                if self._is_right(file, part if came else final, where):
                    break
                if not came and not where.may_replace:
                    raise _describe_change(final, file)
                # Not a byte of it can be trusted: a disk that was cut off, or somebody on the way.
                where.files.remove(part if came else final)
                if came and is_last:
                    raise _wrong(file, self._job.endpoint)
            if came:
                where.files.move(part, final)
            where.settle(file)
            self._note(final, file, where)

    def _fill(self, file: RepositoryFile, part: PurePosixPath, where: places.Places) -> None:
        """Try until it is there, or nothing has come for as long as one waits."""
        job, heard_at, tries = self._job, time.monotonic(), 0
        url = listing.address(job.endpoint, job.repository, job.commit, file.name)

        def grew(size: int) -> None:
            nonlocal heard_at, tries
            if size > self._here.get(file.name, 0):
                heard_at, tries = time.monotonic(), 0
                self._troubles.pop(file.name, None)
            self._here[file.name] = size

        while True:
            try:
                with os.fdopen(where.files.append_to(part), "r+b", buffering=0) as out:
                    places.fill(
                        self._client, url, out, file, pace=self._pace, stop=self._stop, grew=grew
                    )
                return
            except HubRefusalError as error:
                has_token = bool(job.token)
                raise listing.refusal(
                    error, job.endpoint, job.repository, job.commit, has_token=has_token
                ) from error
            except (RetryError, httpx.HTTPError) as error:
                if time.monotonic() - heard_at > job.patience:
                    raise listing.unreachable(job.endpoint, error) from error
                self._troubles[file.name] = str(error) or type(error).__name__
                pause = _PAUSES[min(tries, len(_PAUSES) - 1)]
                asked = error.after if isinstance(error, RetryError) else None
                tries += 1
                if self._stop.wait(min(max(pause, asked or 0.0), job.patience)):
                    raise StoppedError from error

    def _is_right(self, file: RepositoryFile, path: PurePosixPath, where: places.Places) -> bool:
        known = self._job.verified.get(file.name)
        seen = where.files.look_at(path)
        if known == (seen.st_size, seen.st_mtime_ns):
            self._looked[file.name] = file.size
            return True
        self._looked[file.name] = 0

        def count_checked(count: int) -> None:
            self._looked[file.name] += count

        with where.files.open_file(path, is_text=True) as opened:
            return places.digest(opened, file, stop=self._stop, looked=count_checked) == file.etag

    def _note(self, final: PurePosixPath, file: RepositoryFile, where: places.Places) -> None:
        seen = where.files.look_at(final)
        self._here[file.name] = file.size
        self._tell(
            {"t": "verified", "name": file.name, "size": seen.st_size, "at": seen.st_mtime_ns}
        )

    @contextlib.contextmanager
    def _alone(
        self, path: PurePosixPath, file: RepositoryFile, where: places.Places
    ) -> Iterator[None]:
        """An engine that starts now downloads the same; and a child of before may still be ending."""
        handle = where.files.append_to(path)
        try:
            while not _lock(handle):
                self._troubles[file.name] = f"Another program is downloading {file.name}."
                if self._stop.wait(_LOOK_AT_LOCK):
                    raise StoppedError
            self._troubles.pop(file.name, None)
            yield
        finally:
            os.close(handle)

    def _report_progress(self, where: places.Places) -> None:
        for file in self._job.files:
            self._here.setdefault(file.name, places.count_present(file, where))
        while True:
            self._tell_progress()
            if self._stop.wait(TELL_EVERY):
                return

    def _tell_progress(self) -> None:
        here = dict(self._here)
        self._tell(
            {
                "t": "progress",
                "done": sum(here.values()),
                "total": sum(file.size for file in self._job.files),
                "looked": sum(self._looked.copy().values()),
                "trouble": next(iter(self._troubles.copy().values()), ""),
            }
        )


def _first(files: tuple[RepositoryFile, ...]) -> RepositoryFile:
    """What a licence guards: a large one, where there is one."""
    return next((each for each in files if each.sha256), files[0])


def _device(folder: str, where: places.Places) -> int | None:
    """None for one of another download, which has its own trouble."""
    try:
        return where.files.room(PurePosixPath(folder)).device
    except OSError:
        return None


def _lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        # Some shares know no locks; the hash at the end tells whether somebody was in the way.
        return error.errno in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)
    return True


def _of_disk(error: OSError, job: DownloadSpec) -> FetchError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return FetchError(
            f"The disk of {job.shown} is full.",
            "Delete what is not used, then try again: it goes on where it was.",
        )
    what = error.filename or job.shown
    if error.errno in (errno.EACCES, errno.EPERM):
        return FetchError(
            f"inferdash may not write {what}.",
            "Engines that run as root leave such folders in a cache. Give them to inferdash's user: "
            f"sudo chown -R {os.geteuid()}:{os.getegid()} {job.shown}",
        )
    return FetchError(
        f"{what} cannot be written: {error.strerror or error}.",
        "See whether its disk is well, then try again: it goes on where it was.",
    )


def _describe_change(path: PurePosixPath, file: RepositoryFile) -> FetchError:
    return FetchError(
        f"{path} lies there already and is another file than the Hub's {file.name}.",
        "Nothing of it was touched: somebody may have changed it by hand. Move it away, leave that "
        "file out, or choose another folder.",
    )


def _wrong(file: RepositoryFile, endpoint: str) -> FetchError:
    return FetchError(
        f"{file.name} has arrived twice with another content than the Hub says (its "
        f"{'SHA-256' if file.sha256 else 'hash'} is not {file.etag[:16]}…).",
        f"Something between {endpoint} and this disk changes it: a proxy, or the disk or the "
        "memory of this box. Nothing wrong was kept.",
    )


def _gib(size: int) -> str:
    return f"{size / _GIB:.1f} GiB"


# The child that downloads: a job on its first line of input, one JSON object a line of output.
_speaking = threading.Lock()


def tell(said: Mapping[str, Any]) -> None:
    with _speaking:
        try:
            sys.stdout.write(json.dumps(said) + "\n")
            sys.stdout.flush()
        except BrokenPipeError:
            os._exit(1)  # nobody listens any more


def listen(work: HubDownload) -> None:
    """Until whoever has started this ends: then so does this, wherever it is."""
    for line in sys.stdin:
        work.limit(int(json.loads(line)["limit"]))
    os._exit(1)


def main() -> int:
    os.nice(5)  # engines on the same box come first
    try:
        work = HubDownload(DownloadSpec.from_json(json.loads(sys.stdin.readline())), tell)
        threading.Thread(target=listen, args=[work], daemon=True).start()
        work.run()
    except FetchError as error:
        tell({"t": "failed", "says": str(error), "advice": error.advice})
        return 1
    tell({"t": "done"})
    return 0


_CHECKOUT = Path(__file__).resolve().parents[4]
_LAST_WORDS = 2000  # characters of what it says on its way out


class DownloadChild:
    """A download that goes on until kill(), or until this process ends."""

    def __init__(self, job: DownloadSpec, heard: Callable[[], None] = lambda: None) -> None:
        """`heard` is called whenever there is something new to take(). Raises OSError."""
        self._heard = heard
        self._said: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "servers.host.weights.fetch.work"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=_CHECKOUT,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
            text=True,
        )
        self._write(job.to_json())
        self._errors = ""
        self._threads = [
            threading.Thread(target=self._read, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def take(self) -> list[Mapping[str, Any]]:
        """What it has said since the last time."""
        found = []
        while not self._said.empty():
            found.append(self._said.get())
        return found

    def limit(self, pace: int) -> None:
        """Bytes a second from now on; 0: as fast as can be."""
        self._write({"limit": pace})

    @property
    def has_ended(self) -> bool:
        """And everything that it said is there to be taken."""
        return self._process.poll() is not None and not any(
            thread.is_alive() for thread in self._threads
        )

    @property
    def last_words(self) -> str:
        """How it ended where it did not say so itself."""
        line = self._errors.strip().splitlines()[-1:] or [f"exit code {self._process.returncode}"]
        return line[0]

    def kill(self) -> None:
        """At once, and wait for it: what it has written stays, and is gone on from."""
        self._process.kill()
        self._process.wait()
        for thread in self._threads:
            thread.join()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                _close(pipe)

    def _write(self, said: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(said) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return  # it has ended, and how is heard

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.put(json.loads(line))
            self._heard()
        self._heard()

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._errors = (self._errors + line)[-_LAST_WORDS:]
        self._heard()


def _close(pipe: Any) -> None:
    try:
        pipe.close()
    except BrokenPipeError:
        return  # what was not read by the child any more


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
