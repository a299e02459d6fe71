"""A search through a whole log, in a child process that is fed chunks and can be ended."""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

from channels.db import database_sync_to_async

from servers.judge.logs import failure_catalog
from servers.judge.logs.metric_rules import LogMetricMap, load_meters
from servers.judge.logs.metrics import Meter
from servers.judge.logs.parsing import Level
from servers.judge.logs.phases.progress import PHASES
from servers.lifecycle.runs import starts
from servers.models import LogChunk, Run
from servers.models.runs.run import RunState

# Line numbers that a browser gets; more are only counted.
MOST_FOUND = 250_000
LONGEST_TEXT = 500
# Searches at once in this process: each takes a processor core.
_AT_ONCE = 2
_CHUNKS = 64  # read from the database in one go
_MOST_MARKS = 5000
_LOOK_EVERY = 4.0  # seconds, at a log that grows
_ROOT = Path(__file__).resolve().parents[2]
_LONGEST_MESSAGE = 8 * 1024 * 1024

ENDED = "The search took too much time or memory and was ended. Make it simpler."
TOO_LONG = f"What is searched for may have at most {LONGEST_TEXT} characters. Make it shorter."

_slots: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}


def query(wish: Mapping[str, Any]) -> dict[str, Any]:
    """What may be handed to the child of a browser's wish. Raises ValueError and KeyError."""
    if not isinstance(wish, Mapping):
        raise ValueError("a search is an object")
    level, worst = str(wish.get("level") or "info"), str(wish.get("worst") or "error")
    if Level[level.upper()] > Level[worst.upper()]:
        raise ValueError("no level is both")
    return {
        "text": str(wish.get("text", "")),
        "regex": bool(wish.get("regex")),
        "case": bool(wish.get("case")),
        "level": level,
        "worst": worst,
        "rank": str(wish.get("rank", ""))[:100],
    }


async def search(
    run_id: int, wish: Mapping[str, Any], *, near: int, after: int, upto: int
) -> AsyncGenerator[dict[str, Any], None]:
    """Hits among the lines after+1..upto as they are found, the last message with "done".

    What stands at `near` or below it comes first, then what is above it, upwards: a reader wants
    the next hit. Text without colours is looked at.
    """
    # Cut short it would be another search, whose hits nobody asked for.
    if len(wish.get("text", "")) > LONGEST_TEXT:
        yield _refuse(TOO_LONG)
        return
    slot = _slots.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(_AT_ONCE))
    async with slot:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-S", "-m", "servers.consumers.log_search_child"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=_ROOT,
            env={"PYTHONDONTWRITEBYTECODE": "1"},
            limit=_LONGEST_MESSAGE,
        )
        asked = {**wish, "after": after, "upto": upto, "most": MOST_FOUND}
        feeding = asyncio.create_task(_feed(child, run_id, asked, max(near, after + 1)))
        try:
            assert child.stdout is not None
            is_done = False
            while line := await child.stdout.readline():
                said = json.loads(line)
                is_done = bool(said.get("done"))
                yield said
            if feeding.done():
                feeding.result()
            if not is_done:
                yield _refuse(ENDED)
        finally:
            feeding.cancel()
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await feeding
            await child.wait()


def _refuse(why: str) -> dict[str, Any]:
    return {"numbers": [], "total": 0, "looked": 0, "done": True, "error": why}


