"""Trials of upgrades: begun, followed, decided."""

from datetime import datetime

from django.http import HttpRequest
from ninja import Schema, Status
from pydantic import Field

from servers.lifecycle.benchmarks import trials as commands
from servers.lifecycle.benchmarks.trials import TrialRequestError, TrialStart
from servers.models import Permission, Server, UpgradeTrial
from servers.views.api.checkups import CREATED, MOST, conflict
from servers.views.api.operations import KeyRouter, find_named, find_one, person, wait_for_change
from servers.views.api.schemas import RowOut

router = KeyRouter("trials")


class TrialIn(Schema):
    server: str = Field(max_length=80)
    when: TrialStart = "now"  # idle, tonight: once nobody has used it for 15 minutes
    is_twice: bool = False  # each is loaded twice, in turns


class TrialOut(RowOut):
    id: int
    server: str
    box: str
    # wait, measure-old, check-old, load-new, measure-new, check-new, again-old, measure-old2,
    # again-new, measure-new2, go-back, over
    step: str
    is_open: bool
    decision: str  # keep, back, abandoned; "" before it is decided
    says: str  # why it was decided so
    old_run: int | None
    new_run: int | None
    measured_before: int | None  # the result
    measured_after: int | None
    measured_before_again: int | None
    measured_after_again: int | None
    answers_before: int | None  # the canary
    answers_after: int | None
    asked_by: str | None
    decided_by: str | None  # null: the rule has decided
    asked_at: datetime
    ended_at: datetime | None
    mark: str  # another text whenever people are shown something else

    @classmethod
    def from_trial(cls, found: UpgradeTrial) -> "TrialOut":
        return cls.from_same(
            found,
            id=found.pk,
            server=found.server_name,
            box=found.box.slug,
            says=found.said,
            old_run=found.old_run_id,
            new_run=found.new_run_id,
            measured_before=found.measured_before_id,
            measured_after=found.measured_after_id,
            measured_before_again=found.measured_before_again_id,
            measured_after_again=found.measured_after_again_id,
            answers_before=found.answers_before_id,
            answers_after=found.answers_after_id,
            asked_by=found.by.username if found.by else None,
            decided_by=found.decided_by.username if found.decided_by else None,
            mark=f"{found.step} {found.moved_at.isoformat()}",
        )


@router.serve("GET", "", Permission.VIEW, list[TrialOut])
def trials(request: HttpRequest, server: str = "") -> list[TrialOut]:
    """The newest; of one server, or of all."""
    found = UpgradeTrial.objects.with_details()
    if server:
        found = found.filter(server_name=server)
    return [TrialOut.from_trial(each) for each in found[:MOST]]


@router.serve("POST", "", Permission.OPERATE, {201: TrialOut}, 404, 409)
def trial(request: HttpRequest, given: TrialIn) -> Status[TrialOut]:
    """Have what the server would start now tried against what it runs. One at a time a box."""
    server = find_named(Server.objects.for_dashboard(), "server", given.server)
    try:
        made = commands.ask(server, by=person(request), when=given.when, is_twice=given.is_twice)
    except TrialRequestError as error:
        raise conflict("not_tried", error) from error
    return Status(CREATED, _look(made.pk))


@router.serve("GET", "/{pk}", Permission.VIEW, TrialOut, 404)
async def one(request: HttpRequest, pk: int, seen: str = "", wait: float = 0.0) -> TrialOut:
    """How far it is, and what was decided.

    With `wait`, the answer is held back for up to so many seconds while its mark is still `seen`.
    """
    return await wait_for_change(lambda: _look(pk), seen=seen, wait=wait, kinds=["benchmarks"])


@router.serve("POST", "/{pk}/keep", Permission.OPERATE, TrialOut, 404, 409)
def keep(request: HttpRequest, pk: int) -> TrialOut:
    """End it now, with what was loaded."""
    try:
        commands.keep(_find(pk), by=person(request))
    except TrialRequestError as error:
        raise conflict("not_decided", error) from error
    return _look(pk)


@router.serve("POST", "/{pk}/back", Permission.OPERATE, TrialOut, 404, 409)
def back(request: HttpRequest, pk: int) -> TrialOut:
    """End it now, with what ran before."""
    try:
        commands.go_back(_find(pk), by=person(request))
    except TrialRequestError as error:
        raise conflict("not_decided", error) from error
    return _look(pk)


def _look(pk: int) -> TrialOut:
    return TrialOut.from_trial(_find(pk))


def _find(pk: int) -> UpgradeTrial:
    return find_one(UpgradeTrial.objects.with_details(), f"There is no trial {pk}.", pk=pk)
