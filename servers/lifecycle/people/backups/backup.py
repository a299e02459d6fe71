"""The backup of one moment, taken while everything runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Field, Model
from django.utils import timezone

from servers.launch.engines import parameters
from servers.lifecycle.people.backups import archive, encryption
from servers.lifecycle.people.backups.archive import BackupError, Row
from servers.lifecycle.people.backups.tables import TABLES, Table
from servers.models import (
    CheckpointFacts,
    HostResources,
    NotificationChannel,
    Profile,
    RegistryCredential,
    Secret,
    StoredCheckpoint,
)
from servers.models.people.secret import SecretError


@dataclass(frozen=True, kw_only=True)
class BackupSummary:
    counts: dict[str, int]  # rows by table
    has_secrets: bool


def take(path: Path, *, passphrase: str) -> BackupSummary:
    """Write the backup; an empty passphrase leaves secrets out. Raises BackupError."""
    with _one_moment():
        rows = {table.name: [_row(table, each) for each in table.all()] for table in TABLES}
        needs = _needs()
        values = _secrets() if passphrase else None
    text, digest = archive.pack_rows(rows)
    manifest = {
        "what": archive.WHAT,
        "format": archive.FORMAT,
        "made_at": timezone.now().isoformat(),
        "box": settings.BOX,
        "digest": digest,
        "needs": needs,
    }
    sealed = None if values is None else encryption.seal(values, passphrase, bound_to=digest)
    archive.write(path, manifest, text, sealed)
    counts = {name: len(each) for name, each in rows.items()}
    return BackupSummary(counts=counts, has_secrets=sealed is not None)


@contextmanager
def _one_moment() -> Iterator[None]:
    """Every query sees the same state. SQLite's transactions are like that; PostgreSQL is told."""
    with transaction.atomic():
        if connection.vendor == "postgresql" and not connection.savepoint_ids:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


def _row(table: Table, of: Model) -> Row:
    row = {name: _value(field, of) for name, field in table.columns.items()}
    for name in table.many:
        row[name] = sorted(getattr(of, name).values_list("pk", flat=True))
    return row


def _value(field: "Field[Any, Any]", of: Model) -> Any:
    value = getattr(of, field.attname)
    return value.isoformat() if isinstance(value, datetime) else value


def _secrets() -> dict[str, Any]:
    try:
        return {
            "secrets": {str(each.pk): each.reveal() for each in Secret.objects.order_by("pk")},
            "outlets": {
                str(each.pk): [each.address, each.key]
                for each in NotificationChannel.objects.order_by("pk")
            },
            "registries": {
                str(each.pk): each.password for each in RegistryCredential.objects.order_by("pk")
            },
        }
    except SecretError as error:
        raise BackupError(
            f"{error} A backup without secrets can be made: --without-secrets."
        ) from error


def _needs() -> dict[str, dict[str, int | None]]:
    """Images and models that profiles name, with their bytes where a box has told them."""
    images: dict[str, int | None] = {}
    models: dict[str, int | None] = {}
    for profile in Profile.objects.active().exclude(current=None).select_related("current"):
        launch = parameters.fill(profile.launch)
        images[launch.image] = None
        models[launch.checkpoint] = None
    for host_resources in HostResources.objects.all():
        for reference, image in host_resources.images.items():
            if reference in images and image:
                images[reference] = image.get("size")
    sizes = list(StoredCheckpoint.objects.values_list("name", "size"))
    sizes += StoredCheckpoint.objects.values_list("path", "size")
    for source, weights in CheckpointFacts.objects.values_list("source", "weights"):
        if weights is not None:
            sizes.append((source.rpartition("@")[0] or source, weights))
    for name, size in reversed(sizes):
        if name in models:
            models[name] = size
    return {"images": images, "models": models}
