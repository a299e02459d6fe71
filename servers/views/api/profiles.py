"""Profiles: read, taken along, brought in."""

from typing import Any

from asgiref.sync import sync_to_async
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from ninja import Schema, Status

from servers import tasks
from servers.forms import profile as values
from servers.forms.profile import ProfileForm
from servers.launch.recipes.document import Document
from servers.lifecycle.runs import box_choice
from servers.models import Box, Permission, Profile, Server
from servers.models.profiles import ProfileFilter
from servers.views.api import imports
from servers.views.api.boxes import find_box
from servers.views.api.operations import ApiError, KeyRouter, find_named, person
from servers.views.api.schemas import ServerOut
from servers.views.profiles import profile_form
from servers.views.profiles import profiles as profiles_profiles
from servers.views.profiles.paste import run_apart
from servers.views.profiles.profiles import save_launch

router = KeyRouter("profiles")
CREATED, CONFLICT, UNPROCESSABLE = 201, 409, 422


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
    def from_profile(cls, profile: Profile) -> "ProfileOut":
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


class ImportedOut(ProfileOut):
    remarks: list[str] = []  # what was assumed and left out of a docker run line or compose file


class ImportIn(Schema):
    document: str  # inferdash's YAML or JSON, a docker run line, or a compose file
    name: str = ""  # of a new profile, instead of its own
    box: str = ""  # where it is placed; "" is enough where there is one box
    message: str = ""  # of a new version: what is new


@router.serve("GET", "", Permission.VIEW, list[ProfileOut])
def profiles(request: HttpRequest, q: str = "") -> list[ProfileOut]:
    found = Profile.objects.for_list(person(request), ProfileFilter(text=q[:200]))
    return [ProfileOut.from_profile(each) for each in found]


@router.serve("GET", "/{slug}", Permission.VIEW, ProfileOut, 404)
def profile(request: HttpRequest, slug: str) -> ProfileOut:
    return ProfileOut.from_profile(_find(request, slug))


@router.serve("GET", "/{slug}/export/{form}", Permission.VIEW, {}, 404)
def export(request: HttpRequest, slug: str, form: str) -> HttpResponse:
    """As docker, compose, yaml or json. Values of secrets stay here."""
    if form not in profiles_profiles.FORMS:
        raise Http404(
            f"A profile cannot be exported as {form}: {', '.join(profiles_profiles.FORMS)}."
        )
    text = profiles_profiles.export_text(_find(request, slug), form)
    return HttpResponse(
        text, content_type=f"{profiles_profiles.FORMS[form].content_type}; charset=utf-8"
    )


@router.serve("POST", "", Permission.EDIT, {201: ImportedOut}, 403, 404, 422)
async def bring(request: HttpRequest, given: ImportIn) -> Status[ImportedOut]:
    """Make a profile of a document, a docker run line or a compose file."""
    read = await run_apart(imports.read, given.document, imports.page(request))
    return await sync_to_async(_bring)(request, given, read)


def _bring(request: HttpRequest, given: ImportIn, read: imports.Import) -> Status[ImportedOut]:
    box = find_box(given.box)
    form = _form(request, given, read, box)
    if not form.is_valid():
        said = " ".join(f"{name}: {' '.join(map(str, each))}" for name, each in form.errors.items())
        raise ApiError(UNPROCESSABLE, "invalid", said, _advice(form), **form.errors)
    return Status(CREATED, _describe_import(profile_form.create(form, by=person(request)), read))


@router.serve("PUT", "/{slug}", Permission.EDIT, ImportedOut, 403, 404, 422)
async def replace(request: HttpRequest, slug: str, given: ImportIn) -> ImportedOut:
    """Make the document's launch the profile's newest version; secrets are kept, and so is what a
    docker run line or a compose file has no words for."""
    # Whoever may not see it learns of no mistakes first.
    kept = (await sync_to_async(_find)(request, slug)).launch
    read = await run_apart(imports.read_upon, kept, given.document, imports.page(request))
    return await sync_to_async(_replace)(request, slug, given, read)


def _replace(
    request: HttpRequest, slug: str, given: ImportIn, read: imports.Replacement
) -> ImportedOut:
    found = _find(request, slug)
    launch = read.launch
    if read.missing:
        raise ApiError(
            UNPROCESSABLE,
            "invalid",
            f"{found.slug} has no secret {', '.join(read.missing)}.",
            f"Give it one on {request.build_absolute_uri(reverse('profile_edit', args=[slug]))}, "
            "or leave the variable out.",
        )
    if not launch.checkpoint and launch.serves_models:
        message = "It names no model."
        raise ApiError(UNPROCESSABLE, "invalid", message, "Write one into the command.")
    if launch != found.launch:
        message = given.message[:200] or "Brought in from a document"
        save_launch(found, launch, by=person(request), message=message, action="import profile")
    return _describe_import(_find(request, slug), read)


def _describe_import(profile: Profile, read: imports.Import | imports.Replacement) -> ImportedOut:
    return ImportedOut(**ProfileOut.from_profile(profile).dict(), remarks=read.remarks)


def _form(request: HttpRequest, given: ImportIn, read: imports.Import, box: Box) -> ProfileForm:
    """The form that a person would send who has changed nothing of what the document says."""
    found = read.found
    if isinstance(found, Document):
        initial: dict[str, Any] = profile_form.of_document(found, found.launch)
    else:
        initial = {"name": found.name, **values.initial(found.launch, secrets=found.secrets)}
    initial |= {"box": box.pk} | ({"name": given.name} if given.name else {})
    shown = ProfileForm(person=person(request), initial=initial)
    typed = {each.html_name: each.value() for each in shown}
    sent = {name: value for name, value in typed.items() if value not in (None, False)}
    return ProfileForm(sent, person=person(request))


def _advice(form: ProfileForm) -> str:
    if "name" in form.errors:
        return (
            "Send another “name” (in the terminal: --name NAME), or make it the next version of "
            "that profile (--into PROFILE)."
        )
    return "Change the document."


def _find(request: HttpRequest, slug: str) -> Profile:
    seen = Profile.objects.seen_by(person(request)).select_related("current", "owner")
    return find_named(seen, "profile", slug)


class PlacedOut(ServerOut):
    placed: str  # which box it became, and why

    @classmethod
    def from_placed(cls, server: Server, placed: str) -> "PlacedOut":
        return cls(**ServerOut.from_server(server).dict(), placed=placed)


@router.serve("POST", "/{slug}/start", Permission.OPERATE, PlacedOut, 404, 409)
def start(request: HttpRequest, slug: str) -> PlacedOut:
    """Start it on any box that fits: where there is room now, else where the queue is shortest."""
    found = find_named(Profile.objects.seen_by(person(request)), "profile", slug)
    try:
        run = box_choice.start_anywhere(found, by=person(request))
    except box_choice.BoxChoiceError as error:
        raise ApiError(CONFLICT, "fits_nowhere", str(error)) from error
    tasks.nudge(run)
    server = Server.objects.for_dashboard().get(pk=run.server_id)
    return PlacedOut.from_placed(server, str(run.start.around["placed"]))
