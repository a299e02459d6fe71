"""The page context of the gateway's models: their names, states, contexts and capabilities."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.conf import settings

from servers.gateway.routes import NoRoute, Route
from servers.judge.profiles import features
from servers.judge.profiles.facts import LaunchFacts
from servers.judge.weights.fit.demand import read_context
from servers.lifecycle.profiles.knowledge import LaunchContext, share_knowledge
from servers.models import Server, User

_STOPPED = "stopped"


@dataclass(frozen=True, kw_only=True)
class ModelRow:
    server: str
    names: tuple[str, ...]  # by which programs may ask for it
    is_ready: bool  # here
    state: str
    says: str  # beside the state; "" where that says it all
    context: int | None  # tokens; None: not known
    capabilities: tuple[str, ...]


def list_models(ready: Iterable[Route], absent: Iterable[NoRoute], person: User) -> list[ModelRow]:
    """Those that are ready first."""
    found: list[Route | NoRoute] = [*ready, *absent]
    servers = Server.objects.present().select_related(
        "box", "profile__current", "run__version", "run__plan"
    )
    known = {each.slug: each for each in servers}
    contexts = {slug: LaunchContext(server.launch, server.box) for slug, server in known.items()}
    share_knowledge(list(contexts.values()))
    return [
        _build_row(each, contexts[each.server], known[each.server], person)
        for each in found
        if each.server in known
    ]


def _build_row(
    each: Route | NoRoute, context: LaunchContext, server: Server, person: User
) -> ModelRow:
    state, says = "ready", ""
    if isinstance(each, NoRoute):
        run = server.run
        state = run.shown_state if run is not None else _STOPPED
        says = _explain(each, server, person)
    subject = context.subject_alone
    facts = LaunchFacts(subject)
    capabilities = {
        "tools": features.calls_tools(subject, features.lacks(subject)),
        "reasoning": facts.flag("--reasoning-parser") is not None,
        "images": features.takes_pictures(subject),
    }
    return ModelRow(
        server=each.server,
        is_ready=isinstance(each, Route),
        names=each.names if person.may_view else each.listed,
        state=state,
        says=says,
        context=read_context(facts),
        capabilities=tuple(name for name, has_it in capabilities.items() if has_it),
    )


def _explain(each: NoRoute, server: Server, person: User) -> str:
    if server.box.slug != settings.BOX:
        return f"on {server.box}"
    if each.is_coming:
        return each.says if person.may_view else ""
    return "a request starts it" if each.may_start else ""
