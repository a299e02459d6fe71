"""The restore of a backup: checked first, written in one transaction, and what is missing then."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.contrib.sessions.models import Session
from django.core.exceptions import ValidationError
from django.core.management.color import no_style
from django.db import DatabaseError, connection, transaction
from django.db.models import Field, ForeignKey, Model

from servers.host.docker.containers import ContainerError
from servers.judge.runs.limits import LimitsError
from servers.launch.engines.launch import Launch, fill_parameters
from servers.launch.engines.placement import VolumeError
from servers.lifecycle.people import backup
from servers.lifecycle.people.backup import BY_NAME, TABLES, Archive, BackupError, Table
from servers.lifecycle.runs import creation
from servers.lifecycle.weights import inventory
from servers.models import (
    AuditEntry,
    Box,
    Invite,
    NotificationChannel,
    Profile,
    RegistryCredential,
    Run,
    Secret,
    Server,
)
from servers.models.people.key import seal_text

_NEWER = "It was made by a newer inferdash: upgrade inferdash here first. Nothing was restored."


@dataclass(frozen=True, kw_only=True)
class RestorableBackup:
    """A backup of which every row can be written."""

    archive: Archive
    rows: dict[str, list[Model]]
    later: list[tuple[Model, dict[str, Any]]]
    many: list[tuple[Model, str, list[int]]]
    secrets: dict[str, Any]  # in the clear; empty: without


@dataclass(frozen=True, kw_only=True)
class Restored:
    counts: dict[str, int]
    # Of secrets and outlets that came without their values.
    to_enter: list[str] = field(default_factory=list)
    # A box of the backup that is called otherwise here.
    renamed: tuple[str, str] | None = None
    elsewhere: list[str] = field(default_factory=list)  # boxes of the backup that are not this one


def check(archive: Archive, *, passphrase: str = "") -> RestorableBackup:
    """Look through all of it; with an empty passphrase, secrets stay out. Changes nothing.

    Raises BackupError, WrongPassphrase.
    """
    if unknown := ", ".join(sorted(archive.rows.keys() - BY_NAME.keys())):
        raise BackupError(f"The backup has tables that are not known here: {unknown}. {_NEWER}")
    found: dict[str, list[Model]] = {}
    later, many = [], []
    for table in TABLES:
        made = []
        for number, row in enumerate(archive.rows.get(table.name, []), start=1):
            where = f"row {number} of {table.name}"
            instance, afterwards = _instance(table, row, where)
            made.append(instance)
            if afterwards:
                later.append((instance, afterwards))
            many += [(instance, name, _keys(row.get(name, []), where)) for name in table.many]
        found[table.name] = made
    _check_references(found, later, many)
    _check_launches(found["profile_versions"])
    secrets: dict[str, Any] = {}
    if archive.secrets is not None and passphrase:
        try:
            secrets = backup.unseal_archive(archive.secrets, passphrase, bound_to=archive.digest)
        except (ValueError, KeyError, TypeError) as error:
            raise BackupError(f"The backup's secrets cannot be read: {error}. {_NEWER}") from error
    return RestorableBackup(archive=archive, rows=found, later=later, many=many, secrets=secrets)


def _instance(table: Table, row: Any, where: str) -> tuple[Model, dict[str, Any]]:
    columns = table.columns
    if not isinstance(row, dict):
        raise BackupError(f"The backup is damaged: {where} is no row.")
    if unknown := sorted(row.keys() - columns.keys() - set(table.many)):
        raise BackupError(f"{where} has {', '.join(unknown)}, which is not known here. {_NEWER}")
    values = {
        name: _check_value(of, row[name], f"{name} in {where}")
        for name, of in columns.items()
        if name in row
    }
    if "id" not in values:
        raise BackupError(f"The backup is damaged: {where} has no id.")
    for name, of in columns.items():
        if name not in row and not (of.has_default() or of.null or of.blank):
            raise BackupError(f"The backup is damaged: {where} has no {name}.")
    later = {f"{name}_id": values.pop(f"{name}_id", None) for name in table.later}
    return table.model(**values), {name: pk for name, pk in later.items() if pk is not None}


def _check_value(of: "Field[Any, Any]", raw: Any, where: str) -> Any:
    target = of.target_field if isinstance(of, ForeignKey) else of
    if raw is None:
        if not of.null:
            raise BackupError(f"The backup is damaged: {where} is empty.")
        return None
    try:
        value = target.to_python(raw)
        target.run_validators(value)
    except ValidationError as error:
        raise BackupError(f"{where} cannot be: {' '.join(error.messages)}") from error
    choices = [key for key, _title in target.flatchoices]
    if choices and value not in choices and value != "":
        raise BackupError(f"{where} is {value!r}, which is not known here. {_NEWER}")
    return value


def _keys(raw: Any, where: str) -> list[int]:
    if not isinstance(raw, list) or not all(isinstance(pk, int) for pk in raw):
        raise BackupError(f"The backup is damaged: {where} names no rows.")
    return raw


def _check_references(
    found: dict[str, list[Model]],
    later: Iterable[tuple[Model, dict[str, Any]]],
    many: Iterable[tuple[Model, str, list[int]]],
) -> None:
    there = {table.model: {each.pk for each in found[table.name]} for table in TABLES}
    wanted: list[tuple[Model, str, type[Model], Any]] = []
    for table in TABLES:
        keys = [of for of in table.columns.values() if isinstance(of, ForeignKey)]
        for each in found[table.name]:
            wanted += [(each, of.name, of.related_model, getattr(each, of.attname)) for of in keys]
    for each, values in later:
        for name, pk in values.items():
            of = each._meta.get_field(name.removesuffix("_id"))
            wanted.append((each, name, of.related_model, pk))  # type: ignore[arg-type]
    for each, name, pks in many:
        model = each._meta.get_field(name).related_model
        wanted += [(each, name, model, pk) for pk in pks]  # type: ignore[misc]
    for each, name, model, pk in wanted:
        if pk is not None and pk not in there.get(model, ()):
            kind = each._meta.verbose_name
            raise BackupError(
                f"The backup is damaged: {name} of {kind} {each.pk} names what is not in it."
            )


def _check_launches(versions: Iterable[Any]) -> None:
    for version in versions:
        try:
            Launch.from_json(version.spec)
        except (TypeError, AttributeError) as error:
            raise BackupError(
                f"Version {version.number} of a profile says what is not known here ({error}). "
                f"{_NEWER}"
            ) from error


def restore(
    checked: RestorableBackup, *, replace: bool = False, keep_boxes: bool = False
) -> Restored:
    """Write all of it, or nothing. Raises BackupError."""
    try:
        with transaction.atomic():
            _make_room(replace=replace)
            done = _write(checked, keep_boxes=keep_boxes)
            made_at = str(checked.archive.manifest.get("made_at", ""))
            AuditEntry.note(None, "restore", f"backup of {made_at}", **{"from": "command line"})
    except DatabaseError as error:
        raise BackupError(
            f"The database did not take it, and nothing was restored: {str(error).strip()}"
        ) from error
    return done


def _make_room(*, replace: bool) -> None:
    there = [(table, table.model._default_manager.count()) for table in TABLES]
    # The box itself is enrolled by its watcher, before anybody has come.
    holds = [each.format_count(count) for each, count in there if count and each.model is not Box]
    if holds and not replace:
        raise BackupError(
            f"This installation is not empty: it has {', '.join(holds)}. Restore into a new one "
            "(INFERDASH_DATA names another data folder), or say --replace: that deletes what is "
            "here, with all runs and logs, before it restores."
        )
    if not holds:
        return
    if active := Run.objects.active().count():
        raise BackupError(
            f"{active} engine{'s run' if active != 1 else ' runs'} by this installation, which "
            "would no longer know of them. Stop them first."
        )
    Server.objects.update(run=None)
    Profile.objects.update(current=None)
    BY_NAME["environment_groups"].model._default_manager.update(current=None)
    Box.objects.update(hf_token=None)
    # Somebody else may get the key of a person who was here.
    Session.objects.all().delete()
    for model in (Run, Server, Invite):
        model._default_manager.all().delete()
    for table in reversed(TABLES):
        if table.model is not Box:
            table.model._default_manager.all().delete()


def _write(checked: RestorableBackup, *, keep_boxes: bool) -> Restored:
    _seal(checked)
    boxes: dict[int, int] = {}
    renamed = None
    for table in TABLES:
        if table.model is Box:
            boxes, renamed = _boxes(checked.rows[table.name], keep=keep_boxes)
            continue
        rows: list[Any] = checked.rows[table.name]
        for each in rows:
            if getattr(each, "box_id", None) is not None:
                each.box_id = boxes[each.box_id]
        table.model._default_manager.bulk_create(rows, batch_size=500)
    for each, values in checked.later:
        type(each)._default_manager.filter(pk=each.pk).update(**values)
    for each, name, pks in checked.many:
        getattr(each, name).set(pks)
    _set_sequences()
    return Restored(
        counts={name: len(rows) for name, rows in checked.rows.items()},
        to_enter=_to_enter(checked),
        renamed=renamed,
        elsewhere=sorted(
            Box.objects.filter(pk__in=boxes.values())
            .exclude(slug=settings.BOX)
            .values_list("slug", flat=True)
        ),
    )


def _boxes(rows: list[Any], *, keep: bool) -> tuple[dict[int, int], tuple[str, str] | None]:
    """Key in the backup -> key here. The only box of a backup becomes this one."""
    renamed = None
    if len(rows) == 1 and rows[0].slug != settings.BOX and not keep:
        renamed = (rows[0].slug, settings.BOX)
        rows[0].slug = settings.BOX
    keys = {}
    columns = [name for name in BY_NAME["boxes"].columns if name not in ("id", "slug")]
    for row in rows:
        values = {name: getattr(row, name) for name in columns}
        here, _made = Box.objects.update_or_create(slug=row.slug, defaults=values)
        keys[row.pk] = here.pk
    return keys, renamed


def _seal(checked: RestorableBackup) -> None:
    """With this installation's own key. What has no value says so when it is wanted."""
    secrets, outlets = checked.secrets.get("secrets", {}), checked.secrets.get("outlets", {})
    for secret in checked.rows["secrets"]:
        assert isinstance(secret, Secret)
        value = secrets.get(str(secret.pk))
        secret.sealed = seal_text(value) if value is not None else b""
    for outlet in checked.rows["outlets"]:
        assert isinstance(outlet, NotificationChannel)
        address, key = outlets.get(str(outlet.pk)) or ("", "")
        if address:
            outlet.keep(address, key, outlet.hint)
        else:
            outlet.sealed_address, outlet.is_enabled = b"", False
    passwords = checked.secrets.get("registries", {})
    for login in checked.rows["registries"]:
        assert isinstance(login, RegistryCredential)
        login.sealed = b""
        if (password := passwords.get(str(login.pk))) is not None:
            entered_at = login.created_at
            login.keep(password)
            login.created_at = entered_at


