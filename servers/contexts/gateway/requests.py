"""The page context of the gateway: requests, and names that may be asked for."""

import hashlib

from django.template.loader import render_to_string

from servers.models import Request, Server, User
from servers.models.gateway.request import LATEST

type Key = tuple[str, int | None]


def names_mark() -> str:
    """Another text whenever the gateway would pass on, start or refuse something else."""
    seen = hashlib.sha256()
    servers = Server.objects.present().select_related("box", "profile__current", "run__version")
    for server in servers.order_by("pk"):
        run = server.run
        told: list[object] = [
            server.pk,
            server.profile.current_id,
            server.held_back_by_id,
            server.run_id,
        ]
        if run is not None:
            start = run.where_it_starts(run.launch, unified=server.box.is_unified)
            told += [run.state, run.wanted, run.sleep, run.on_request, run.served_name]
            told += [start.words, start.percent] if start is not None else []
        seen.update(repr(told).encode())
    return seen.hexdigest()[:16]


def parts(keys: set[Key], person: User, page: str) -> list[str]:
    if page != "gateway" or not person.may_chat:
        return []
    everything = ("everything", None) in keys
    found: list[str] = []
    if everything or ("requests", None) in keys:
        latest = {"requests": Request.objects.visible_to(person)[:LATEST], "person": person}
        found.append(render_to_string("gateway/_live.html", latest))
    if everything or any(kind in ("server", "servers") for kind, _pk in keys):
        found.append(render_to_string("gateway/_live_names_mark.html", {"mark": names_mark()}))
    return found
