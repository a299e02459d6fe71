"""Runs: how one went, why it failed, and its log, also while it grows."""

from typing import Any

from asgiref.sync import sync_to_async
from django.http import HttpRequest
from ninja import Schema

from servers import events
from servers.events.long_polling import wait_async
from servers.judge.logs import failure_catalog
from servers.lifecycle.logs import diagnoses
from servers.models import LogChunk, Permission, Run
from servers.models.logs.log import MOST_CHUNKS
from servers.views.api.operations import KeyRouter, find_one
from servers.views.api.schemas import RELATED, RunOut

router = KeyRouter("runs")
MOST_LINES = 5000


class LineOut(Schema):
    number: int
    at: str  # as Docker stamped it, with nanoseconds
    stream: str  # o: stdout, e: stderr, i: a note of inferdash's own
    text: str


class LogOut(Schema):
    lines: list[LineOut]
    next: int  # the line to ask for next
    is_complete: bool  # nothing more will come


class WhyOut(Schema):
    run: RunOut
    cause: str  # the id of a known cause; "" when none was recognised
    summary: str
    evidence: list[tuple[int, str]]  # lines of the log: number and text
    is_partial: bool  # only a part of the log was there
    fixes: list[str]  # what to do, best first


@router.serve("GET", "/{run_id}", Permission.VIEW, RunOut, 404)
def run(request: HttpRequest, run_id: int) -> RunOut:
    return RunOut.from_run(_find(run_id))


@router.serve("GET", "/{run_id}/why", Permission.VIEW, WhyOut, 404)
def why(request: HttpRequest, run_id: int) -> WhyOut:
    found = _find(run_id)
    said: dict[str, Any] = found.log.diagnosis
    return WhyOut(
        run=RunOut.from_run(found),
        cause=found.log.cause if found.log.cause in failure_catalog.by_id() else "",
        summary=found.why,
        evidence=[(line, text) for line, text in said.get("evidence", [])],
        is_partial=bool(said.get("is_partial")),
        fixes=diagnoses.list_cures(found),
    )


@router.serve("GET", "/{run_id}/log", Permission.VIEW, LogOut, 404)
async def log(
    request: HttpRequest, run_id: int, start: int = 1, limit: int = 1000, wait: float = 0.0
) -> LogOut:
    """Lines from number `start` on; negative: so many from the end.

    With `wait`, an answer without lines is held back for up to so many seconds until one comes,
    or the log has ended.
    """
    found = await sync_to_async(_find)(run_id)
    limit = max(1, min(limit, MOST_LINES))
    after = found.log.lines + start if start < 0 else start - 1
    answer = await _lines(run_id, max(0, after), limit)
    if answer.lines or answer.is_complete or wait <= 0:
        return answer
    return await wait_async(
        lambda: _lines(run_id, max(0, after), limit),
        lambda found: bool(found.lines or found.is_complete),
        groups=(events.log_group(run_id), events.LIVE),  # the end of a run is told to all pages
        seconds=wait,
        is_about=lambda message: message.get("kind", "log") in ("log", "server", "servers"),
    )


@sync_to_async
def _lines(run_id: int, after: int, limit: int) -> LogOut:
    run = Run.objects.filter(pk=run_id).select_related("log").first()
    lines = LogChunk.objects.lines(run_id, after, limit, most=MOST_CHUNKS)
    return LogOut(
        lines=[
            LineOut(number=each.number, at=each.at, stream=each.stream, text=each.text)
            for each in lines
        ],
        next=lines[-1].number + 1 if lines else after + 1,
        is_complete=(run is None or run.has_whole_log) and not lines,
    )


def _find(run_id: int) -> Run:
    rows = Run.objects.select_related(*RELATED)
    return find_one(rows, f"There is no run {run_id}.", pk=run_id)
