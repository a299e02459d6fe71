"""Events on images and pulls for open pages."""

from django.template.loader import render_to_string

from servers.models import ImageFacts, ImageInventory, ImageJob, RegistryCredential, TagChecks

type Key = tuple[str, int | None]

PAGES = ("images", "job", "logins", "profile")


def images_mark() -> str:
    """Another text whenever the list of images would read otherwise."""
    tables = (ImageInventory, TagChecks, ImageFacts)
    return " ".join(each.objects.mark() for each in tables)


def jobs_mark() -> str:
    logins = RegistryCredential.objects.order_by("pk").values_list("test_wanted_at", "tested_at")
    return f"{ImageJob.objects.mark()} {' '.join(str(each) for row in logins for each in row)}"


def parts(keys: set[Key], page: str) -> list[str]:
    """The fragments of a page that have changed. A profile's page has a mark of images of its own."""
    if page not in PAGES:
        return []
    found: list[str] = []
    everything = ("everything", None) in keys
    if everything or ("jobs", None) in keys:
        found.append(render_to_string("images/_live_jobs_mark.html", {"mark": jobs_mark()}))
    if page == "images" and (everything or ("images", None) in keys):
        found.append(render_to_string("images/_live_mark.html", {"mark": images_mark()}))
    return found
