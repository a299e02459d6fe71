"""Choices that the profile form offers while one types: flags of the image that will run, models and images."""

from dataclasses import dataclass, replace
from typing import Any, Literal

from django.http import Http404, JsonResponse
from django.shortcuts import get_object_or_404

from servers.judge.profiles.vocabulary import ENV_PREFIXES
from servers.judge.weights import checkpoints as judge
from servers.launch import numbers
from servers.launch.engines import ENGINES
from servers.launch.engines.flaglist import (
    Flag,
    FlagList,
    all_shipped,
    load_shipped,
    newest,
    of_image,
)
from servers.launch.engines.launch import Launch
from servers.lifecycle.weights import inventory
from servers.models import Box, HostResources, ImageFacts, Permission, StoredCheckpoint
from servers.templatetags.format import gib
from servers.views.access import PersonRequest, get
from servers.views.profiles.profiles import find


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
