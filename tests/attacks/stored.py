"""Every text that the database keeps, made hostile: what a page shows of it has to stay text."""

import itertools
from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.db import models

PAYLOAD = (
    """"'><img src="/stolen/{mark}" onerror="stolen='{mark}'"><button hx-get="/stolen/{mark}" """
    """hx-trigger="load">{mark}</button><script>stolen='{mark}'</script>{{{{ 7*7 }}}}"""
)
# What names a row in addresses, in Docker or to the program: nobody types it freely.
IDENTIFIERS = {
    "User.password", "Box.slug", "Profile.slug", "Server.slug", "EnvironmentGroup.slug",
    "Conversation.key", "Conversation.token", "Job.target", "Key.digest", "Key.start",
    "Invite.token_hash", "Box.boot_id", "Reboot.boot_id", "Run.container_id",
    "StoredImage.image_id", "StoredCheckpoint.fingerprint", "Conversation.revision",
    "BoxInvitation.ident", "BoxLink.public_key", "Profile.source", "StoredImage.built_for", "EnvironmentGroup.engine", "StoredImage.engine", "ImageFacts.engine",
}  # fmt: skip
# In JSON: the names under which somebody else's words stand.
WORDS = {
    "name", "what", "why", "text", "title", "command", "reason", "error", "note", "message",
    "said", "detail", "because", "label", "image", "model", "path", "licence", "prompt",
}  # fmt: skip


def make_hostile() -> dict[str, str]:
    """The mark of each field that has a row, by the field; the row keeps its own mark."""
    numbers = itertools.count(1)
    marks: dict[str, str] = {}
    for model in apps.get_app_config("servers").get_models():
        if model._meta.proxy:
            continue  # its rows are another's
        for field in model._meta.concrete_fields:
            named = f"{model.__name__}.{field.name}"
            if isinstance(field, models.JSONField):
                _poison_json(model, field.name, f"stolen{next(numbers)}json", named, marks)
            elif isinstance(field, models.CharField | models.TextField):
                if field.choices or named in IDENTIFIERS:
                    continue
                mark = f"stolen{next(numbers)}text"
                # Below the rules of the forms: what was stored by an older version, or by hand.
                if model._default_manager.update(**{field.name: PAYLOAD.format(mark=mark)}):
                    marks[named] = mark
    return marks


def _poison_json(
    model: type[models.Model], field: str, mark: str, named: str, marks: dict[str, str]
) -> None:
    for row in model._default_manager.all():
        value = getattr(row, field)
        found = list(_poisoned(value, mark))
        if found:
            model._default_manager.filter(pk=row.pk).update(**{field: found[0]})
            marks[named] = mark


def _poisoned(value: Any, mark: str) -> Iterator[Any]:
    """Once, with the payload behind each of its words; nothing where it has none."""
    changed = _behind_words(value, mark)
    if changed != value:
        yield changed


def _behind_words(value: Any, mark: str) -> Any:
    if isinstance(value, dict):
        return {
            key: each + PAYLOAD.format(mark=mark)
            if key in WORDS and isinstance(each, str)
            else _behind_words(each, mark)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_behind_words(each, mark) for each in value]
    return value
