"""The form that makes and changes profiles, and its choices of flags, models and images."""

import itertools
from dataclasses import dataclass, replace
from typing import Any, Literal

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.text import slugify

from servers import events
from servers.contexts.profile_form import describe_gpus
from servers.forms.profile import ProfileForm, initial
from servers.judge.profiles.vocabulary import ENV_PREFIXES
from servers.judge.weights import checkpoints as judge
from servers.launch import numbers
from servers.launch.engines import ENGINES, change
from servers.launch.engines.flaglist import (
    Flag,
    FlagList,
    all_shipped,
    load_shipped,
    newest,
    of_image,
)
from servers.launch.engines.launch import Launch
from servers.launch.recipes.document import Document
from servers.lifecycle.profiles.knowledge import LaunchContext
from servers.lifecycle.weights import inventory
from servers.models import (
    AuditEntry,
    Box,
    HostResources,
    ImageFacts,
    Permission,
    Profile,
    Server,
    StoredCheckpoint,
    User,
)
from servers.models.people.key import MASK
from servers.models.profiles import Stale
from servers.state import samples
from servers.templatetags.format import gib
from servers.views.access import PersonRequest, get, get_or_post
from servers.views.profiles.profiles import describe_unversioned, find
from servers.views.profiles.recipes import find_recipe
from servers.views.runs import starts


@get_or_post("profiles/new/", Permission.EDIT)
def profile_new(request: PersonRequest) -> HttpResponse:
    person = request.user
    source = Profile.objects.seen_by(person).filter(slug=request.GET.get("from", "")).first()
    form = ProfileForm(
        request.POST or None, person=person, copied_from=source, initial=_read_source(request)
    )
    if request.method == "POST" and form.is_valid():
        made = create(form, by=person)
        return _go_on(request, made)
    return render_form(request, form)


def render_form(
    request: PersonRequest, form: ProfileForm, profile: Profile | None = None, **more: object
) -> HttpResponse:
    context = {
        **build_parts(form),
        "profile": profile,
        "has_box": Box.objects.exists(),
        "mask": MASK,
        "may_start": find_startable(request.user, profile),
    }
    return render(request, "profiles/form.html", context | more)


def build_parts(form: ProfileForm, known: LaunchContext | None = None) -> dict[str, Any]:
    """The form and the GPUs of its box, whose newest sample may be read already."""
    box, choice = form.read_box(), None
    if box is not None:
        sample = known.sample if known is not None else samples.newest(box.slug)
        choice = describe_gpus(box, str(form["gpus"].value() or ""), sample)
    return {"form": form, "sections": form.sections(), "box": box, "choice": choice}


def find_startable(person: User, profile: Profile | None) -> bool:
    """Whether a save may go on to a start: of a new profile, or of the only server of one."""
    if not person.may_operate:
        return False
    servers = list(profile.servers.select_related("run")[:2]) if profile else []
    return profile is None or (len(servers) == 1 and servers[0].can_start)


def _go_on(request: PersonRequest, saved: Profile) -> HttpResponse:
    """To the profile; after “Save and start” to its server, whose page begins the start."""
    server = saved.servers.first()
    if "start" not in request.POST or server is None or not request.user.may_operate:
        return redirect("profile", slug=saved.slug)
    starts.plan_start(request, server)
    return redirect("server", slug=server.slug)


def _read_source(request: PersonRequest) -> dict[str, Any] | None:
    """What ?recipe= or ?model= stand for."""
    pk = request.GET.get("model", "")
    if pk.isdecimal() and len(pk) < 10:
        found = get_object_or_404(StoredCheckpoint.objects.select_related("box"), pk=pk)
        return {
            "name": find_free_name(inventory.title(found)),
            "box": found.box,
            **initial(inventory.launch(found)),
        }
    return _of_recipe(request)


def _of_recipe(request: PersonRequest) -> dict[str, Any] | None:
    """What the recipe says that ?recipe= names, with the changes that ?migration= counts."""
    if "recipe" not in request.GET:
        return None
    found = find_recipe(request.GET["recipe"])
    at = request.GET.get("migration", "")
    is_there = at.isdecimal() and len(at) < 4 and int(at) < len(found.migrated)
    launch = found.launch(found.migrated[int(at)] if is_there else None)
    return of_document(found.published, launch)


def of_document(document: Document, launch: Launch) -> dict[str, Any]:
    """The form's values; of secrets the names alone."""
    return {
        "name": find_free_name(document.name),
        "notes": document.notes,
        "source": document.source.url,
        "tags": " ".join(document.tags),
        **initial(launch, secrets=dict.fromkeys(document.secrets, "")),
    }


