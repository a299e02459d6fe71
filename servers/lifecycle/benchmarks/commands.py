"""Commands on check-ups: what people ask of them."""

from django.db import transaction

from servers.judge.benchmarks.presets import load_presets
from servers.lifecycle.benchmarks.subject import refuse
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
    if not gives_way and (by is None or not by.may_edit):
        raise BenchmarkRequestError(
            "Only an editor may have a check-up that does not give way to other people."
        )
    wanted = load_presets().get(preset)
    if wanted is None:
        known = ", ".join(load_presets())
        raise BenchmarkRequestError(f"There is no check-up “{preset[:40]}”, only {known}.")
    run = server.run
    if why := refuse(run):
        raise BenchmarkRequestError(f"{server.slug} cannot be measured. {why}")
    assert run is not None
    params = {"run": run.pk, "preset": preset, "gives_way": gives_way}
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
            raise BenchmarkRequestError(
                f"Another check-up is under way on {server.box}: a second one would disturb it. "
                "Wait for its end, or stop it."
            )
        return Benchmark.objects.create(
            box=server.box, server=server, server_name=server.slug, run=run,
            version=run.version, job=job, by=by, after_start=after_start, preset=preset, title=wanted.title,
            preset_version=wanted.version,
        )  # fmt: skip


def stop(benchmark: Benchmark, *, by: User | None) -> bool:
    """Whether it was still going on. What is whole is kept."""
    return benchmark.job is not None and commands.cancel(benchmark.job, by=by)
