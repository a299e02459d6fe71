"""Schemas of images. Sizes are bytes, spans seconds; null: unknown, or not applicable."""

from datetime import datetime
from typing import Any

from ninja import Schema

from servers.lifecycle.images.inventory import PruneDecision
from servers.models import ImageJob
from servers.views.api.schemas import RowOut
from servers.views.images.images import ImageRow, TagUpdate


class ImageOut(RowOut):
    id: str
    names: list[str]
    digests: list[str]
    size: int
    shared: int | None  # of that, with other images
    made_at: datetime | None
    architecture: str
    is_other_kind: bool  # made for other processors than its box has
    cuda: str
    engine: str  # vllm, sglang, …; "": none is known in it
    version: str  # of the engine, with its name; "" without one
    version_by: str  # "asked" for what the image said itself, else what it is taken from
    profiles: list[str]  # whose next start would take it
    hidden_profiles: int  # more of them, which this key may not see
    running: list[str]  # servers
    others: list[str]  # containers that are not inferdash's
    worked: list[str]  # profiles whose last good run had it
    last_used: datetime | None  # by inferdash
    may_go: bool
    is_ours: bool  # brought here by inferdash
    why: str  # it may go, or not

    @classmethod
    def from_row(cls, row: ImageRow, fate: PruneDecision | None) -> "ImageOut":
        image, uses = row.image, row.uses
        return cls.from_same(
            image,
            id=image.image_id,
            names=image.given_tags,
            is_other_kind=row.is_other_kind,
            version=row.version,
            version_by="asked" if row.is_asked else row.how,
            profiles=[each.slug for each in uses.profiles],
            hidden_profiles=uses.hidden,
            running=[each.slug for each in uses.running],
            others=[each["name"] for each in uses.others],
            worked=[each.slug for each in uses.worked],
            last_used=uses.last_used,
            may_go=fate is not None and fate.may_go,
            is_ours=fate is not None and fate.is_ours,
            why=fate.why if fate is not None else NO_ENGINE,
        )


NO_ENGINE = "it holds no engine, and somebody else brought it here"


class NewerForOut(Schema):
    """What a newer build would mean for a server."""

    server: str
    verdict: str  # same, renamed, changed, cannot, unknown
    says: str
    problems: list[str]  # errors that today's image does not have


class NewerOut(RowOut):
    """A tag of profiles whose registry has something else by now, or that can go back."""

    reference: str
    has_newer: bool
    digest: str
    noticed_at: datetime | None
    checked_at: datetime | None
    error: str  # why the registry could not be asked
    newer_id: str  # once it is on the box, beside what the tag means; "" before
    before_id: str  # what the tag meant until somebody moved it
    says: str  # "4 start as they are, 1 needs a flag renamed"
    servers: list[NewerForOut]

    @classmethod
    def from_update(cls, told: TagUpdate) -> "NewerOut":
        news = told.news
        return cls.from_same(
            news,
            says=told.sentence,
            servers=[
                NewerForOut(
                    server=each.server.slug,
                    verdict=each.verdict.kind,
                    says=each.verdict.why or each.verdict.says,
                    problems=[str(found.says) for found in each.verdict.fresh],
                )
                for each in told.checked
            ],
        )


class ImageJobOut(RowOut):
    id: int
    kind: str  # pull, build, move, prune
    box: str
    reference: str  # "" of a prune
    digest: str  # of a newer build that comes beside what the tag means; "" otherwise
    state: str  # asked, doing, held, done, failed, cancelled
    is_unwanted: bool  # somebody has cancelled it, and it is ending
    says: str  # what came of it; of one that is held what speaks against it
    done: int  # bytes of a pull, steps of a build
    total: int | None  # of a pull what Docker has begun so far, unless is_whole
    is_whole: bool
    percent: int | None
    rate: float | None  # bytes a second
    left: float | None
    is_unpacking: bool  # everything has come
    layers: list[dict[str, Any]]
    image_id: str
    asked_by: str | None
    asked_at: datetime
    ended_at: datetime | None
    mark: str  # another text whenever people are shown something else

    @classmethod
    def from_job(cls, job: ImageJob) -> "ImageJobOut":
        return cls.from_same(
            job,
            id=job.pk,
            box=job.box.slug,
            is_unwanted=job.cancel_requested,
            says=job.said,
            left=job.left.total_seconds() if job.left else None,
            is_unpacking=job.unpacking,
            asked_by=job.asked_by.username if job.asked_by else None,
        )
