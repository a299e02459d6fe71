"""The import of an external engine as a profile."""

from dataclasses import asdict, replace

from django.db import transaction

from servers import events
from servers.judge.external.engines import DiscoveredEngine
from servers.judge.profiles.privileges import opens_the_box
from servers.launch.commandline.draft import Draft
from servers.lifecycle import external
from servers.lifecycle.external import WatchError, import_diff, monitoring
from servers.models import AuditEntry, Box, Profile, Server, User


class ProfileError(Exception):
    """No profile is made; the text says why, and what to do."""


def make(box: Box, container: str, *, by: User | None) -> Profile:
    """The profile of what the watcher has seen under this key; the one that there is already.

    Raises ProfileError, and ContainerError when Docker cannot be asked.
    """
    found = external.find_engine(container)
    if found is None:
        raise ProfileError("It is not there any more, or was never seen to be an engine.")
    if known := import_diff.profile_of(box, container):
        return known
    try:
        stranger = external.find(container)
        if stranger is None:
            raise ProfileError("It is gone, and nothing of it is left to read.")
        made = monitoring.draft_profile(box, stranger)
        check(made, by)
        with transaction.atomic():
            profile = _store_profile(box, found, made, by)
            version = profile.current
            assert version is not None
            stranger.compare(box, made, version)
    except WatchError as error:
        raise ProfileError(str(error)) from error
    events.publish_change("servers")
    return profile


def check(made: Draft, by: User | None) -> None:
    """What an admin alone may write into a profile is an admin's to copy, too."""
    opens = opens_the_box(asdict(made.launch))
    if opens and not (by and by.may_administer):
        raise ProfileError(
            f"It was started with what only an admin may give a container: {', '.join(opens)}. An "
            "admin can make the profile."
        )


def _store_profile(box: Box, found: DiscoveredEngine, made: Draft, by: User | None) -> Profile:
    slug = monitoring.free_slug(made.name or found.name)
    what = "process" if found.is_process else "container"
    name = found.command[:120] if found.is_process else found.name
    profile = Profile.objects.create(
        slug=slug, name=slug, owner=by, notes=f"As the {what} {name} was started on {box}."
    )
    launch = replace(made.launch, secret_env=monitoring.seal_secrets(made, {}, by))
    profile.save_version(launch, by=by, message=f"As {found.name} was started"[:200])
    Server.objects.create(slug=slug, profile=profile, box=box)
    AuditEntry.note(by, "create profile", profile, of=found.name, box=box.slug)
    return profile
