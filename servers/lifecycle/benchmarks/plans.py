"""Plans of check-ups: a preset, an editor's own points, or the requests of an hour of the past."""

import random
from datetime import datetime, timedelta

from django.db.models import Count
from django.db.models.functions import TruncHour

from servers.judge.benchmarks import custom, engine_bench, replay
from servers.judge.benchmarks.custom import CustomPoints
from servers.judge.benchmarks.presets import BenchmarkPreset, load_presets
from servers.judge.benchmarks.replay import PastRequest
from servers.launch.engines import ENGINES
from servers.models import BenchmarkJob, Request, Run
from servers.models.gateway.request import RequestQuerySet

HOUR = timedelta(hours=1)
HOURS = 48  # to choose from, the newest first


def find_preset(job: BenchmarkJob) -> BenchmarkPreset | None:
    """None where there is nothing to measure any more."""
    if job.preset == custom.KEY:
        return custom.build_custom(CustomPoints.from_json(job.custom))
    if job.preset == replay.KEY:
        return build_replay(
            job.what, datetime.fromisoformat(job.replay["hour"]), pace=job.replay["pace"],
            is_random=job.replay["is_random"],
        )  # fmt: skip
    if job.preset == engine_bench.KEY:
        run = Run.objects.filter(pk=job.run).select_related("version", "plan").first()
        bench = engine_bench.find_bench(ENGINES[run.launch.engine]) if run else None
        return engine_bench.build_preset(bench) if bench else None
    return load_presets().get(job.preset)


def list_hours(server: str) -> list[tuple[datetime, int]]:
    """Hours in which the gateway sent requests to it, with how many."""
    by_hour = _find_requests(server).order_by().annotate(hour=TruncHour("at"))
    counted = by_hour.values("hour").annotate(count=Count("pk")).order_by("-hour")
    return list(counted.values_list("hour", "count")[:HOURS])


def build_replay(
    server: str, hour: datetime, *, pace: float, is_random: bool
) -> BenchmarkPreset | None:
    """None where the hour has no requests whose lengths are known."""
    found = _find_requests(server).filter(at__gte=hour, at__lt=hour + HOUR).order_by("at", "pk")
    names = "at", "key", "person", "prompt_tokens", "completion_tokens", "cached_tokens"
    past = [
        PastRequest(
            at=at.timestamp(), asker=(key, person), prompt_tokens=prompt, output_tokens=output,
            cached_tokens=cached,
        )
        for at, key, person, prompt, output, cached in found.values_list(*names)[: replay.MOST]
    ]  # fmt: skip
    chance = random.Random(int(hour.timestamp()))  # noqa: S311 - moments, no secrets
    return replay.build_replay(past, pace=pace, is_random=is_random, chance=chance)


def _find_requests(server: str) -> RequestQuerySet:
    """Those that were answered, with both lengths; never one of a check-up: they take another way."""
    return Request.objects.filter(
        server=server, status=200, path__endswith="/chat/completions", prompt_tokens__gt=0,
        completion_tokens__gt=0,
    )  # fmt: skip
