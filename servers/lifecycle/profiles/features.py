"""Chat features that a server lacks, and the fix for its profile."""

from dataclasses import dataclass

from servers.judge.profiles import features
from servers.judge.profiles.features import MissingFeature
from servers.launch.engines import parameters
from servers.lifecycle.profiles import checks
from servers.models import Server


@dataclass(frozen=True, kw_only=True)
class Chat:
    """`lacks` of what runs; those that the profile says by now are `saved`: a restart brings them."""

    lacks: tuple[MissingFeature, ...]
    saved: frozenset[str]  # keys
    takes_pictures: bool | None  # None: nobody can tell


def find_abilities(server: Server) -> Chat:
    subject = checks.by_itself(server.launch, server.box)
    found = features.lacks(subject)
    run = server.run
    # What runs is mostly what is saved: it is not looked at twice for every open page.
    is_newest = (
        run is not None
        and run.version_id == server.profile.current_id
        and run.values == server.values
    )
    missing = found if is_newest or not found else now(server)
    keys = {lack.key for lack in missing}
    return Chat(
        lacks=found,
        saved=frozenset(lack.key for lack in found if lack.key not in keys),
        takes_pictures=features.takes_pictures(subject),
    )


def now(server: Server) -> tuple[MissingFeature, ...]:
    """What the profile, as it is saved now, leaves chats with this server without."""
    launch = parameters.fill(server.profile.launch, server.values)
    return features.lacks(checks.by_itself(launch, server.box))
