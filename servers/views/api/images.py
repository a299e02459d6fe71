"""Images in the boxes’ Docker: what lies there, what is newer elsewhere; pulled, moved, removed."""

from datetime import datetime
from typing import Any, Literal

from django.http import Http404, HttpRequest
from ninja import P, Schema, Status
from ninja.params import QueryEx
from pydantic import Field

from servers.forms.image import PullForm
from servers.lifecycle.images import inventory, newer_builds, work
from servers.lifecycle.images.inventory import PruneDecision
from servers.lifecycle.jobs import commands
from servers.models import Box, HostResources, ImageJob, Permission, StoredImage, TagNews, User
from servers.views.api.boxes import find_box
from servers.views.api.operations import (
    ApiError,
    KeyRouter,
    find_named,
    find_one,
    person,
    wait_for_change,
)
from servers.views.api.schemas import RowOut
from servers.views.images.images import ImageRow, TagUpdate, list_tag_updates, rows
from servers.views.images.jobs import check_may_change


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


router = KeyRouter("images")
OK, CREATED, ACCEPTED, CONFLICT, UNPROCESSABLE = 200, 201, 202, 409, 422
_MOST_IMAGES = 100
_SHORT = 12  # letters of an id, as Docker lists it
_BUSY = "It is being pulled or moved already."
_WAIT = "Wait until that has ended: GET /image-jobs."


class PullIn(Schema):
    reference: str = Field(max_length=300, description="ghcr.io/org/name:tag, or with @sha256:…")
    box: str = Field(default="", max_length=63, description="“” is enough where there is one box.")
    newer: bool = Field(
        default=False,
        description="The newer build of a tag, beside the image that the tag means.",
    )


class MoveIn(Schema):
    reference: str = Field(
        max_length=500, description="The tag, as the list of newer builds has it."
    )
    to: Literal["newer", "before"]


@router.serve("GET", "/boxes/{slug}/images", Permission.VIEW, list[ImageOut], 404)
def images(request: HttpRequest, slug: str) -> list[ImageOut]:
    """What lies in its Docker, as its watcher has last seen it, the largest first."""
    box = find_named(Box.objects.all(), "box", slug)
    fates = {each.image.pk: each for each in inventory.fates(box)}
    found = rows(box, person(request), HostResources.objects.find(box))
    found.sort(key=lambda row: -row.image.size)
    return [ImageOut.from_row(row, fates.get(row.image.pk)) for row in found]


@router.serve("DELETE", "/boxes/{slug}/images", Permission.ADMINISTER, {202: ImageJobOut}, 404, 409)
def remove(
    request: HttpRequest,
    slug: str,
    image: QueryEx[list[str], P(min_length=1, max_length=_MOST_IMAGES)],
) -> Status[ImageJobOut]:
    """Have the box remove images, by id or name; never one that something needs."""
    box = find_named(Box.objects.all(), "box", slug)
    wanted = [_find_image(box, each) for each in image]
    fates = {each.image.pk: each for each in inventory.fates(box)}
    for each in wanted:
        fate = fates.get(each.pk)
        if fate is None or not fate.may_go:
            why = fate.why if fate else NO_ENGINE
            raise ApiError(CONFLICT, "needed", f"{each} stays: {why}.", "Leave it out.")
    ids = list(dict.fromkeys(each.image_id for each in wanted))
    job = work.ask_to_prune(box, ids, by=person(request))
    if job is None:
        raise ApiError(CONFLICT, "busy", f"Somebody makes room on {box} already.", _WAIT)
    return Status(ACCEPTED, ImageJobOut.from_job(_find(job.pk, person(request))))


def _find_image(box: Box, called: str) -> StoredImage:
    every = list(StoredImage.objects.filter(box=box))
    named = inventory.by_name(every).get(called)
    short = called.removeprefix("sha256:")
    if named is not None:
        return named
    found = [each for each in every if each.image_id.removeprefix("sha256:").startswith(short)]
    if len(short) < _SHORT or len(found) != 1:
        raise Http404(f"{box} has no image {called}.")
    return found[0]


@router.serve("GET", "/boxes/{slug}/images/newer", Permission.VIEW, list[NewerOut], 404)
def newer(request: HttpRequest, slug: str) -> list[NewerOut]:
    """Tags of profiles with a newer build, with one to go back to, or that could not be asked about."""
    box = find_named(Box.objects.all(), "box", slug)
    return [NewerOut.from_update(each) for each in list_tag_updates(box, person(request))]


@router.serve("POST", "/boxes/{slug}/images/newer", Permission.OPERATE, {204: None}, 404)
def ask_registries(request: HttpRequest, slug: str) -> Status[None]:
    """Have the box ask the registries now what the tags of its profiles mean there."""
    newer_builds.want(find_named(Box.objects.all(), "box", slug))
    return Status(204, None)


