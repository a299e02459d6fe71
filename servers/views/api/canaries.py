"""Canaries of servers: asked for, followed, stopped, accepted."""

from django.http import HttpRequest
from ninja import Schema, Status
from pydantic import Field

from servers.lifecycle.canary import commands, results
from servers.lifecycle.canary.commands import CanaryRequestError
from servers.models import Canary, CanaryJob, Permission, Server
from servers.views.api.checkups import CONFLICT, CREATED, MOST, CheckupIn, CheckupOut, conflict
from servers.views.api.operations import (
    ApiError,
    KeyRouter,
    find_named,
    find_one,
    person,
    wait_for_change,
)

router = KeyRouter("canaries")


class CanaryIn(CheckupIn):
    set: str = Field(default="quick", max_length=20)  # quick or full


class CanaryItemOut(Schema):
    key: str
    kind: str
    title: str
    verdict: str  # pass, changed, wrong, unknown
    says: str
    before: str  # where they part, or the whole answer; "" where none is shown
    after: str


class CanaryOut(CheckupOut):
    box: str
    set: str
    verdict: str  # pass, changed, wrong, unknown; "" before its end
    is_accepted: bool
    item: str  # that is being asked
    left_out: int  # items that there was no time for
    compared_with: int | None  # the canary
    changes: list[str]  # since the one that it was compared with
    reasons: list[str]  # that are known for such answers, with what to do
    items: list[CanaryItemOut]

    @classmethod
    def from_canary(cls, found: Canary, *, is_whole: bool = True) -> "CanaryOut":
        """`is_whole` False: without items, changes and reasons, for a list."""
        job = CanaryJob.objects.filter(pk=found.job_id or 0).first() if found.is_open else None
        verdicts = results.read_verdicts(found) if is_whole else []
        rules = results.find_rules(found) if is_whole else []
        return cls.from_checkup(
            found,
            job,
            seen=found.accepted_at,
            box=found.box.slug,
            set=found.set_key,
            is_accepted=found.accepted_at is not None,
            item=job.item if job else "",
            compared_with=found.compared_with_id,
            changes=[str(each) for each in results.find_changes(found)] if is_whole else [],
            reasons=[f"{rule.says} {rule.advice}" for rule in rules],
            items=[
                CanaryItemOut(
                    key=each.key,
                    kind=each.kind,
                    title=each.title,
                    verdict=each.verdict,
                    says=each.text,
                    before=each.before,
                    after=each.after,
                )
                for each in verdicts
            ],
        )


@router.serve("GET", "", Permission.VIEW, list[CanaryOut])
def canaries(request: HttpRequest, server: str = "") -> list[CanaryOut]:
    """The newest, without their items; of one server, or of all."""
    found = Canary.objects.with_details().without_replies()
    if server:
        found = found.filter(server_name=server)
    return [CanaryOut.from_canary(each, is_whole=False) for each in found[:MOST]]


@router.serve("POST", "", Permission.OPERATE, {201: CanaryOut}, 404, 409)
def canary(request: HttpRequest, given: CanaryIn) -> Status[CanaryOut]:
    """Have a server's answers checked. One check-up at a time a box."""
    server = find_named(Server.objects.for_dashboard(), "server", given.server)
    try:
        made = commands.ask(server, given.set, by=person(request), gives_way=given.gives_way)
    except CanaryRequestError as error:
        raise conflict("not_checked", error) from error
    return Status(CREATED, _look(made.pk))


@router.serve("GET", "/{pk}", Permission.VIEW, CanaryOut, 404)
async def one(request: HttpRequest, pk: int, seen: str = "", wait: float = 0.0) -> CanaryOut:
    """How far it is, and its verdicts.

    With `wait`, the answer is held back for up to so many seconds while its mark is still `seen`.
    """
    return await wait_for_change(lambda: _look(pk), seen=seen, wait=wait, kinds=["benchmarks"])


@router.serve("POST", "/{pk}/stop", Permission.OPERATE, CanaryOut, 404)
def stop(request: HttpRequest, pk: int) -> CanaryOut:
    commands.stop(_find(pk), by=person(request))
    return _look(pk)


@router.serve("POST", "/{pk}/accept", Permission.EDIT, CanaryOut, 404, 409)
def accept(request: HttpRequest, pk: int) -> CanaryOut:
    """Take what has changed for right: the next ones are compared with it."""
    if not commands.accept(_find(pk), by=person(request)):
        raise ApiError(
            CONFLICT, "nothing_to_accept", "It is no changed one, or is accepted already."
        )
    return _look(pk)


def _look(pk: int) -> CanaryOut:
    return CanaryOut.from_canary(_find(pk))


def _find(pk: int) -> Canary:
    rows = Canary.objects.with_details().select_related(
        "compared_with", "run__version", "run__plan"
    )
    return find_one(rows.defer("items", "compared_with__items"), f"There is no canary {pk}.", pk=pk)
