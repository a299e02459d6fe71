"""The row that an address names, or an error that names the nearest ones."""

from difflib import get_close_matches
from typing import Any

from django.db.models import Model, QuerySet

from servers.views.api.errors import NOT_FOUND, ApiError

MOST = 5  # names that an error lists
# Of a row with so many siblings only the first are compared: an error is no search.
COMPARED = 2000


def find[M: Model](
    rows: "QuerySet[M, Any]", kind: str, name: str, *, field: str = "slug", advice: str = ""
) -> M:
    """Raises ApiError where there is none; `kind` is the word for such a row, as "server"."""
    found: M | None = rows.filter(**{field: name}).first()
    if found is not None:
        return found
    known = [str(each) for each in rows.values_list(field, flat=True)[:COMPARED]]
    raise ApiError(
        NOT_FOUND,
        "not_found",
        f"There is no {kind} called {name[:200]}.",
        " ".join(part for part in (_nearest(name, kind, known), advice) if part),
    )


def _nearest(name: str, kind: str, known: list[str]) -> str:
    if not known:
        return f"There is no {kind} yet."
    if near := get_close_matches(name, known, n=3, cutoff=0.5):
        return f"Did you mean {' or '.join(near)}?"
    more = f" and {len(known) - MOST} more" if len(known) > MOST else ""
    return f"There {'is' if len(known) == 1 else 'are'}: {', '.join(sorted(known)[:MOST])}{more}."