@router.serve("POST", "/boxes/{slug}/images/move", Permission.EDIT, {202: ImageJobOut}, 404, 409)
def move(request: HttpRequest, slug: str, given: MoveIn) -> Status[ImageJobOut]:
    """Have a tag mean its newer build, or what it meant before; what runs is not touched."""
    box = find_named(Box.objects.all(), "box", slug)
    known = _news(box, given.reference)
    target = known.newer_id if given.to == "newer" else known.before_id
    if not target:
        said = f"{box} has no {'newer build' if given.to == 'newer' else 'earlier image'} of {known.reference}."
        raise ApiError(CONFLICT, "no_image", said, "Pull the newer build first: POST /image-jobs.")
    job = work.ask_to_move(box, known.reference, target, by=person(request))
    if job is None:
        raise ApiError(CONFLICT, "busy", _BUSY, _WAIT)
    return Status(ACCEPTED, ImageJobOut.from_job(_find(job.pk, person(request))))


def _news(box: Box, reference: str) -> TagNews:
    missing = f"Nothing is known of a newer build of {reference} on {box}."
    return find_one(TagNews.objects.all(), missing, box=box, reference=reference)


@router.serve("GET", "/image-jobs", Permission.VIEW, list[ImageJobOut])
def image_jobs(request: HttpRequest) -> list[ImageJobOut]:
    """Pulls, builds, moved tags and removals: what goes on, and what has ended in the last day."""
    found = ImageJob.objects.for_page().seen_by(person(request)).select_related("box", "asked_by")
    return [ImageJobOut.from_job(each) for each in found]


@router.serve(
    "POST", "/image-jobs", Permission.EDIT, {200: ImageJobOut, 201: ImageJobOut}, 404, 409, 422
)
def pull(request: HttpRequest, given: PullIn) -> Status[ImageJobOut]:
    """Ask for an image; 200 where the same is on its way already."""
    box, form = find_box(given.box), PullForm({"reference": given.reference})
    if not form.is_valid():
        said = " ".join(str(each) for each in form.errors.get("reference", ()))
        raise ApiError(UNPROCESSABLE, "invalid", said, "Write it as docker pull wants it.")
    reference, digest = form.cleaned_data["reference"], ""
    if given.newer:
        known = _news(box, reference)
        if not known.has_newer:
            raise ApiError(CONFLICT, "no_newer", f"Its registry has no newer {reference}.")
        digest = known.digest
    job = work.ask_to_pull(box, reference, digest=digest, by=person(request))
    if job is None:
        there = ImageJob.objects.open().get(box=box, what=reference, kind=ImageJob.Kind.PULL)
        return Status(OK, ImageJobOut.from_job(there))
    return Status(CREATED, ImageJobOut.from_job(_find(job.pk, person(request))))


@router.serve("GET", "/image-jobs/{pk}", Permission.VIEW, ImageJobOut, 404)
async def image_job(
    request: HttpRequest, pk: int, seen: str = "", wait: float = 0.0
) -> ImageJobOut:
    """How far it is.

    With `wait`, the answer is held back for up to so many seconds while its mark is still `seen`.
    """
    by = person(request)
    return await wait_for_change(
        lambda: ImageJobOut.from_job(_find(pk, by)), seen=seen, wait=wait, kinds=["jobs"]
    )


@router.serve("POST", "/image-jobs/{pk}/cancel", Permission.EDIT, ImageJobOut, 403, 404)
def cancel(request: HttpRequest, pk: int) -> ImageJobOut:
    """Nothing happens to one that has ended. What stays of a pull, it says itself."""
    by = person(request)
    job = _find(pk, by)
    check_may_change(job, by)
    commands.cancel(job, by=by)
    return ImageJobOut.from_job(_find(pk, by))


@router.serve("POST", "/image-jobs/{pk}/go-on", Permission.EDIT, ImageJobOut, 403, 404, 409)
def go_on(request: HttpRequest, pk: int) -> ImageJobOut:
    """Do what it is held for all the same."""
    by = person(request)
    job = _find(pk, by)
    check_may_change(job, by)
    if not commands.go_on(job, by=by):
        raise ApiError(CONFLICT, "not_held", "Nothing holds it.")
    return ImageJobOut.from_job(_find(pk, by))


def _find(pk: int, by: User) -> ImageJob:
    seen = ImageJob.objects.seen_by(by).select_related("box", "asked_by", "version")
    return find_one(seen, f"There is no pull or other job on images {pk}.", pk=pk)
