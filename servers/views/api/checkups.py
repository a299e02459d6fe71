"""Check-ups as the API tells of them: what those of speed and those of answers have in common."""

from datetime import datetime
from typing import Any, Self

from ninja import Schema
from pydantic import Field

from servers.models import Benchmark, BenchmarkJob, Canary, CanaryJob
from servers.views.api.operations import ApiError
from servers.views.api.schemas import RowOut

CREATED, CONFLICT = 201, 409
MOST = 100  # in a list


class CheckupIn(Schema):
    server: str = Field(max_length=80)
    gives_way: bool = True  # to other people's requests; an editor's key may say false


class CheckupOut(RowOut):
    id: int
    server: str
    state: str  # waiting, measuring, paused, stopping, done, stopped, limit reached, failed
    is_open: bool
    says: str  # why it is not whole
    done: int  # rounds, or items
    total: int | None
    left: float | None  # seconds, about
    asked_by: str | None  # null: it began by itself, or came as a file
    asked_at: datetime
    ended_at: datetime | None
    measured_on: dict[str, Any]
    mark: str  # another text whenever people are shown something else

    @classmethod
    def from_checkup(
        cls,
        found: Benchmark | Canary,
        job: BenchmarkJob | CanaryJob | None,
        *,
        seen: object = "",
        **others: Any,
    ) -> Self:
        """`job` while it is open. `seen`: what else people are shown when it is over."""
        return cls.from_same(
            found,
            id=found.pk,
            server=found.server_name,
            says=found.why,
            done=job.done if job else 0,
            total=job.total if job else None,
            left=job.left if job else None,
            asked_by=found.by.username if found.by else None,
            mark=f"{found.state} {job.changed_at.isoformat() if job else found.ended_at} {seen}",
            **others,
        )


def conflict(code: str, error: Exception) -> ApiError:
    return ApiError(CONFLICT, code, str(error))
