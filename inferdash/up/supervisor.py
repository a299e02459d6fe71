"""The supervisor: it starts, restarts and stops the programs of the plan, and has one log for all."""

import asyncio
import contextlib
import os
import queue
import re
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from inferdash.up import health
from inferdash.up.plan import Program, SupervisorPlan, read, tunnel

_COLOURS = {"web": 36, "worker": 35, "watcher": 34, "redis": 33, "inferdash": 32, "relay": 35,
            "postgres": 33, "keeper": 31, "control": 31, "streams": 31, "follower": 32}  # fmt: skip
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


CHILD = Path(__file__).with_name("child.py")
FIRST_PAUSE = 0.5  # seconds before a program that died is started again; doubles each time
RAN_WELL = 60.0  # seconds after which the pauses begin anew
READY_WITHIN = 60.0
LONGEST_LINE = 16 * 1024


class Supervisor:
    def __init__(self, plan: SupervisorPlan, console: Console) -> None:
        self.plan = plan
        self.console = console
        self.stop = asyncio.Event()
        self.stop_last = asyncio.Event()
        self.hurry = asyncio.Event()
        self.begins_again = False

    def say(self, sentence: str) -> None:
        self.console.say("inferdash", sentence)

    async def run(self) -> None:
        self._obey_signals()
        first = [program for program in self.plan.programs if not program.is_last_to_stop]
        last = [program for program in self.plan.programs if program.is_last_to_stop]
        async with asyncio.TaskGroup() as kept:
            for program in last:
                kept.create_task(self._keep(program, self.stop_last))
            running = [kept.create_task(self._keep(program, self.stop)) for program in first]
            announcement = kept.create_task(self._announce())
            await asyncio.wait(running)
            announcement.cancel()
            self.stop_last.set()

    def _obey_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # nohup, and shells for what they run in the background, ask for signals to be ignored.
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, self._stop)
        if self.plan.again:
            loop.add_signal_handler(signal.SIGUSR1, self._begin_again)

    def _begin_again(self) -> None:
        if not self.stop.is_set():
            self.begins_again = True
            self.say("stopping, to begin anew; " + self.plan.farewell)
            self.stop.set()

    def _stop(self) -> None:
        if self.stop.is_set():
            self.hurry.set()
            return
        self.say(f"stopping; {self.plan.farewell} (once more: at once)")
        self.stop.set()

    async def _keep(self, program: Program, stop: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        pause = FIRST_PAUSE
        while not stop.is_set():
            started = loop.time()
            code = await self._run_once(program, stop)
            if stop.is_set():
                return
            if loop.time() - started >= RAN_WELL:
                pause = FIRST_PAUSE
            self.say(f"{program.name} {_describe_exit(code)}; starting it again in {pause:g} s")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), pause)
            pause = min(2 * pause, program.longest_pause)

    async def _run_once(self, program: Program, stop: asyncio.Event) -> int:
        reading, writing = os.pipe()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(CHILD), str(os.getpid()), *program.command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=writing,
            stderr=writing,
            pass_fds=program.descriptors,
            env=_environment(),
            # Its own group: the terminal's Ctrl-C reaches only us, and we end all of it.
            start_new_session=True,
        )
        os.close(writing)
        lines = _Lines(reading, lambda line: self._pass_on(program, line))
        ended = asyncio.create_task(process.wait())
        await _either(ended, stop)
        if not ended.done():
            _signal_group(process.pid, signal.Signals(program.stop_signal))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(program.grace):
                    await _either(ended, self.hurry)
            if not ended.done():
                how = (
                    "is killed at once"
                    if self.hurry.is_set()
                    else "did not stop by itself and is killed"
                )
                self.say(f"{program.name} {how}")
        # Whatever it started and left behind goes too.
        _signal_group(process.pid, signal.SIGKILL)
        code = await ended
        lines.close()
        return code

    def _pass_on(self, program: Program, line: str) -> None:
        if not (program.untold and re.search(program.untold, line)):
            self.console.say(program.name, line)

    async def _announce(self) -> None:
        if not self.plan.address:
            for note in self.plan.notes:
                self.say(note)
            return
        web_answers = asyncio.create_task(self._wait_for_web())
        try:
            status = await asyncio.wait_for(web_answers, READY_WITHIN)
        except TimeoutError:
            self.say(f"web does not answer after {READY_WITHIN:g} s; its lines above say why")
            return
        if status >= 500:
            self.say(f"web answers with error {status}; its lines above say why")
        self.say(f"ready at {self.plan.address}")
        if command := tunnel(urlsplit(self.plan.address).port or 0):
            self.say(f"from your own machine: {command}   then open {self.plan.loopback}")
        for note in self.plan.notes:
            self.say(note)
        for warning in self.plan.warnings:
            self.say(f"warning: {warning}")
        if self.plan.admin_link:
            self.say(f"the first admin opens this link, which works once: {self.plan.admin_link}")

    async def _wait_for_web(self) -> int:
        """The status of web's first answer. It has the socket before it can answer on it."""
        target = urlsplit(self.plan.loopback)
        request = f"GET /login/ HTTP/1.1\r\nHost: {target.netloc}\r\nConnection: close\r\n\r\n"
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection(
                    target.hostname,
                    target.port,
                    ssl=health.make_unverified_context() if target.scheme == "https" else None,
                )
                try:
                    writer.write(request.encode())
                    words = (await reader.readline()).split()
                finally:
                    writer.close()
                if len(words) > 1 and words[1].isdigit():
                    return int(words[1])
            await asyncio.sleep(0.1)


