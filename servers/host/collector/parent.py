"""The parent of the collector: takes its samples, and starts another one when it hangs."""

import json
import logging
import os
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from signal import SIGKILL
from typing import Any, Self

log = logging.getLogger(__name__)

# A collector that has been silent for so long hangs. The first sample may take longer: without
# persistence mode the driver first has to wake every card.
PATIENCE = 5.0
START_PATIENCE = 60.0

_BACK_OFF = (1.0, 2.0, 5.0, 10.0, 30.0)
_UNKILLABLE_LIMIT = 3
_CHECKOUT = Path(__file__).resolve().parents[3]


class Collector:
    """Samples of this machine, one a second, whatever NVML does.

    next_sample() is for one thread; stop() may be called from any.
    """

    def __init__(
        self,
        *,
        root: Path = Path("/"),
        interval: float = 1.0,
        patience: float = PATIENCE,
        start_patience: float = START_PATIENCE,
        nvml_retry: float = 30.0,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """`root` is where proc and sys are; `env` is the child's environment, None = ours."""
        self._command = [
            *(sys.executable, "-m", "servers.host.collector.child", "--while-stdin"),
            *("--root", str(root)),
            *("--interval", str(interval)),
            *("--nvml-retry", str(nvml_retry)),
        ]
        self._env = None if env is None else dict(env)
        self._interval = interval
        self._patience = patience
        self._start_patience = start_patience
        self._child: _Child | None = None
        self._unkillable: list[_Child] = []
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._last: dict[str, Any] | None = None
        self._last_at = time.monotonic()
        self._told_at = 0.0
        self._failures = 0
        self._start_at = 0.0
        self._reason = "The collector has not started yet."

    @property
    def pid(self) -> int | None:
        """The process that collects now; None while there is none."""
        child = self._child
        return child.pid if child else None

    def start(self) -> None:
        """Start the child. Does not wait for its first sample."""
        with self._lock:
            self._stopped.clear()
            self._last_at = time.monotonic()
            self._begin()

    def next_sample(self, timeout: float) -> dict[str, Any] | None:
        """The newest sample as soon as there is one; None when nothing came within `timeout` s.

        When nothing has come for longer than the patience, the last sample comes again about
        once a second with `collector_ok` false, `stale_s` seconds of age, and in `error` what
        happened. Samples that were not fetched in time are left out. After stop(): None.
        """
        until = time.monotonic() + timeout
        while not self._stopped.is_set():
            with self._lock:
                sample = self._turn(max(0.0, min(until - time.monotonic(), 0.25)))
            if sample is not None or time.monotonic() >= until:
                return sample
        return None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Samples, also stale ones, until stop()."""
        while not self._stopped.is_set():
            sample = self.next_sample(timeout=1.0)
            if sample is not None:
                yield sample

    def stop(self) -> None:
        """End the child. Waits a few seconds at most, even for one that cannot be killed."""
        self._stopped.set()
        with self._lock:
            child, self._child = self._child, None
            if child is not None:
                child.end()
                self._unkillable.append(child)
            until = time.monotonic() + 1.0
            for left in self._unkillable:
                if not left.wait(max(0.0, until - time.monotonic())):
                    log.warning("Collector %d hangs in the driver and cannot be killed", left.pid)
            self._bury()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    def _turn(self, seconds: float) -> dict[str, Any] | None:
        """Wait for a sample this long at most, and see to it that a collector runs."""
        child = self._child
        if self._stopped.is_set():
            return None
        if child is None:
            self._bury()
            if self._is_hopeless():
                self._stopped.wait(seconds)
            elif self._wait():
                self._stopped.wait(min(seconds, self._wait()))
            else:
                self._begin()
            return self._stale()
        sample = child.read(seconds)
        if sample is not None:
            self._last, self._last_at = sample, time.monotonic()
            self._failures = 0
            return sample
        if child.has_ended():
            self._lose_child(child)
        elif child.silence() > (self._patience if child.has_spoken else self._start_patience):
            self._hung(child)
        return self._stale()

    def _begin(self) -> None:
        try:
            self._child = _Child(self._command, self._env)
        except OSError as error:
            self._reason = f"The collector could not be started: {error}."
            self._plan_restart()

    def _lose_child(self, child: "_Child") -> None:
        self._reason = f"The collector ended ({child.how_it_ended()})."
        if not child.is_dead():
            child.kill()
            self._unkillable.append(child)
        self._drop(child)

    def _hung(self, child: "_Child") -> None:
        self._reason = "NVML hangs: the collector that waited for it was killed."
        child.kill()
        self._unkillable.append(child)
        self._drop(child)

    def _drop(self, child: "_Child") -> None:
        self._child = None
        child.close()
        self._plan_restart()
        log.warning("%s The next one starts in %.0f s", self._reason, self._wait())

    def _plan_restart(self) -> None:
        self._start_at = time.monotonic() + _BACK_OFF[min(self._failures, len(_BACK_OFF) - 1)]
        self._failures += 1

    def _bury(self) -> None:
        self._unkillable = [child for child in self._unkillable if not child.is_dead()]

    def _is_hopeless(self) -> bool:
        # Each of them holds memory and a lock in the driver; more of them help nobody.
        return len(self._unkillable) >= _UNKILLABLE_LIMIT

    def _wait(self) -> float:
        return max(0.0, self._start_at - time.monotonic())

    def _stale(self) -> dict[str, Any] | None:
        now = time.monotonic()
        silence = now - self._last_at
        if silence <= self._patience or now - self._told_at < self._interval:
            return None
        self._told_at = now
        return {
            **(self._last or _build_empty_sample()),
            "collector_ok": False,
            "stale_s": round(silence, 1),
            "error": self._explain(silence),
        }

    def _explain(self, silence: float) -> str:
        since = f"NVML has not answered for {silence:.0f} s."
        if self._is_hopeless():
            return (
                f"{since} {len(self._unkillable)} collectors hang in the NVIDIA driver and cannot "
                "be killed: stop the engines and reboot the box."
            )
        if self._child is not None:
            if self._child.has_spoken:
                return f"{since} The values are the last ones it gave."
            return f"{since} A collector is starting and waits for the driver to wake the GPUs."
        return f"{since} {self._reason} Another one starts in {self._wait():.0f} s."


class _Child:
    """One collector process and the pipes to it."""

    def __init__(self, command: list[str], env: dict[str, str] | None) -> None:
        self.has_spoken = False
        self._heard_at = time.monotonic()
        self._complaint = ""
        # In a session of its own, Ctrl-C in the terminal is its parent's business.
        self._process = subprocess.Popen(
            command,
            cwd=_CHECKOUT,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.pid = self._process.pid
        self._selector = selectors.DefaultSelector()
        self._buffers: dict[str, bytes] = {"out": b"", "err": b""}
        self._open = set(self._buffers)
        for pipe, name in ((self._process.stdout, "out"), (self._process.stderr, "err")):
            if pipe is None:
                raise RuntimeError("Popen was asked for pipes.")
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe.fileno(), selectors.EVENT_READ, name)

    def read(self, seconds: float) -> dict[str, Any] | None:
        """The newest whole sample that arrives within this time."""
        newest: bytes | None = None
        for key, _events in self._selector.select(seconds):
            line = self._lines(key.fd, key.data)
            if key.data == "out":
                newest = line
        if newest is None:
            return None
        self.has_spoken = True
        self._heard_at = time.monotonic()
        sample: dict[str, Any] = json.loads(newest)
        return sample

    def silence(self) -> float:
        return time.monotonic() - self._heard_at

    def has_ended(self) -> bool:
        """Whether both pipes are at their end, so that nothing it said is lost."""
        return not self._open

    def how_it_ended(self) -> str:
        # The pipes close a moment before the process can be reaped.
        self.wait(1.0)
        code = self._process.returncode
        how = "stuck on its way out" if code is None else f"exit code {code}"
        return f"{how}: {self._complaint}" if self._complaint else how

    def end(self) -> None:
        """Let it end by itself, which it does even while NVML hangs, then make it."""
        self._close_stdin()
        if not self.wait(1.0):
            self.kill()
        self.close()

    def kill(self) -> None:
        self._process.send_signal(SIGKILL)

    def wait(self, seconds: float) -> bool:
        """Whether it is dead within this time. One that hangs in the driver stays, killed or not."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def is_dead(self) -> bool:
        return self._process.poll() is not None

    def close(self) -> None:
        self._close_stdin()
        self._selector.close()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _close_stdin(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _lines(self, fd: int, name: str) -> bytes | None:
        """Read what is there; the newest whole line of it."""
        newest: bytes | None = None
        while True:
            try:
                chunk = os.read(fd, 65536)
            except BlockingIOError:
                return newest
            if not chunk:
                self._selector.unregister(fd)
                self._open.discard(name)
                return newest
            *lines, self._buffers[name] = (self._buffers[name] + chunk).split(b"\n")
            for line in lines:
                newest = line
                if name == "err":
                    self._complaint = line.decode(errors="replace")
                    log.warning("Collector %d: %s", self.pid, self._complaint)


def _build_empty_sample() -> dict[str, Any]:
    """A sample of a box whose collector has not said anything yet."""
    return {
        "t": round(time.time(), 3),
        "boot_id": None,
        "uptime_s": None,
        "driver": None,
        "driver_params": {},
        "sees_host_pids": False,
        "meminfo": {},
        "pressure": None,
        "swap": None,
        "gpus": [],
        "happened": [],
        "processes": [],
        "programs": [],
    }
