"""Claims where they are shown: at a GPU, at a server, before a stop."""

from collections.abc import Iterable

from django import template

from servers.lifecycle.people import claims
from servers.models import Claim, Server, User

register = template.Library()


@register.filter
def of_gpu(found: Iterable[Claim], index: int) -> list[Claim]:
    return [each for each in found if index in each.gpus]


@register.filter
def claims_on(server: Server) -> list[Claim]:
    """Of it, or of the GPUs that its run has."""
    return [each for each in server.box.current_claims if each.covers(server)]


@register.filter
def claims_against(server: Server, person: User) -> list[Claim]:
    """Other people's, which a stop by this person would touch."""
    return claims.against_stop(server, person)
