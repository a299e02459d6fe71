"""Checks of a launch before it costs twenty minutes: in the form, on the page, at the start."""

import json
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any, cast

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from servers import lifecycle, tasks
from servers.forms.profile import ProfileForm, initial
from servers.judge.profiles import vocabulary
from servers.judge.profiles.facts import LintFinding, Subject
from servers.launch.engines.launch import Launch
from servers.lifecycle.profiles import checks, preflight
from servers.lifecycle.profiles.knowledge import LaunchContext, describe_subject
from servers.models import Box, Permission, Profile, ProfileVersion
from servers.views.access import PersonRequest, post
from servers.views.profiles.profile_form import build_parts, render_form
from servers.views.profiles.profiles import find, save_launch

ANSWERS_WITHIN = 4  # seconds
# A form asks a box that does not answer this often, some three minutes in all.
TRIES = 20


@post("profiles/check/", Permission.EDIT)
def profile_check(request: PersonRequest) -> HttpResponse:
    """What the form's launch would run into, and the command that it amounts to."""
    form, profile = _form(request)
    start = _read_context(form, profile) if form.is_valid() else None
    beside = build_parts(form, start)
    if not form.is_valid():
        found = {"faults": form.faults(), "marks": _marks(form, _read_vocabulary(form, profile))}
        return render(request, "profiles/form/check.html", found | beside)
    marks = _marks(form, start)
    around: dict[str, Any] = {}
    if start is not None:
        tasks.look_at_mounts(start)
        checked = preflight.check(start)
        around = {
            "asks_checkpoint": start.lacks_checkpoint_facts,
            "preview": lifecycle.preview(start),
            "image": start.image,
            "stored": start.find_stored(),
        }
    else:
        checked = preflight.anywhere(form.unsaved_launch())
    found = {"marks": marks, "checked": checked, "fit": checked.fit}
    return render(request, "profiles/form/check.html", found | beside | around | _places(start))


def _vocabulary(form: ProfileForm) -> Launch:
    """What decides about flags and variables, whatever else is still to be filled in."""
    said = form.cleaned_data
    return Launch(
        engine=said.get("engine", ""),
        image=said.get("image", ""),
        checkpoint="",
        flags=said.get("flags", ()),
        env=said.get("env", {}),
        parameters=said.get("parameters", {}),
    )


def _read_vocabulary(form: ProfileForm, profile: Profile | None) -> LaunchContext | None:
    box = _box(form, profile)
    return LaunchContext(_vocabulary(form), box) if box is not None else None


def _marks(form: ProfileForm, start: LaunchContext | None) -> str:
    """JSON for the boxes of flags and variables.

    A box that cannot be read has null: what was told of its words stays.
    """
    said, launch = form.cleaned_data, _vocabulary(form)
    found: list[vocabulary.WordMark] = []
    if launch.engine:
        subject = Subject(launch=launch)
        if start is not None:
            subject = describe_subject(launch, start.box, start.image, None)
        found = vocabulary.find_marks(subject)
    return json.dumps(
        {
            name: [asdict(each) for each in found if each.box == name] if name in said else None
            for name in ("flags", "env")
        }
    )


@post("profiles/paths/", Permission.EDIT)
def profile_paths(request: PersonRequest) -> HttpResponse:
    """Which folders and files of the form's launch its box has."""
    form, profile = _form(request)
    if not form.is_valid():
        return HttpResponse()
    context = _read_context(form, profile)
    if context is not None and context.folders is None:
        tasks.ask_for_paths(context.box, context.needed_paths)
        context.wait_for_answer(context.paths_question, seconds=ANSWERS_WITHIN)
    box = context.box if context is not None else None
    asked = {"box": box, "was_asked": True, "next_try": _next_try(request)}
    return render(request, "profiles/_places.html", _places(context) | asked)


@post("profiles/fit/", Permission.EDIT)
def profile_fit(request: PersonRequest) -> HttpResponse:
    """Whether the form's launch fits, once its box has looked at the checkpoint."""
    form, profile = _form(request)
    if not form.is_valid():
        return HttpResponse()
    context = _read_context(form, profile)
    if context is None:
        return HttpResponse()
    _ask_for_model(context)
    values = {
        "box": context.box,
        "fit": checks.check_start(context).fit,
        "is_silent": context.lacks_checkpoint_facts,
        "next_try": _next_try(request),
    }
    return render(request, "profiles/_form_fit.html", values)


