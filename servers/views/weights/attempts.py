"""Every attempt to start one checkpoint."""

from typing import cast
from urllib.parse import urlencode

from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from servers.lifecycle.profiles import attempts
from servers.lifecycle.profiles.attempts import OUTCOMES, AttemptFilter
from servers.models import Permission, User
from servers.views.access import allow

A_PAGE = 50


@require_GET
@allow(Permission.VIEW)
def checkpoint(request: HttpRequest) -> HttpResponse:
    """?of= is the checkpoint: an id or a path, which an address would read as folders."""
    name = request.GET.get("of", "")
    found = attempts.list_attempts(name, cast(User, request.user))
    if not name or not found.exists():
        raise Http404("Nobody has started this model, or it is in private profiles only.")
    wish = AttemptFilter(
        **{key: request.GET.get(key, "")[:200] for key in ("box", "outcome", "cause")}
    )
    page = Paginator(attempts.filter_attempts(found, wish), A_PAGE).get_page(
        request.GET.get("page")
    )
    return render(
        request,
        "profiles/attempts/page.html",
        {
            "name": name,
            "page": page,
            "attempts": attempts.rows(list(page), found),
            "wish": wish,
            "is_filtered": wish != AttemptFilter(),
            "boxes": attempts.boxes(found),
            "outcomes": [(key, words) for key, (words, _q) in OUTCOMES.items()],
            "causes": attempts.causes(found),
            "query": urlencode({"of": name, **{k: v for k, v in vars(wish).items() if v}}),
        },
    )