class _Lines:
    """Passes on what a program says, line by line, until it is closed."""

    def __init__(self, descriptor: int, say: Callable[[str], None]) -> None:
        self._descriptor = descriptor
        self._say = say
        self._rest = b""
        os.set_blocking(descriptor, False)
        asyncio.get_running_loop().add_reader(descriptor, self._read)

    def _read(self) -> bool:
        """Whether there may be more."""
        try:
            data = os.read(self._descriptor, 65536)
        except BlockingIOError:
            return False
        if not data:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            return False
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            lines.append(self._rest)
            self._rest = b""
        for line in lines:
            self._say(line.decode(errors="replace"))
        return True

    def close(self) -> None:
        # What it said last, which is often why it died, may still wait in the pipe.
        while self._read():
            pass
        if self._rest:
            self._say(self._rest.decode(errors="replace"))
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)


async def _either(task: asyncio.Task[int], event: asyncio.Event) -> None:
    happened = asyncio.create_task(event.wait())
    try:
        await asyncio.wait([task, happened], return_when=asyncio.FIRST_COMPLETED)
    finally:
        happened.cancel()


def _signal_group(leader: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, number)


def _describe_exit(code: int) -> str:
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def _environment() -> dict[str, str]:
    # Python's threads otherwise make glibc keep an arena each: tens of MiB for nothing.
    return os.environ | {"PYTHONUNBUFFERED": "1", "MALLOC_ARENA_MAX": "2"}


# Set by whoever starts this program again where it ends with that code (inferdash.wire.trial).
AGAIN, STARTED_AGAIN = 75, "INFERDASH_RELEASES"


def main(plan: SupervisorPlan) -> int:
    console = Console()
    supervisor = Supervisor(plan, console)
    asyncio.run(supervisor.run())
    console.close(timeout=1)
    return AGAIN if supervisor.begins_again else 0


if __name__ == "__main__":
    the_plan = read(int(sys.argv[1]))
    code = main(the_plan)
    if code == AGAIN and not os.environ.get(STARTED_AGAIN):
        # The lock on the data folder goes with them.
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        os.execv(the_plan.again[0], the_plan.again)  # noqa: S606 - our own program
    sys.exit(code)