def _next_try(request: PersonRequest) -> int:
    """Which one it is; 0 after the last."""
    tried = request.GET.get("try", "1")
    number = int(tried) if tried.isascii() and tried.isdigit() and len(tried) < 3 else TRIES
    return number + 1 if number < TRIES else 0


def _ask_for_model(context: LaunchContext) -> None:
    """What its box says of a checkpoint that nobody has looked for is kept for a minute."""
    if context.lacks_checkpoint_facts:
        tasks.ask_for_checkpoint(context.box, context.source)
        context.wait_for_answer(context.checkpoint_question, seconds=ANSWERS_WITHIN)


def _places(context: LaunchContext | None) -> dict[str, Any]:
    """`places` is None while the box has not said."""
    if context is None or not context.needed_paths:
        return {}
    return {"wanted": context.needed_paths, "places": context.folders}


@post("profiles/fix/<slug:rule>/", Permission.EDIT)
def profile_fix_form(request: PersonRequest, rule: str) -> HttpResponse:
    """The form again, with a finding's fix applied to what is typed. Nothing is saved."""
    form, profile = _form(request)
    if form.is_valid():
        launch, start = form.unsaved_launch(), _read_context(form, profile)
        if rule == checks.RULE and start is not None:
            _ask_for_model(start)
        reports = [checks.check_start(start) if start is not None else checks.anywhere(launch)]
        fix = _find_finding(request, rule, reports).fix
        if fix is not None:
            typed = {name: form.cleaned_data["env"][name] for name in launch.secret_env}
            changed = replace(fix.apply(launch), secret_env={})
            kept = {name: typed[name] for name in fix.apply(launch).secret_env}
            values = form.collect_typed() | initial(changed, secrets=kept)
            form = ProfileForm(person=request.user, profile=profile, initial=values)
    return render_form(request, form, profile, is_changed=True)


@post("profiles/<slug:slug>/fix/<slug:rule>/", Permission.OPERATE)
def profile_fix(request: PersonRequest, slug: str, rule: str) -> HttpResponse:
    """Save a published fix as a new version: what an operator may do without an editor."""
    found = find(request, slug)
    box = get_object_or_404(Box, slug=request.POST.get("box", ""))
    placed = found.servers.filter(box=box).select_related("box")
    starts = list(map(LaunchContext.of_server, placed))
    version = apply_fix(request, found, rule, starts or [LaunchContext(found.launch, box, found)])
    messages.success(request, f"Saved as version {version.number}, with the fix.")
    return redirect("profile", slug=found.slug)


def apply_fix(
    request: PersonRequest, profile: Profile, rule: str, starts: list[LaunchContext]
) -> ProfileVersion:
    """Save what a check of these starts advises as the profile's newest version. Raises Http404."""
    finding = _find_finding(request, rule, map(checks.check_start, starts))
    if finding.fix is None:
        raise Http404(f"{rule} has no fix.")
    launch = finding.fix.apply(profile.launch)
    return save_launch(profile, launch, by=request.user, message=f"Fix: {rule}", action="apply fix")


def _form(request: PersonRequest) -> tuple[ProfileForm, Profile | None]:
    slug = request.POST.get("profile", "")
    profile = find(request, slug) if slug else None
    form = ProfileForm(request.POST, person=request.user, profile=profile)
    return form, profile


def _box(form: ProfileForm, profile: Profile | None) -> Box | None:
    """The box that the form's launch is for; None where the profile has none."""
    return profile.first_box if profile else cast(Box | None, form.cleaned_data.get("box"))


def _read_context(form: ProfileForm, profile: Profile | None) -> LaunchContext | None:
    """Of what is typed, on the box that it is for."""
    box = _box(form, profile)
    return LaunchContext(form.unsaved_launch(), box, profile) if box is not None else None


def _find_finding(
    request: PersonRequest, rule: str, reports: Iterable[checks.CheckReport]
) -> LintFinding:
    """The first that fits of these. One rule may find several things: ?about= says which."""
    about = request.GET.get("about", "")
    for report in reports:
        for each in report.every:
            if each.rule == rule and each.about == about:
                return each
    raise Http404(f"{rule} has nothing to say about {about or 'this profile'} any more.")