# What came without its value, by its table and column.
_TO_ENTER = (
    ("secrets", "sealed", "the secret {0.name}"),
    ("registries", "sealed", "the password at the registry {0.registry}"),
    ("outlets", "sealed_address", "the address of the outlet {0.name}, which is off until then"),
)


def _to_enter(checked: RestorableBackup) -> list[str]:
    return [
        words.format(row)
        for table, column, words in _TO_ENTER
        for row in checked.rows[table]
        if not getattr(row, column)
    ]


def _set_sequences() -> None:
    """Rows came with their keys: PostgreSQL is told where to go on."""
    models = [table.model for table in TABLES if table.model is not Box]
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), models):
            cursor.execute(statement)


@dataclass(frozen=True, kw_only=True)
class MissingItem:
    kind: str  # "image" or "model"
    name: str
    size: int | None  # bytes that are missing; None: not known
    why: str = ""  # it could not be looked for


def list_missing(box: Box, needs: dict[str, Any]) -> list[MissingItem]:
    """What this box lacks; also what nobody could look for, with the reason. `needs` knows sizes."""
    launches = [
        fill_parameters(profile.launch)
        for profile in Profile.objects.active().exclude(current=None).select_related("current")
    ]
    images = sorted({launch.image for launch in launches})
    return [
        *_images(images, needs.get("images", {})),
        *_models(launches, box, needs.get("models", {})),
    ]


