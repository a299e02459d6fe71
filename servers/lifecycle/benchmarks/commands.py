"""Commands on check-ups: what people ask of them."""

from django.db import transaction

from servers.judge.benchmarks.presets import load_presets
from servers.lifecycle.benchmarks.subject import refuse
from servers.lifecycle.jobs import commands
from servers.models import Benchmark, BenchmarkJob, CanaryJob, Server, User
from servers.models.jobs import JobKind


class BenchmarkRequestError(Exception):
    """A check-up that cannot be done; the text says why."""


def ask(server: Server, preset: str, *, by: User) -> Benchmark:
    """Have a server measured by its box. Raises BenchmarkRequestError."""
    wanted = load_presets().get(preset)
    if wanted is None:
        known = ", ".join(load_presets())
        raise BenchmarkRequestError(f"There is no check-up “{preset[:40]}”, only {known}.")
    run = server.run
    if why := refuse(run):
        raise BenchmarkRequestError(f"{server.slug} cannot be measured. {why}")
    assert run is not None
    with transaction.atomic():
        job = None
        if not CanaryJob.objects.open().filter(box=server.box).exists():
            job = commands.ask(
                BenchmarkJob, server.box, JobKind.BENCHMARK, by=by, what=server.slug,
                params={"run": run.pk, "preset": preset}, preset=preset,
            )  # fmt: skip
        if job is None:
            raise BenchmarkRequestError(
                f"Another check-up is under way on {server.box}: a second one would disturb it. "
                "Wait for its end, or stop it."
            )
        return Benchmark.objects.create(
            box=server.box, server=server, server_name=server.slug, run=run,
            version=run.version, job=job, by=by, preset=preset, title=wanted.title,
            preset_version=wanted.version,
        )  # fmt: skip


def stop(benchmark: Benchmark, *, by: User) -> bool:
    """Whether it was still going on. What is whole is kept."""
    return benchmark.job is not None and commands.cancel(benchmark.job, by=by)
