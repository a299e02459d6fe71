"""Servers and their runs: what runs, and the verbs; how a run went, why it failed, and its log."""

from datetime import timedelta
from typing import Any, Literal

from asgiref.sync import sync_to_async
from django.http import HttpRequest
from django.utils import timezone
from ninja import Schema
from pydantic import Field

from servers import events, lifecycle, tasks
from servers.events import wait_async
from servers.judge.logs import failure_catalog
from servers.lifecycle import QueueOptions
from servers.lifecycle.logs import diagnoses
from servers.lifecycle.people import claims
from servers.lifecycle.profiles import preflight
from servers.lifecycle.profiles.knowledge import LaunchContext
from servers.lifecycle.runs import gpu_conflicts
from servers.lifecycle.runs.ownership import require_managed
from servers.models import Claim, LogChunk, Permission, Run, Server
from servers.models.logs import MOST_CHUNKS
from servers.views.api.operations import (
    ApiError,
    KeyRouter,
    find_named,
    find_one,
    person,
    wait_for_change,
)
from servers.views.api.schemas import RELATED, ClaimOut, RunOut, ServerOut
from servers.views.runs import starts

router = KeyRouter("servers")
CONFLICT, FORBIDDEN = 409, 403


_DESPITE_CLAIM = "Although somebody else has claimed it, or its GPUs."


class StartIn(Schema):
    despite_claim: bool = Field(default=False, description=_DESPITE_CLAIM)
    despite: str = Field(
        default="",
        max_length=300,
        description="Why it is to start although a check says no; editors only.",
    )
    when_taken: Literal["refuse", "wait", "beside"] = Field(
        default="refuse",
        description="Of GPUs that somebody is on: an error, wait until they are free, or start all the same.",
    )
    wait_seconds: int = Field(
        default=7200, ge=0, le=7 * 86400, description="0: until it is stopped."
    )


class RestartIn(Schema):
    despite_claim: bool = Field(default=False, description=_DESPITE_CLAIM)


class StopIn(Schema):
    after_requests: bool = Field(default=False, description="Let the running requests end first.")
    despite_claim: bool = Field(default=False, description=_DESPITE_CLAIM)


@router.serve("GET", "", Permission.VIEW, list[ServerOut])
def servers(request: HttpRequest) -> list[ServerOut]:
    return [ServerOut.from_server(each) for each in Server.objects.for_dashboard()]


@router.serve("GET", "/{slug}", Permission.VIEW, ServerOut, 404)
async def server(request: HttpRequest, slug: str, seen: str = "", wait: float = 0.0) -> ServerOut:
    """Where it is.

    With `wait`, the answer is held back for up to so many seconds while its mark is still `seen`.
    """
    return await wait_for_change(
        lambda: ServerOut.from_server(_find(slug)),
        seen=seen,
        wait=wait,
        kinds=["server", "servers"],
    )


@router.serve("GET", "/{slug}/runs", Permission.VIEW, list[RunOut], 404)
def runs(request: HttpRequest, slug: str, limit: int = 20) -> list[RunOut]:
    """The newest first."""
    found = _find(slug).runs.select_related(*RELATED)
    return [RunOut.from_run(each) for each in found[: max(1, min(limit, 100))]]


@router.serve("GET", "/{slug}/fit", Permission.VIEW, dict[str, Any], 404)
def fit(request: HttpRequest, slug: str) -> dict[str, Any]:
    """Whether a start would do: every check, what is known to fail, and the estimate of memory."""
    return _report_preflight(LaunchContext.of_server(_find(slug))).to_json()


@router.serve("POST", "/{slug}/start", Permission.OPERATE, ServerOut, 403, 404, 409)
def start(request: HttpRequest, slug: str, how: StartIn | None = None) -> ServerOut:
    """Nothing happens to one that runs already."""
    how = how or StartIn()
    found = require_managed(_find(slug))
    if not found.runs.active().exists():
        _refuse(request, found, how)
        until = timezone.now() + timedelta(seconds=how.wait_seconds) if how.wait_seconds else None
        patience = QueueOptions(until=until) if how.when_taken == "wait" else None
        run = lifecycle.start(
            found, by=person(request), despite=how.despite.strip(), patience=patience
        )
        if run is not None:
            tasks.nudge(run)
    return ServerOut.from_server(_find(slug))


