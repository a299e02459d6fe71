"""Check-ups of servers: asked for, followed, stopped, compared, exported."""

from datetime import datetime
from typing import Literal

from django.db.models import Prefetch
from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Schema, Status
from pydantic import Field

from servers.forms.benchmarks import CustomForm
from servers.judge.benchmarks.comparison import FIGURES, MeasuredPoint, compare_points
from servers.judge.benchmarks.custom import CustomPoints
from servers.judge.messages import say
from servers.lifecycle.benchmarks import commands, export
from servers.lifecycle.benchmarks.commands import BenchmarkRequestError
from servers.lifecycle.benchmarks.plans import list_hours
from servers.lifecycle.benchmarks.results import read_points, read_rows
from servers.models import Benchmark, BenchmarkJob, BenchmarkPoint, Permission, Server, User
from servers.views.api.checkups import CREATED, MOST, CheckupIn, CheckupOut, conflict
from servers.views.api.operations import (
    UNPROCESSABLE,
    ApiError,
    KeyRouter,
    find_named,
    find_one,
    person,
    wait_for_change,
)

router = KeyRouter("benchmarks")


class CustomIn(Schema):
    """Every length with every number of people, or with every rate: a point each."""

    prompts: list[int] = Field(max_length=20)  # tokens
    output: int = 128  # tokens
    people: list[int] = Field(default=[], max_length=20)  # at once
    rates: list[float] = Field(default=[], max_length=20)  # requests a second, instead of people
    rounds: int = 3
    seconds: int = 20  # a round


class ReplayIn(Schema):
    hour: datetime  # any moment of it
    pace: Literal[1, 2, 4, 10] = 1  # times as fast as it was
    is_random: bool = False  # arrivals at random moments


class BenchmarkIn(CheckupIn):
    preset: str = Field(default="quick", max_length=40)  # engine: the program of its image
    custom: CustomIn | None = None  # instead of a preset; editors
    replay: ReplayIn | None = None  # instead of a preset


class HourOut(Schema):
    hour: datetime
    requests: int


class FigureOut(Schema):
    """Of the rounds of a point. low and high: where the mean lies with 95 %; null: one round."""

    mean: float
    low: float | None
    high: float | None
    rounds: int


class PointOut(Schema):
    name: str
    label: str
    concurrency: int
    prompt_tokens: int  # as wanted; 0: of a text of its own
    output_tokens: int
    figures: dict[str, FigureOut]  # tokens a second, seconds
    not_clean: list[str]  # why

    @classmethod
    def from_point(cls, point: MeasuredPoint) -> "PointOut":
        figures = {}
        for figure in FIGURES:
            if found := point.estimate(figure):
                low, high = (found.low, found.high) if found.is_sure else (None, None)
                figures[figure.key] = FigureOut(
                    mean=found.mean, low=low, high=high, rounds=found.rounds
                )
        return cls(
            name=point.name,
            label=point.label,
            concurrency=point.concurrency,
            prompt_tokens=point.prompt_tokens,
            output_tokens=point.output_tokens,
            figures=figures,
            not_clean=[say(code).text for code in point.taints],
        )


class BenchmarkOut(CheckupOut):
    box: str | None  # null: it came as a file
    preset: str
    title: str
    is_clean: bool | None
    point: str  # that is being measured
    source: str  # card, llama-benchy, llama-bench, vllm, sglang; "": it was measured here
    after_start: bool  # the profile wanted it, nobody asked
    points: list[PointOut]

    @classmethod
    def from_benchmark(
        cls, found: Benchmark, points: list[MeasuredPoint] | None = None
    ) -> "BenchmarkOut":
        """Without points in a list of results."""
        job = BenchmarkJob.objects.filter(pk=found.job_id or 0).first() if found.is_open else None
        return cls.from_checkup(
            found,
            job,
            box=found.box.slug if found.box else None,
            point=job.point if job else "",
            points=[PointOut.from_point(each) for each in points or []],
        )


class DifferenceOut(Schema):
    """Shares of the first: 0.1 is 10 % more. null: one side has a single round."""

    point: str
    figure: str
    before: float
    after: float
    change: float
    low: float | None
    high: float | None
    verdict: str  # better, worse, no difference that can be told, one round only


@router.serve("GET", "", Permission.VIEW, list[BenchmarkOut])
def benchmarks(
    request: HttpRequest,
    server: str = "",
    preset: str = "",
    is_clean: bool | None = None,
    before: int | None = None,
    points: bool = False,
) -> list[BenchmarkOut]:
    """The newest 100 results, with their points only if `points`.

    The next ones are those `before` the last one's id.
    """
    wanted = {"server_name": server, "preset": preset, "is_clean": is_clean, "pk__lt": before}
    filters = {name: value for name, value in wanted.items() if value not in (None, "")}
    found = Benchmark.objects.filter(**filters).with_details()
    if points:
        rows = Prefetch("points", queryset=BenchmarkPoint.objects.defer("requests"))
        found = found.prefetch_related(rows)
    return [
        BenchmarkOut.from_benchmark(each, read_rows(each.points.all()) if points else None)
        for each in found[:MOST]
    ]


