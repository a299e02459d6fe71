"""The notice on every page while prompts are captured."""

from django.db.models import Count, Max
from django.template.loader import render_to_string

from servers.models import Capture, CapturedCall, User

type Key = tuple[str, int | None]


def captures() -> list[Capture]:
    return list(Capture.objects.active())


def html(person: User, page: str) -> str:
    said = {"captures": captures(), "user": person, "in_playground": page == "chat"}
    return render_to_string("_live_capture.html", said)


def mark() -> str:
    """Another text whenever capture's own page would read otherwise."""
    kept = CapturedCall.objects.recent().aggregate(count=Count("pk"), last=Max("pk"))
    on = Capture.objects.active().values_list("pk", "exchanges", "size")
    return f"{kept['count']} {kept['last']} {' '.join(str(each) for row in on for each in row)}"


def parts(keys: set[Key], person: User, page: str) -> list[str]:
    """The mark of its own page, which admins alone see."""
    if page != "capture" or not person.may_administer:
        return []
    is_looked_at = bool(
        keys & {(kind, None) for kind in ("capture", "requests", "boxes", "everything")}
    )
    return (
        [render_to_string("gateway/_live_capture_mark.html", {"mark": mark()})]
        if is_looked_at
        else []
    )