def find_free_name(name: str) -> str:
    """The name, with a number behind it where a profile has it already."""
    taken = set(Profile.objects.values_list("slug", flat=True))
    tried = (f"{name[:90]} {number}" if number > 1 else name for number in itertools.count(1))
    return next(each for each in tried if slugify(each)[:63] not in taken)


def create(form: ProfileForm, *, by: User) -> Profile:
    with transaction.atomic():
        slug = form.slug_of(form.cleaned_data["name"])
        made = Profile.objects.create(slug=slug, owner=by, **form.describe())
        made.save_version(form.launch(), by=by, message="First version")
        Server.objects.create(slug=made.slug, profile=made, box=form.cleaned_data["box"])
        AuditEntry.note(by, "create profile", made)
        inventory.look_soon(made)
    events.publish_change("servers")
    return made


@get_or_post("profiles/<slug:slug>/edit/", Permission.EDIT)
def profile_edit(request: PersonRequest, slug: str) -> HttpResponse:
    found = find(request, slug)
    form = ProfileForm(request.POST or None, person=request.user, profile=found)
    more: dict[str, object] = {}
    if request.method == "POST" and form.is_valid():
        try:
            _save(request, found, form)
        except Stale:
            found = find(request, slug)
            form.build_upon(found)
            more["conflict"] = _theirs_and_mine(found, form)
        else:
            events.publish_change("servers")
            return _go_on(request, found)
    return render_form(request, form, found, **more)


def _save(request: PersonRequest, found: Profile, form: ProfileForm) -> None:
    """Raises Stale when somebody else has saved since the form was opened."""
    person = request.user
    with transaction.atomic():
        before = found.save_about(form.describe(), saves=form.cleaned_data["saves"])
        launch = form.launch()
        if launch == found.launch:
            messages.success(request, describe_unversioned(form, before, found.current))
        else:
            version = found.save_version(launch, by=person, message=form.cleaned_data["message"])
            messages.success(
                request, f"Saved as version {version.number}. It is used from the next start."
            )
        AuditEntry.note(person, "edit profile", found)
        inventory.look_soon(found)


def _theirs_and_mine(found: Profile, form: ProfileForm) -> list[change.Difference]:
    """What saving what stands in the form would change of what somebody else has saved."""
    theirs, mine = found.about, form.describe()
    about = [
        change.Difference(part=name, name=name, before=str(theirs[name]), after=str(mine[name]))
        for name in theirs
        if theirs[name] != mine[name]
    ]
    with transaction.atomic():
        launch = form.launch()
        # It has sealed secrets that nobody has saved yet.
        transaction.set_rollback(True)
    return about + change.compare_launches(found.launch, launch)


@dataclass(frozen=True, kw_only=True)
class ImageFlags:
    flags: FlagList
    is_exact: bool  # else another version's, to go by until the image is asked
    asked: Literal["", "answered", "failed"] = ""


@get("profiles/flags.json", Permission.EDIT)
def profile_flags(request: PersonRequest) -> JsonResponse:
    """The flags, variables and earlier names of ?engine= in ?image= on a box.

    As the form says it: ?box= of a new profile, ?profile= of one that is on a box already.
    """
    engine, image = request.GET.get("engine", ""), request.GET.get("image", "").strip()
    if engine not in ENGINES:
        raise Http404(f"“{engine}” is not an engine. inferdash knows {', '.join(ENGINES)}.")
    if not ENGINES[engine].serves_models:
        return JsonResponse(_build_empty(engine))
    known = flaglist_for(engine, image, _box(request))
    return JsonResponse(_lean(known))


def flaglist_for(engine: str, image: str, box: Box | None) -> ImageFlags:
    """The one place that chooses whose flags are shown."""
    asked = ImageFacts.objects.find_named(engine, image, box) if box is not None else None
    version = (asked.version if asked else "") or of_image(engine, image)
    own = asked.flaglist if asked else None
    found = own or load_shipped(engine, version)
    return ImageFlags(
        flags=found or newest(engine),
        is_exact=found is not None,
        asked="answered" if own else ("failed" if asked and asked.asked_at else ""),
    )


def _box(request: PersonRequest) -> Box | None:
    slug, box = request.GET.get("profile", ""), request.GET.get("box", "")
    if slug:
        return find(request, slug).first_box
    return Box.objects.filter(pk=numbers.whole(box) or 0).first()


