"""Downloads of models from the Hub: asked for, followed, paused, cancelled."""

from datetime import datetime

from django.http import HttpRequest
from ninja import Schema, Status
from pydantic import Field

from servers.lifecycle.weights import downloads as weights_downloads
from servers.lifecycle.weights.downloads import DownloadRequestError
from servers.models import Download, Permission
from servers.views.api.boxes import find_box
from servers.views.api.operations import ApiError, KeyRouter, find_one, person, wait_for_change
from servers.views.api.schemas import RowOut

router = KeyRouter("downloads")
OK, CREATED, UNPROCESSABLE = 200, 201, 422
MOST_BYTES = 2**50


class DownloadIn(Schema):
    model: str = Field(
        max_length=500,
        description="Its id, with a quantization if you like (org/name:Q4_K_M), or its page's address.",
    )
    revision: str = Field(default="", max_length=200, description="“”: main.")
    box: str = Field(default="", max_length=63, description="“” is enough where there is one box.")
    files: list[str] = Field(
        default=[],
        max_length=weights_downloads.MOST_PATTERNS,
        description="Names, with * in them; none: what engines load.",
    )
    into: str = Field(
        default="",
        max_length=1000,
        description="A folder with models of the box; “”: its Hugging Face cache.",
    )
    limit: int = Field(default=0, ge=0, le=MOST_BYTES, description="Bytes a second; 0: none.")


class CancelIn(Schema):
    delete_parts: bool = Field(default=False, description="Also what is unfinished on the disk.")


class LimitIn(Schema):
    limit: int = Field(ge=0, le=MOST_BYTES, description="Bytes a second; 0: none.")


class DownloadOut(RowOut):
    id: int
    model: str
    revision: str
    commit: str  # what the revision was when it began; "" before that
    box: str
    folder: str  # of the box; "" until it is known
    state: str  # waiting, checking, downloading, verifying, paused, done, failed, cancelled
    wanted: str  # go, paused, cancelled
    done: int
    total: int | None
    percent: int | None
    rate: float | None  # bytes a second
    left: float | None  # seconds
    limit: int
    trouble: str  # it tries on
    says: str  # what came of it
    advice: str
    asked_by: str | None
    asked_at: datetime
    ended_at: datetime | None
    mark: str  # another text whenever people are shown something else

    @classmethod
    def from_download(cls, found: Download) -> "DownloadOut":
        return cls.from_same(
            found,
            id=found.pk,
            model=found.repository,
            box=found.box.slug,
            state=found.status,
            says=found.said,
            asked_by=found.asked_by.username if found.asked_by else None,
        )


@router.serve("GET", "", Permission.VIEW, list[DownloadOut])
def downloads(request: HttpRequest) -> list[DownloadOut]:
    """What goes on, then what came of those of the last day."""
    return [DownloadOut.from_download(each) for each in Download.objects.for_page()]


@router.serve("POST", "", Permission.OPERATE, {200: DownloadOut, 201: DownloadOut}, 422)
def download(request: HttpRequest, given: DownloadIn) -> Status[DownloadOut]:
    """Ask for a model; 200 where the same is on its way already."""
    box = find_box(given.box)
    try:
        wish = weights_downloads.read_request(
            given.model,
            revision=given.revision,
            patterns=given.files,
            into=given.into,
            limit=given.limit,
        )
        made, is_new = weights_downloads.ask(box, wish, by=person(request))
    except DownloadRequestError as error:
        raise ApiError(UNPROCESSABLE, "invalid", str(error)) from error
    return Status(CREATED if is_new else OK, DownloadOut.from_download(_find(made.pk)))


@router.serve("GET", "/{pk}", Permission.VIEW, DownloadOut, 404)
async def one(request: HttpRequest, pk: int, seen: str = "", wait: float = 0.0) -> DownloadOut:
    """How far it is.

    With `wait`, the answer is held back for up to so many seconds while its mark is still `seen`.
    """
    return await wait_for_change(
        lambda: DownloadOut.from_download(_find(pk)), seen=seen, wait=wait, kinds=["downloads"]
    )


@router.serve("POST", "/{pk}/pause", Permission.OPERATE, DownloadOut, 404)
def pause(request: HttpRequest, pk: int) -> DownloadOut:
    """What is there stays."""
    weights_downloads.pause(_find(pk), by=person(request))
    return DownloadOut.from_download(_find(pk))


@router.serve("POST", "/{pk}/resume", Permission.OPERATE, DownloadOut, 404)
def resume(request: HttpRequest, pk: int) -> DownloadOut:
    """Go on with one that is paused, or try one again that has failed or was cancelled."""
    weights_downloads.resume(_find(pk), by=person(request))
    return DownloadOut.from_download(_find(pk))


@router.serve("POST", "/{pk}/cancel", Permission.OPERATE, DownloadOut, 404)
def cancel(request: HttpRequest, pk: int, how: CancelIn | None = None) -> DownloadOut:
    """Files that are whole stay in any case."""
    drops = bool(how and how.delete_parts)
    weights_downloads.cancel(_find(pk), by=person(request), drop_parts=drops)
    return DownloadOut.from_download(_find(pk))


@router.serve("POST", "/{pk}/limit", Permission.OPERATE, DownloadOut, 404)
def limit(request: HttpRequest, pk: int, how: LimitIn) -> DownloadOut:
    """How fast it may come, from now on."""
    weights_downloads.limit(_find(pk), how.limit, by=person(request))
    return DownloadOut.from_download(_find(pk))


def _find(pk: int) -> Download:
    rows = Download.objects.select_related("box", "asked_by")
    return find_one(rows, f"There is no download {pk}.", pk=pk)
