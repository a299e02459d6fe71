"""Engines that hold ports of a box, by rows."""

from collections.abc import Iterable

from servers.judge.external.engines import DiscoveredEngine
from servers.models import Box, ExternalEngine, Run


def of_others(box: Box) -> dict[int, str]:
    """ "the container speech-llm-1" by the port; of engines that run and that others started."""
    return by_port(box.external_engines.filter(has_ended=False))


def by_port(external_engines: Iterable[ExternalEngine]) -> dict[int, str]:
    found = (DiscoveredEngine.from_json(each.found) for each in external_engines)
    return {each.port: f"the {each.what} {each.name}" for each in found if each.port}


def of_all(box: Box) -> dict[int, str]:
    """With "the server coder" for inferdash's own, which are named where both are."""
    mine = Run.objects.active().filter(server__box=box).values_list("port", "server__slug")
    own = {port: f"the server {slug}" for port, slug in mine if port}
    return of_others(box) | own