def _lean(known: ImageFlags) -> dict[str, Any]:
    flags = known.flags
    if flags.env is None and (same := load_shipped(flags.engine, flags.version)) is not None:
        flags = replace(flags, env=same.env)  # --help does not tell which variables are read
    said = flags.to_json() | {
        "title": ENGINES[flags.engine].title,
        "is_exact": known.is_exact,
        "asked": known.asked,
        "env_prefixes": ENV_PREFIXES[flags.engine],
        "written": _list_own_flags(flags.engine),
        "lent": _borrow_help(flags),
    }
    if flags.env is None:
        said["lent_env"] = _lent_env(flags)
    return said


def _build_empty(engine: str) -> dict[str, Any]:
    """Of what is no engine that inferdash knows: its words are its own."""
    said = FlagList(engine=engine, version="", flags=()).to_json()
    own = {"title": ENGINES[engine].title, "is_exact": False, "asked": "", "env_prefixes": []}
    return said | own | {"written": [], "lent": {}}


def _list_own_flags(engine: str) -> list[str]:
    """Flags that inferdash writes itself, from the form's other fields."""
    found = set[str]()
    for checkpoint in ("user/model", "/model.gguf"):
        launch = Launch(
            engine=engine,
            image="image",
            checkpoint=checkpoint,
            revision="main",
            served_name="name",
            port=1,
        )
        found |= {word for word in ENGINES[engine].own_flags(launch, "host", ()) if word[0] == "-"}
    return sorted(found)


def _borrow_help(flags: FlagList) -> dict[str, Any]:
    """What other versions say of flags of which this one's list has only the names.

    It helps whoever writes a value; it proves nothing about this version.
    """
    others = [each for each in all_shipped(flags.engine) if each.version != flags.version]
    lent = {}
    for flag in flags.flags:
        if flag.takes == "none" or _is_told(flag):
            continue
        for other in others:
            found = other.find(flag.name)
            if found is not None and flag.name in found.names and _is_told(found):
                lent[flag.name] = found.to_json() | {"version": other.version}
                break
    return lent


def _is_told(flag: Flag) -> bool:
    return bool(flag.choices or flag.known or flag.default or flag.help)


def _lent_env(flags: FlagList) -> dict[str, Any] | None:
    for other in all_shipped(flags.engine):
        if other.env is not None:
            return {"version": other.version, "names": sorted(other.env)}
    return None


_MODEL_STATES = {"complete": "complete", "partial": "not complete"}


@get("profiles/models.json", Permission.EDIT)
def profile_models(request: PersonRequest) -> JsonResponse:
    """Those on the box's disks, as the combobox of models lists them."""
    box = _find_box(request)
    stored = box.checkpoints.filter(is_adapter=False).defer("texts")
    options = [_describe(each, box) for each in stored if each.state in _MODEL_STATES]
    return JsonResponse(
        {
            "options": options,
            "empty": f"Not on {box.slug}: the first start downloads it from Hugging Face.",
        }
    )


def _describe(stored: StoredCheckpoint, box: Box) -> dict[str, Any]:
    source = inventory.describe_source(stored)
    room = judge.room(stored.weights, box.gpus)
    told = (
        gib(stored.size),
        judge.quantization(stored.config) or stored.format,
        _MODEL_STATES[stored.state],
        room.words if room else "",
    )
    return {
        "value": source["checkpoint"],
        "name": stored.name,
        "detail": " · ".join(filter(None, told)),
        "sets": {"revision": source["revision"]},
        "adds": {"volumes": "\n".join(source["volumes"])},
    }


@get("profiles/images.json", Permission.EDIT)
def profile_images(request: PersonRequest) -> JsonResponse:
    """Those in the box's Docker that profiles name, or that have told their flags."""
    box = _find_box(request)
    told = {each.reference: each for each in box.image_facts.exclude(version="").defer("flags")}
    found = HostResources.objects.by_box().get(box.pk)
    there = [name for name, facts in (found.images if found else {}).items() if facts]
    options = [
        {"value": name, "name": name, "detail": told[name].title if name in told else ""}
        for name in sorted({*there, *told})
    ]
    return JsonResponse(
        {"options": options, "empty": f"Not on {box.slug}: the first start pulls it."}
    )


def _find_box(request: PersonRequest) -> Box:
    return get_object_or_404(Box, pk=numbers.whole(request.GET.get("box", "")) or 0)