class LogOutlineReader:
    """What stands beside a log: its errors and warnings, its phases, what a diagnosis went by."""

    def __init__(self, run_id: int) -> None:
        self.run_id = run_id
        self._upto = 0
        self._errors: list[int] = []
        self._warnings: list[int] = []
        self._ranks: set[str] = set()
        self._harmless: list[tuple[int, int]] = []
        self._meter = Meter()
        self._book: LogMetricMap | None = None
        self._next_look = 0.0
        self._lock = asyncio.Lock()

    async def read(self, upto: int) -> dict[str, Any]:
        """As of line `upto`; only what is new is looked at."""
        async with self._lock:
            if upto > self._upto:
                # One look serves all who ask meanwhile.
                loop = asyncio.get_running_loop()
                await asyncio.sleep(self._next_look - loop.time())
                await self._look_on(upto)
                self._next_look = loop.time() + _LOOK_EVERY
        told, is_healthy = await database_sync_to_async(_find_phase_lines)(self.run_id)
        ranks = sorted(self._ranks, key=lambda rank: (len(rank), rank))
        harmless = self._reasons() if is_healthy else []
        marks = {"errors": self._errors, "warnings": self._warnings, "ranks": ranks}
        return {**marks, "harmless": harmless, "figures": self._figures(), **told}

    def _figures(self) -> dict[str, Any]:
        """What the engine wrote of its own work over time; {} where it wrote nothing."""
        series = self._meter.series()
        if not series["t"] or self._book is None:
            return {}
        return {"tokens": self._book.tokens, **series}

    def _reasons(self) -> list[tuple[str, list[int]]]:
        """Why lines need worry nobody, each reason with its lines."""
        found: dict[int, list[int]] = {}
        for number, which in self._harmless:
            found.setdefault(which, []).append(number)
        known = failure_catalog.harmless()
        return [(known[which].why, numbers) for which, numbers in found.items()]

    async def _look_on(self, upto: int) -> None:
        known = [
            (each.match.regex.pattern, each.match.literals) for each in failure_catalog.harmless()
        ]
        if self._book is None:
            self._book = await database_sync_to_async(_book)(self.run_id)
        meters = self._book.rules if self._book else ()
        wish = {"outline": True, "known": known, "meters": meters}
        found = search(self.run_id, wish, near=0, after=self._upto, upto=upto)
        async with contextlib.aclosing(found):
            async for said in found:
                if "error" in said:
                    return
                self._errors = (self._errors + said["errors"])[:_MOST_MARKS]
                self._warnings = (self._warnings + said["warnings"])[:_MOST_MARKS]
                self._ranks.update(said["ranks"])
                self._harmless = (self._harmless + said["found"])[:_MOST_MARKS]
                self._meter.merge(said["figures"])
                self._upto = upto


def _book(run_id: int) -> LogMetricMap | None:
    spec = Run.objects.filter(pk=run_id).values_list("version__spec", flat=True).first()
    return load_meters().get(spec.get("engine", "")) if spec else None


def _find_phase_lines(run_id: int) -> tuple[dict[str, Any], bool]:
    """The lines at which phases began, and those that tell why the run failed; whether it is well.

    Of a run that is not, no line is called harmless: some are only where nothing else is wrong.
    """
    run = Run.objects.filter(pk=run_id).first()
    if run is None:
        return {"phases": [], "evidence": []}, False
    phases = [
        [each.line, PHASES.get(each.phase, each.phase)]
        for each in starts.read_progress(run).moments
        if each.line > 0
    ]
    evidence = run.log.diagnosis.get("evidence", []) if run.log.cause else []
    told = {"phases": phases, "evidence": [[line, str(text)[:200]] for line, text in evidence]}
    return (
        told,
        run.state != RunState.FAILED and not run.log.diagnosis and run.health.spins_since is None,
    )


async def _feed(
    child: asyncio.subprocess.Process, run_id: int, asked: dict[str, Any], near: int
) -> None:
    stdin = child.stdin
    assert stdin is not None
    # It may have ended already, because the pattern is none.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        stdin.write(json.dumps(asked).encode() + b"\n")
        async for first, body in _chunks(run_id, near, asked["after"], asked["upto"]):
            stdin.write(b"%d %d\n" % (first, len(body)) + body)
            await stdin.drain()
        stdin.close()


async def _chunks(
    run_id: int, near: int, after: int, upto: int
) -> AsyncGenerator[tuple[int, bytes], None]:
    # Apart from the thread that all short queries share.
    read = database_sync_to_async(LogChunk.objects.bodies, thread_sensitive=False)
    start = at = near
    is_first = True
    while at <= upto and (some := await read(run_id, at, _CHUNKS)):
        if is_first:
            start, is_first = some[0][0], False
        for first, _count, body in some:
            yield first, body
        at = some[-1][0] + some[-1][1]
    read_back = database_sync_to_async(LogChunk.objects.bodies_before, thread_sensitive=False)
    while start > after + 1 and (some := await read_back(run_id, start, _CHUNKS)):
        for first, _count, body in some:
            yield first, body
        start = some[-1][0]
