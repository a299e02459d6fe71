"""Results from elsewhere: kept as files bring them, to be compared with own ones, and deleted."""

import dataclasses

from django.db import transaction
from django.utils import timezone

from servers.judge.benchmarks.cards import UploadError
from servers.judge.benchmarks.imports import read_upload
from servers.judge.benchmarks.points import PointConditions
from servers.models import AuditEntry, Benchmark, BenchmarkPoint, User
from servers.models.benchmarks import MOST_RESULTS, BenchmarkOutcome

LARGEST = 4 * 2**20  # bytes of a file


def keep(data: bytes, *, by: User) -> Benchmark:
    """Raises UploadError."""
    if len(data) > LARGEST:
        raise UploadError(f"It is larger than {LARGEST // 2**20} MiB.")
    found = read_upload(data)
    if Benchmark.objects.exclude(source="").count() >= MOST_RESULTS:
        raise UploadError(f"There are {MOST_RESULTS} uploaded results. Delete some first.")
    at = min(found.at or timezone.now(), timezone.now())
    with transaction.atomic():
        made = Benchmark.objects.create(
            source=found.source, server_name=found.subject[:80], by=by, preset=found.preset,
            title=found.title[:80], preset_version=min(found.preset_version, 32767), asked_at=at,
            begun_at=at, ended_at=at, outcome=BenchmarkOutcome.WHOLE, measured_on=dict(found.on),
            # Other programs do not say what else happened meanwhile.
            is_clean=None if found.source != "card" else not any(p.taints for p in found.points),
        )  # fmt: skip
        for place, point in enumerate(found.points):
            conditions = point.conditions or (PointConditions(),) * len(point.rounds)
            BenchmarkPoint.objects.create(
                benchmark=made, place=place, name=point.name, concurrency=point.concurrency,
                prompt_tokens=point.prompt_tokens, output_tokens=point.output_tokens,
                rounds=[
                    {
                        "at": at.timestamp(),
                        "figures": dataclasses.asdict(figures),
                        "conditions": dataclasses.asdict(seen),
                    }
                    for figures, seen in zip(point.rounds, conditions, strict=True)
                ],
                taints=list(point.taints),
            )  # fmt: skip
        AuditEntry.note(by, "upload result", str(made))
    return made


def delete(benchmark: Benchmark, *, by: User) -> bool:
    """Whether it was one that came as a file: own results stay."""
    if not benchmark.source:
        return False
    AuditEntry.note(by, "delete result", str(benchmark))
    benchmark.delete()
    return True
