"""Plays an engine's start-up log from a file in starts/.

Lines are printed as they stand, with \\e and \\a for escape and bell. A line that begins with @
does something instead:

    @stdout, @stderr      where the following lines go
    @wait S               for S seconds
    @bar N S TITLE        a tqdm bar of N steps in S seconds, redrawn by \\r or TQDM_BAR_FORMAT
    @shards N S TITLE     a bar that always writes lines, as vLLM's for its shards
    @flood N TEXT         N lines, {n} counts them from 0; ENGINE_LINES overrides N
    @warm S               HTTP is up now, and 503 for S seconds
    @exit N, @kill        end, or be killed by no one in particular
    @allocate             memory until the kernel ends it
    @hang                 in silence, for ever

All seconds are scaled so that the whole takes ENGINE_SECONDS.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

HOLDS = "INFO Waiting for SIGUSR1 before it serves"

STARTS = Path(__file__).parent / "starts"
SECONDS = float(os.environ.get("ENGINE_SECONDS", "1"))
REFRESH = float(os.environ.get("TQDM_MININTERVAL", "0.1"))
REDRAWN_AS_LINES = os.environ.get("TQDM_BAR_FORMAT", "").endswith("\n")
WIDTH = 20


class Replay:
    def __init__(self, name: str, *, warm: Callable[[], None]) -> None:
        """`warm` is called when HTTP is to be up."""
        path = STARTS / f"{name}.txt"
        if not path.is_file():
            known = ", ".join(sorted(path.stem for path in STARTS.glob("*.txt")))
            sys.exit(f"ENGINE_SCRIPT={name} is not one of {known}")
        self._lines = path.read_text().splitlines()
        self._warm = warm
        self._out = sys.stdout
        whole = sum(_seconds(line) for line in self._lines)
        self._scale = SECONDS / whole if whole else 0.0

    def play(self) -> None:
        for line in self._lines:
            if line.startswith("@"):
                self._do(*line[1:].split(" ", 1))
            else:
                self._say(line.replace("\\e", "\x1b").replace("\\a", "\a") + "\n")

    def _do(self, what: str, rest: str = "") -> None:
        match what:
            case "stdout" | "stderr":
                self._out = getattr(sys, what)
            case "wait":
                time.sleep(float(rest) * self._scale)
            case "bar" | "shards":
                count, seconds, title = rest.split(" ", 2)
                self._bar(title, int(count), float(seconds) * self._scale, what == "shards")
            case "flood":
                count, text = rest.split(" ", 1)
                self._flood(int(os.environ.get("ENGINE_LINES", count)), text)
            case "warm":
                self._warm()
                time.sleep(float(rest) * self._scale)
            case "exit":
                os._exit(int(rest))
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "allocate":
                hoard = []
                while True:
                    hoard.append(bytearray(b"x") * (16 << 20))
            case "hang":
                threading.Event().wait()
            case _:
                sys.exit(f"@{what} is unknown")

    def _say(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()

    def _flood(self, count: int, text: str) -> None:
        for start in range(0, count, 1000):
            numbers = range(start, min(start + 1000, count))
            self._out.write("".join(text.format(n=n) + "\n" for n in numbers))
        self._out.flush()

    def _bar(self, title: str, count: int, seconds: float, is_shards: bool) -> None:
        as_lines = is_shards or REDRAWN_AS_LINES
        began = drawn_at = time.monotonic()
        for done in range(count + 1):
            if done:
                # Towards the end of the step, so that a sleep's own error does not add up.
                time.sleep(max(0.0, began + seconds * done / count - time.monotonic()))
            now = time.monotonic()
            if 0 < done < count and now - drawn_at < REFRESH:
                continue
            drawn_at = now
            text = _drawn(title, done, count, now - began, is_shards)
            self._bar_say(text + "\n" if as_lines else "\r" + text)
        if not as_lines:
            self._bar_say("\n")

    def _bar_say(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


def _drawn(title: str, done: int, count: int, elapsed: float, is_shards: bool) -> str:
    rate = done / elapsed if elapsed else 0.0
    times = f"[00:{elapsed:02.0f}<?, ?it/s]"
    if rate:
        times = f"[00:{elapsed:02.0f}<00:{(count - done) / rate:02.0f}, {rate:5.2f}it/s]"
    share = done / count
    if is_shards:
        return f"{title}: {share:4.0%} Completed | {done}/{count} {times}"
    return f"{title}: {share:4.0%}|{'█' * round(share * WIDTH):<{WIDTH}}| {done}/{count} {times}"


def _seconds(line: str) -> float:
    match line.split(" "):
        case ["@wait" | "@warm", seconds]:
            return float(seconds)
        case ["@bar" | "@shards", _count, seconds, *_title]:
            return float(seconds)
    return 0.0