@router.serve("POST", "", Permission.OPERATE, {201: BenchmarkOut}, 404, 409)
def benchmark(request: HttpRequest, given: BenchmarkIn) -> Status[BenchmarkOut]:
    """Have a server measured. One at a time a box, unless it does not give way."""
    server = find_named(Server.objects.for_dashboard(), "server", given.server)
    if given.custom and given.replay:
        raise _invalid("Give custom or replay, not both.")
    try:
        made = _ask(server, given, by=person(request))
    except BenchmarkRequestError as error:
        raise conflict("not_measured", error) from error
    return Status(CREATED, BenchmarkOut.from_benchmark(_find(made.pk)))


def _ask(server: Server, given: BenchmarkIn, *, by: User) -> Benchmark:
    """Raises BenchmarkRequestError."""
    gives_way = given.gives_way
    if given.custom:
        return commands.ask_custom(server, _read_points(given.custom), by=by, gives_way=gives_way)
    if given.replay:
        at = given.replay.hour
        hour = (at if at.tzinfo else timezone.make_aware(at)).replace(
            minute=0, second=0, microsecond=0
        )
        pace, is_random = given.replay.pace, given.replay.is_random
        return commands.ask_replay(
            server, hour, pace=pace, is_random=is_random, by=by, gives_way=gives_way
        )
    return commands.ask(server, given.preset, by=by, gives_way=gives_way)


def _read_points(given: CustomIn) -> CustomPoints:
    """Within the limits of the form. Raises ApiError."""
    said = {
        name: ", ".join(map(str, value)) if isinstance(value, list) else value
        for name, value in given.dict().items()
    }
    form = CustomForm(said)
    if form.is_valid():
        points: CustomPoints = form.cleaned_data["points"]
        return points
    raise _invalid(
        "; ".join(
            " ".join(map(str, errors))
            if name == "__all__"
            else f"{name}: {' '.join(map(str, errors))}"
            for name, errors in form.errors.items()
        )
    )


def _invalid(message: str) -> ApiError:
    return ApiError(UNPROCESSABLE, "invalid", message, "See openapi.json.")


@router.serve("GET", "/hours/{server}", Permission.VIEW, list[HourOut], 404)
def hours(request: HttpRequest, server: str) -> list[HourOut]:
    """Hours whose requests can be replayed, the newest first."""
    found = find_named(Server.objects.for_dashboard(), "server", server)
    return [HourOut(hour=at, requests=count) for at, count in list_hours(found.slug)]


@router.serve("GET", "/{pk}", Permission.VIEW, BenchmarkOut, 404)
async def one(request: HttpRequest, pk: int, seen: str = "", wait: float = 0.0) -> BenchmarkOut:
    """How far it is, and what was measured.

    With `wait`, the answer is held back for up to so many seconds while its mark is still `seen`.
    """
    return await wait_for_change(lambda: _look(pk), seen=seen, wait=wait, kinds=["benchmarks"])


@router.serve("POST", "/{pk}/stop", Permission.OPERATE, BenchmarkOut, 404)
def stop(request: HttpRequest, pk: int) -> BenchmarkOut:
    """The points that are whole are kept."""
    commands.stop(_find(pk), by=person(request))
    return BenchmarkOut.from_benchmark(_find(pk))


@router.serve("GET", "/{pk}/compare/{other}", Permission.VIEW, list[DifferenceOut], 404)
def compare(request: HttpRequest, pk: int, other: int) -> list[DifferenceOut]:
    """What `other` has changed, of each point and figure that both have."""
    before, after = read_points(_find(pk)), read_points(_find(other))
    return [
        DifferenceOut(
            point=each.point.label,
            figure=each.figure.key,
            before=each.before,
            after=each.after,
            change=each.difference.change,
            low=each.difference.low if each.interval else None,
            high=each.difference.high if each.interval else None,
            verdict=each.verdict,
        )
        for each in compare_points(before, after)
    ]


@router.serve("GET", "/{pk}/export/{form}", Permission.VIEW, {}, 404)
def export_result(request: HttpRequest, pk: int, form: str) -> HttpResponse:
    """As json, csv, markdown, svg, or card: for another inferdash."""
    if form not in export.FORMS:
        raise Http404(f"A result cannot be exported as {form}: {', '.join(export.FORMS)}.")
    try:
        text = export.export_text(_find(pk), form)
    except ValueError as error:
        raise Http404(str(error)) from error
    return HttpResponse(text, content_type=f"{export.FORMS[form].content_type}; charset=utf-8")


def _look(pk: int) -> BenchmarkOut:
    found = _find(pk)
    return BenchmarkOut.from_benchmark(found, read_points(found))


def _find(pk: int) -> Benchmark:
    return find_one(Benchmark.objects.with_details(), f"There is no result {pk}.", pk=pk)