def _refuse(request: HttpRequest, found: Server, how: StartIn) -> None:
    """Raises ApiError for a start that would fail, or whose GPUs are taken."""
    context = LaunchContext.of_server(found)
    checked = _report_preflight(context)
    may_despite = bool(how.despite.strip()) and person(request).may_edit
    errors = [each for each in checked.errors if each.id != "loading"]
    faults = checked.lasting if how.when_taken == "wait" else checked.faults
    if (errors or faults) and not may_despite:
        said = [each.says for each in errors] + [each.says for each in faults]
        raise ApiError(
            CONFLICT,
            "would_fail",
            " ".join(said),
            "Mend it, or as an editor start it all the same with a reason in “despite” (in the "
            "terminal: --despite REASON).",
            **checked.to_json(),
        )
    there = gpu_conflicts.before_start(context, checked.known)
    if not how.despite_claim:
        _refuse_claimed(claims.against_start(found, there.start.gpus, person(request)))
    if how.when_taken != "refuse" or may_despite:
        return
    if there.holders:
        raise ApiError(
            CONFLICT,
            "taken",
            f"{there.where} {'is' if there.start.is_unified else 'are'} taken by "
            f"{', '.join(map(str, there.holders))}.",
            "Send when_taken: “wait” to start it once they are free, or stop who is there.",
            reason_code=there.code,
            holders=[
                {"name": each.name, "by": each.by, "kind": each.kind} for each in there.holders
            ],
        )


def _refuse_claimed(found: list[Claim]) -> None:
    """Raises ApiError where there are any."""
    if found:
        raise ApiError(
            CONFLICT,
            "claimed",
            "; ".join(map(claims.describe, found)) + ".",
            "Ask them, or send despite_claim: true (in the terminal: --despite-claim).",
            claims=[ClaimOut.from_claim(each).model_dump(mode="json") for each in found],
        )


@router.serve("POST", "/{slug}/stop", Permission.OPERATE, ServerOut, 403, 404, 409)
def stop(request: HttpRequest, slug: str, how: StopIn | None = None) -> ServerOut:
    """Nothing happens to one that does not run."""
    found = require_managed(_find(slug))
    if not (how and how.despite_claim):
        _refuse_claimed(claims.against_stop(found, person(request)))
    starts.stop(found, by=person(request), after_requests=bool(how and how.after_requests))
    return ServerOut.from_server(_find(slug))


@router.serve("POST", "/{slug}/restart", Permission.OPERATE, ServerOut, 403, 404, 409)
def restart(request: HttpRequest, slug: str, how: RestartIn | None = None) -> ServerOut:
    """Of one that does not run, a start."""
    found = require_managed(_find(slug))
    insists = bool(how and how.despite_claim)
    if not found.runs.active().exists():
        return start(request, slug, StartIn(despite_claim=insists))
    if not insists:
        _refuse_claimed(claims.against_stop(found, person(request)))
    starts.restart(found, by=person(request))
    return ServerOut.from_server(_find(slug))


def _find(slug: str) -> Server:
    return find_named(Server.objects.for_dashboard(), "server", slug)


def _report_preflight(context: LaunchContext) -> preflight.PreflightResult:
    tasks.look_at_mounts(context)
    return preflight.check(context)


run_router = KeyRouter("runs")
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


@run_router.serve("GET", "/{run_id}", Permission.VIEW, RunOut, 404)
def run(request: HttpRequest, run_id: int) -> RunOut:
    return RunOut.from_run(_find_run(run_id))


@run_router.serve("GET", "/{run_id}/why", Permission.VIEW, WhyOut, 404)
def why(request: HttpRequest, run_id: int) -> WhyOut:
    found = _find_run(run_id)
    said: dict[str, Any] = found.log.diagnosis
    return WhyOut(
        run=RunOut.from_run(found),
        cause=found.log.cause if found.log.cause in failure_catalog.by_id() else "",
        summary=found.why,
        evidence=[(line, text) for line, text in said.get("evidence", [])],
        is_partial=bool(said.get("is_partial")),
        fixes=diagnoses.list_cures(found),
    )


@run_router.serve("GET", "/{run_id}/log", Permission.VIEW, LogOut, 404)
async def log(
    request: HttpRequest, run_id: int, start: int = 1, limit: int = 1000, wait: float = 0.0
) -> LogOut:
    """Lines from number `start` on; negative: so many from the end.

    With `wait`, an answer without lines is held back for up to so many seconds until one comes,
    or the log has ended.
    """
    found = await sync_to_async(_find_run)(run_id)
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


def _find_run(run_id: int) -> Run:
    rows = Run.objects.select_related(*RELATED)
    return find_one(rows, f"There is no run {run_id}.", pk=run_id)
