"""What of a profile travels: everything but the values of secrets and keys."""

from dataclasses import replace

from servers.engines.change import without_flags
from servers.engines.engine import SECRET_FLAGS
from servers.engines.launch import Launch
from servers.models import Profile
from servers.recipes import document
from servers.recipes.document import Document


def without_keys(launch: Launch) -> Launch:
    """Keys among the flags stay here, as the values of secrets do."""
    return replace(launch, flags=without_flags(launch.flags, tuple(SECRET_FLAGS)))


def document_of(profile: Profile, launch: Launch) -> Document:
    return Document(
        name=profile.name,
        notes=profile.notes,
        source=document.RecipeSource(url=profile.source),
        tags=tuple(profile.tag_list),
        secrets=tuple(sorted(launch.secret_env)),
        launch=replace(launch, secret_env={}),
    )
