"""Progress of downloads, in every page that lists them."""

from django.template.loader import render_to_string

from servers.models import Download, User

type Key = tuple[str, int | None]


def parts(keys: set[Key], person: User, page: str) -> list[str]:
    """The fragments of a page that have changed."""
    is_about = ("everything", None) in keys or ("downloads", None) in keys
    if page != "models" or not is_about:
        return []
    context = {"downloads": Download.objects.for_page(), "person": person}
    return [render_to_string("weights/_live_downloads.html", context)]