def _images(references: list[str], sizes: dict[str, int | None]) -> Iterator[MissingItem]:
    why = ""
    for reference in references:
        is_there = False
        if not why:
            try:
                is_there = creation.docker().image(reference) is not None
            except ContainerError as error:
                why = str(error)
        if not is_there:
            yield MissingItem(kind="image", name=reference, size=sizes.get(reference), why=why)


def _models(
    launches: list[Launch], box: Box, sizes: dict[str, int | None]
) -> Iterator[MissingItem]:
    seen = set()
    for launch in launches:
        name = inventory.source(launch, box)
        if (name or launch.checkpoint) in seen:
            continue
        seen.add(name or launch.checkpoint)
        size = sizes.get(launch.checkpoint)
        if not name:
            why = "inferdash cannot tell where it would lie"
            yield MissingItem(kind="model", name=launch.checkpoint, size=size, why=why)
            continue
        try:
            found = inventory.look(name, box)
        except (OSError, LimitsError, VolumeError) as error:
            yield MissingItem(kind="model", name=launch.checkpoint, size=size, why=str(error))
            continue
        if found is None or found.weights is None:
            yield MissingItem(kind="model", name=launch.checkpoint, size=size)
        elif found.missing:
            yield MissingItem(kind="model", name=launch.checkpoint, size=found.missing)
