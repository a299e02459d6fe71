"""A row in every table of an earlier state of the schema, and how to read them all."""

from datetime import timedelta
from typing import Any

from django.apps.registry import Apps
from django.db import connection, models
from django.utils import timezone

VALUES: dict[str, Any] = {
    "BigIntegerField": 2**40,
    "BinaryField": b"sealed",
    "BooleanField": True,
    "DurationField": timedelta(seconds=90),
    "FloatField": 1.5,
    "GenericIPAddressField": "127.0.0.1",
    "IntegerField": 7,
    "JSONField": {"kept": ["ü", 1]},
    "PositiveBigIntegerField": 2**40,
    "PositiveIntegerField": 7,
    "PositiveSmallIntegerField": 7,
    "SmallIntegerField": 7,
}

OF_KINDS = ("servers_job", "servers_boxobservation")
OTHERWISE: dict[str, dict[str, Any]] = {
    "servers.claim": {"server": None},  # it is of GPUs or of a server
    "servers.secretcopy": {"registry": None},
}


def fill(apps: Apps) -> None:
    """One row a table, every column of it with something in it, as far as rows exist to name."""
    waiting = [
        each
        for each in apps.get_models()
        if each._meta.app_label == "servers" and not each._meta.proxy
    ]
    made: dict[str, models.Model] = {}
    while waiting:
        ready = [each for each in waiting if _needs(each) <= made.keys()]
        assert ready, f"these need each other: {waiting}"
        for model in ready:
            fields = [
                each
                for each in model._meta.concrete_fields
                if each.is_relation or not each.primary_key
            ]
            values = {each.name: _value(each, made) for each in fields}
            values |= OTHERWISE.get(_name(model), {})
            made[_name(model)] = model._default_manager.create(**values)
            waiting.remove(model)


def read() -> dict[str, dict[str, Any]]:
    """By table the values of its only row, by column; links between rows have tables of their own.

    Of jobs and of observations of boxes, which were several tables, a row of each kind, by table and kind.
    """
    found = {}
    with connection.cursor() as cursor:
        for table in sorted(connection.introspection.table_names(cursor)):
            if not table.startswith("servers_"):
                continue
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")  # noqa: S608
            columns = [each[0] for each in cursor.description]
            rows = cursor.fetchall()
            assert len(rows) <= 1 or table in OF_KINDS, f"{table} has {len(rows)} rows"
            for row in rows:
                values: dict[str, Any] = {
                    name: bytes(value) if isinstance(value, memoryview) else value
                    for name, value in zip(columns, row, strict=True)
                }
                kind = f"_{values['kind']}" if table in OF_KINDS else ""
                found[f"{table}{kind}"] = values
    return found


def describe() -> dict[str, list[Any]]:
    """By table its columns, and what its indexes and constraints are, whatever these are called."""
    found: dict[str, list[Any]] = {}
    kinds = ("columns", "primary_key", "unique", "foreign_key", "check", "index", "orders")
    with connection.cursor() as cursor:
        for table in sorted(connection.introspection.table_names(cursor)):
            columns = connection.introspection.get_table_description(cursor, table)
            of_columns = sorted([str(value) for value in each] for each in columns)
            constraints = connection.introspection.get_constraints(cursor, table).values()
            found[table] = [
                of_columns,
                sorted(str([each.get(kind) for kind in kinds]) for each in constraints),
            ]
    return found


def _name(model: type[models.Model] | None) -> str:
    assert model is not None
    return model._meta.label_lower


def _needs(model: type[models.Model]) -> set[str]:
    own = _name(model)
    links = [each for each in model._meta.concrete_fields if each.is_relation and not each.null]
    return {_name(each.related_model) for each in links} - {own}


def _value(field: "models.Field[Any, Any]", made: dict[str, models.Model]) -> Any:
    if field.is_relation:
        return made.get(_name(field.related_model))
    if isinstance(field, models.DateTimeField):
        return timezone.now()
    if isinstance(field, models.DateField):
        return timezone.now().date()
    if isinstance(field, models.CharField | models.TextField):
        text = str(field.choices[0][0]) if field.choices else f"{field.name} ü"
        return text[: field.max_length or 100]
    return VALUES[field.get_internal_type()]
