"""The exported form of a profile: without secrets and keys."""

from dataclasses import replace

from servers.launch.engines.change import without_flags
from servers.launch.engines.engine import SECRET_FLAGS
from servers.launch.engines.launch import Launch
from servers.launch.recipes import document
from servers.launch.recipes.document import Document
from servers.models import Profile


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
