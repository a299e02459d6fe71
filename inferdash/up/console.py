"""One log for all programs: a coloured prefix, then what they say."""

import os
import queue
import re
import sys
import threading

_COLOURS = {"web": 36, "worker": 35, "watcher": 34, "redis": 33, "inferdash": 32}
_WIDTH = max(map(len, _COLOURS))
# A container's name or an engine's message may carry sequences that rewrite the terminal.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Console:
    """Never waits for the terminal: a laptop that sleeps must not stop the programs here.

    While the terminal takes nothing, lines beyond the queue's size are counted and left out.
    """

    def __init__(self, *, size: int = 2000) -> None:
        self._is_coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        self._lines: queue.Queue[str | None] = queue.Queue(size)
        self._left_out = 0
        self._writer = threading.Thread(target=self._write, name="console", daemon=True)
        self._writer.start()

    def say(self, name: str, line: str) -> None:
        prefix = f"{name:<{_WIDTH}} |"
        if self._is_coloured:
            prefix = f"\x1b[{_COLOURS.get(name, 37)}m{prefix}\x1b[0m"
        text = f"{prefix} {_CONTROL.sub('', line)}\n"
        try:
            if self._left_out:
                self._lines.put_nowait(f"{prefix} … {self._left_out} lines left out\n")
                self._left_out = 0
            self._lines.put_nowait(text)
        except queue.Full:
            self._left_out += 1

    def close(self, timeout: float) -> None:
        """Write what waits, for at most so many seconds."""
        try:
            self._lines.put(None, timeout=timeout)
        except queue.Full:
            return
        self._writer.join(timeout)

    def _write(self) -> None:
        while (text := self._lines.get()) is not None:
            try:
                os.write(1, text.encode(errors="replace"))
            except OSError:
                # The terminal is gone. The programs are not, and nobody reads this.
                continue
