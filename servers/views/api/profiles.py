"""Profiles: read, taken along, brought in."""

from typing import Any

from asgiref.sync import sync_to_async
from django.http import Http404, HttpRequest, HttpResponse
from ninja import Router, Schema, Status

from servers.forms.profile import ProfileForm
from servers.models import Box, Permission, Profile
from servers.models.profile import Wanted
from servers.recipes import document
from servers.recipes.mapping import DocumentError
from servers.views import exports, profile_form
from servers.views.apart import apart
from servers.views.api import named
from servers.views.api.auth import ByKey, ByKeyAsync, person
from servers.views.api.boxes import chosen
from servers.views.api.errors import ApiError, Problem
from servers.views.profiles import save_launch

router = Router()
CREATED, UNPROCESSABLE = 201, 422


class ProfileOut(Schema):
    slug: str
    name: str
    version: int
    engine: str
    image: str
    model: str
    owner: str | None
    tags: list[str]
    servers: list[str]

    @classmethod
    def of(cls, profile: Profile) -> "ProfileOut":
        launch, current = profile.launch, profile.current
        return cls(
            slug=profile.slug,
            name=profile.name,
            version=current.number if current else 0,
            engine=launch.engine,
            image=launch.image,
            model=launch.checkpoint,
            owner=profile.owner.username if profile.owner else None,
            tags=list(profile.tag_list),
            servers=[server.slug for server in profile.servers.all() if not server.removed_at],
        )


class ImportIn(Schema):
    document: str  # a profile in inferdash's YAML or JSON
    box: str = ""  # where it is placed; "" is enough where there is one box
    message: str = ""  # of a new version: what is new


@router.get("", response=list[ProfileOut], auth=ByKey(Permission.VIEW))
def profiles(request: HttpRequest, q: str = "") -> list[ProfileOut]:
    found = Profile.objects.for_list(person(request), Wanted(text=q[:200]))
    return [ProfileOut.of(each) for each in found]


@router.get("/{slug}", response={200: ProfileOut, 404: Problem}, auth=ByKey(Permission.VIEW))
def profile(request: HttpRequest, slug: str) -> ProfileOut:
    return ProfileOut.of(_find(request, slug))


@router.get("/{slug}/export/{form}", response={404: Problem}, auth=ByKey(Permission.VIEW))
def export(request: HttpRequest, slug: str, form: str) -> HttpResponse:
    """As docker, compose, yaml or json. Values of secrets stay here."""
    if form not in exports.FORMS:
        raise Http404(f"A profile cannot be exported as {form}: {', '.join(exports.FORMS)}.")
    text = exports.text(_find(request, slug), form)
    return HttpResponse(text, content_type=f"{exports.FORMS[form].content_type}; charset=utf-8")


@router.post(
    "",
    response={201: ProfileOut, 403: Problem, 404: Problem, 422: Problem},
    auth=ByKeyAsync(Permission.EDIT),
)
async def bring(request: HttpRequest, given: ImportIn) -> Status[ProfileOut]:
    """Make a profile of a document."""
    read = await apart(_read, given.document)
    return await sync_to_async(_bring)(request, given, read)


def _bring(request: HttpRequest, given: ImportIn, read: document.Document) -> Status[ProfileOut]:
    box = chosen(given.box)
    form = _form(request, read, box)
    if not form.is_valid():
        raise ApiError(UNPROCESSABLE, "invalid", _said(form), "Change the document.", **form.errors)
    return Status(CREATED, ProfileOut.of(profile_form.create(form, by=person(request))))


@router.put(
    "/{slug}",
    response={200: ProfileOut, 403: Problem, 404: Problem, 422: Problem},
    auth=ByKeyAsync(Permission.EDIT),
)
async def replace(request: HttpRequest, slug: str, given: ImportIn) -> ProfileOut:
    """Make the document's launch the profile's newest version; secrets are kept."""
    await sync_to_async(_find)(request, slug)  # whoever may not see it learns of no mistakes first
    read = await apart(_read, given.document)
    return await sync_to_async(_replace)(request, slug, given, read)


def _replace(
    request: HttpRequest, slug: str, given: ImportIn, read: document.Document
) -> ProfileOut:
    found = _find(request, slug)
    launch = exports.with_secrets(read.launch, found.launch)
    if launch != found.launch:
        message = given.message[:200] or "Brought in from a document"
        save_launch(request, found, launch, message=message, action="import profile")
    return ProfileOut.of(_find(request, slug))


def _read(text: str) -> document.Document:
    try:
        return document.read(text, where="The document")
    except DocumentError as error:
        raise ApiError(UNPROCESSABLE, "invalid", str(error), "Change the document.") from error


def _form(request: HttpRequest, read: document.Document, box: Box) -> ProfileForm:
    """The form that a person would send who has changed nothing of what the document says."""
    initial: dict[str, Any] = profile_form.of_document(read, read.launch) | {"box": box.pk}
    shown = ProfileForm(person=person(request), initial=initial)
    values = {each.html_name: each.value() for each in shown}
    given = {name: value for name, value in values.items() if value not in (None, False)}
    return ProfileForm(given, person=person(request))


def _said(form: ProfileForm) -> str:
    return " ".join(f"{name}: {' '.join(map(str, said))}" for name, said in form.errors.items())


def _find(request: HttpRequest, slug: str) -> Profile:
    seen = Profile.objects.seen_by(person(request)).select_related("current", "owner")
    return named.find(seen, "profile", slug)
