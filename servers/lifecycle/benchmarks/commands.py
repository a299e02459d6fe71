"""Commands on check-ups: what people ask of them."""

from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from servers.judge.benchmarks import custom, engine_bench, replay
from servers.judge.benchmarks.custom import CustomPoints
from servers.judge.benchmarks.presets import load_presets
from servers.launch.engines import ENGINES
from servers.lifecycle.benchmarks.plans import build_replay
from servers.lifecycle.benchmarks.subject import explain_busy, refuse
from servers.lifecycle.jobs import commands
from servers.models import Benchmark, BenchmarkJob, Box, CanaryJob, Server, User
from servers.models.jobs import JobKind


class BenchmarkRequestError(Exception):
    """A check-up that cannot be done; the text says why."""


def ask(
    server: Server,
    preset: str,
    *,
    by: User | None,
    gives_way: bool = True,
    after_start: bool = False,
) -> Benchmark:
    """Have a server measured by its box; `after_start`: its profile wants it.

    One that does not give way to people's requests, nor to another server's check-up, is an
    editor's to ask for. Raises BenchmarkRequestError.
    """
    if preset == engine_bench.KEY:
        return _ask_engine_bench(server, by=by, gives_way=gives_way)
    wanted = load_presets().get(preset)
    if wanted is None:
        known = ", ".join([*load_presets(), engine_bench.KEY])
        raise BenchmarkRequestError(f"There is no check-up “{preset[:40]}”, only {known}.")
    return _ask(
        server, preset, wanted.title, wanted.version, by=by, gives_way=gives_way,
        after_start=after_start,
    )  # fmt: skip


def _ask_engine_bench(server: Server, *, by: User | None, gives_way: bool) -> Benchmark:
    run = server.run
    bench = engine_bench.find_bench(ENGINES[run.version.launch.engine]) if run else None
    if run is not None and bench is None:
        title = ENGINES[run.version.launch.engine].title
        raise BenchmarkRequestError(f"{title} brings no program that measures it.")
    title = bench.title if bench else ""
    return _ask(server, engine_bench.KEY, title, engine_bench.VERSION, by=by, gives_way=gives_way)


def ask_custom(
    server: Server, points: CustomPoints, *, by: User, gives_way: bool = True
) -> Benchmark:
    """The same with an editor's own points. Raises BenchmarkRequestError."""
    if not by.may_edit:
        raise BenchmarkRequestError("Only an editor may choose the points of a check-up.")
    return _ask(
        server, custom.KEY, "Custom", custom.VERSION, by=by, gives_way=gives_way,
        custom=points.to_json(),
    )  # fmt: skip


def ask_replay(
    server: Server,
    hour: datetime,
    *,
    pace: float,
    is_random: bool,
    by: User,
    gives_way: bool = True,
) -> Benchmark:
    """The same with the requests of an hour of the past. Raises BenchmarkRequestError."""
    if build_replay(server.slug, hour, pace=pace, is_random=is_random) is None:
        raise BenchmarkRequestError(
            f"The gateway knows of no request to {server.slug} in that hour."
        )
    return _ask(
        server, replay.KEY, f"Replay of {timezone.localtime(hour):%-d %b %H:%M}", replay.VERSION,
        by=by, gives_way=gives_way,
        replay={"hour": hour.isoformat(), "pace": pace, "is_random": is_random},
    )  # fmt: skip


def _ask(
    server: Server,
    preset: str,
    title: str,
    version: int,
    *,
    by: User | None,
    gives_way: bool,
    after_start: bool = False,
    **params: Any,
) -> Benchmark:
    if not gives_way and (by is None or not by.may_edit):
        raise BenchmarkRequestError(
            "Only an editor may have a check-up that does not give way to other people."
        )
    run = server.run
    if why := refuse(run):
        raise BenchmarkRequestError(f"{server.slug} cannot be measured. {why}")
    assert run is not None
    params |= {"run": run.pk, "preset": preset, "gives_way": gives_way}
    with transaction.atomic():
        Box.objects.select_for_update().get(pk=server.box_id)  # two browsers at once
        going = Benchmark.objects.filter_open().filter(box=server.box)
        if not gives_way:  # it may go on beside that of another server
            going = going.filter(server=server)
        answers = CanaryJob.objects.open().filter(box=server.box)
        job = None
        if not going.exists() and not answers.exists():
            job = commands.ask(
                BenchmarkJob, server.box, JobKind.BENCHMARK, by=by, what=server.slug,
                target="" if gives_way else server.slug, params=params, preset=preset,
                gives_way=gives_way,
            )  # fmt: skip
        if job is None:
            raise BenchmarkRequestError(explain_busy(server.box))
        return Benchmark.objects.create(
            box=server.box, server=server, server_name=server.slug, run=run,
            version=run.version, job=job, by=by, after_start=after_start, preset=preset,
            title=title, preset_version=version,
        )  # fmt: skip


def stop(benchmark: Benchmark, *, by: User | None) -> bool:
    """Whether it was still going on. What is whole is kept."""
    return benchmark.job is not None and commands.cancel(benchmark.job, by=by)
