"""Recipes: what could run here, and the overlays that change a profile as a set."""

from dataclasses import dataclass

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods

from servers.launch.engines import change
from servers.launch.recipes import document
from servers.launch.recipes.catalogue import Catalogue, Overlay, Recipe, catalogue
from servers.launch.recipes.document import HardwareFit
from servers.models import Box, EnvironmentGroup, Permission, Profile
from servers.views.access import PersonRequest, allow
from servers.views.profiles.environments import find_group
from servers.views.profiles.profiles import find, save_launch


@dataclass(frozen=True, kw_only=True)
class RecipeRow:
    recipe: Recipe
    fits: list[tuple[Box, HardwareFit]]

    @property
    def fits_somewhere(self) -> bool:
        return any(fit.is_fit for _box, fit in self.fits)


def read_catalogue() -> Catalogue:
    return catalogue(settings.RECIPES)


@require_GET
@allow(Permission.VIEW)
def recipes(request: PersonRequest) -> HttpResponse:
    """Those that fit a box come first; ?all= shows the others too."""
    known = read_catalogue()
    rows = [_row(each) for each in known.recipes]
    rows.sort(key=lambda row: (not row.fits_somewhere, row.recipe.published.name))
    shows_all = "all" in request.GET or not any(row.fits_somewhere for row in rows)
    return render(
        request,
        "profiles/recipes/list.html",
        {
            "rows": [row for row in rows if shows_all or row.fits_somewhere],
            "hidden": 0 if shows_all else sum(not row.fits_somewhere for row in rows),
            "broken": known.broken,
        },
    )


@require_GET
@allow(Permission.VIEW)
def recipe(request: PersonRequest, key: str) -> HttpResponse:
    found = find_recipe(key)
    launch = found.published.launch
    migrations = [
        (migration, change.compare_launches(launch, found.launch(migration)))
        for migration in found.migrated
    ]
    context = {"row": _row(found), "recipe": found, "launch": launch, "migrations": migrations}
    return render(request, "profiles/recipes/recipe.html", context)


def find_recipe(key: str) -> Recipe:
    for each in read_catalogue().recipes:
        if each.id == key:
            return each
    raise Http404(f"There is no recipe {key}.")


def _row(each: Recipe) -> RecipeRow:
    return RecipeRow(recipe=each, fits=[(box, _fit(each, box)) for box in Box.objects.all()])


def _fit(each: Recipe, box: Box) -> HardwareFit:
    if box.gpus is None:
        return HardwareFit(is_fit=False, sentence="its GPUs are not known yet")
    cards = [(card["name"] or "", card["compute_capability"] or "") for card in box.gpus]
    return document.fits_hardware(each.published, cards)


@require_GET
@allow(Permission.EDIT)
def profile_overlays(request: PersonRequest, slug: str) -> HttpResponse:
    found = find(request, slug)
    launch = found.launch
    fitting = [each for each in read_catalogue().overlays if each.is_for(launch)]
    groups = [
        (each, each.change.apply(launch) == launch)
        for each in EnvironmentGroup.objects.select_related("current")
        if each.is_for(launch)
    ]
    context = {"profile": found, "overlays": fitting, "groups": groups}
    return render(request, "profiles/recipes/overlays.html", context)


@require_http_methods(["GET", "POST"])
@allow(Permission.EDIT)
def profile_overlay(request: PersonRequest, slug: str, key: str) -> HttpResponse:
    """What an overlay would change, and the save that changes it."""
    found = find(request, slug)
    overlay = next((each for each in read_catalogue().overlays if each.id == key), None)
    if overlay is None or not overlay.is_for(found.launch):
        raise Http404(f"There is no overlay {key} for this profile.")
    return _laid_over(request, found, overlay)


@require_http_methods(["GET", "POST"])
@allow(Permission.EDIT)
def profile_group(request: PersonRequest, slug: str, key: str) -> HttpResponse:
    """The same for an environment group."""
    found, group = find(request, slug), find_group(key)
    if not group.is_for(found.launch):
        raise Http404(f"{group} is for another engine than {found}.")
    said = f"{group.name}, version {group.current.number}" if group.current else group.name
    overlay = Overlay(
        id=group.slug,
        name=said,
        notes=group.notes,
        engine=group.engine,
        change=group.change,
        is_own=True,
    )
    return _laid_over(request, found, overlay)


def _laid_over(request: PersonRequest, found: Profile, overlay: Overlay) -> HttpResponse:
    differences = change.compare_launches(found.launch, overlay.change.apply(found.launch))
    if request.method == "POST":
        _lay_over(request, found, overlay, has_effect=bool(differences))
        return redirect("profile", slug=found.slug)
    context = {"profile": found, "overlay": overlay, "differences": differences}
    return render(request, "profiles/recipes/overlay.html", context)


def _lay_over(
    request: PersonRequest, found: Profile, overlay: Overlay, *, has_effect: bool
) -> None:
    if not has_effect:
        messages.info(request, f"{found} says all of “{overlay.name}” already.")
        return
    launch = overlay.change.apply(found.launch)
    version = save_launch(
        found, launch, by=request.user, message=f"Laid over: {overlay.name}", action="lay over"
    )
    messages.success(request, f"Saved as version {version.number}, with “{overlay.name}”.")
