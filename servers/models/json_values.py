"""JSON columns, and values in them that only some kinds of a table's rows have, as attributes with a type."""

from typing import Any, Self, cast, overload

from django.db import models

# A JSON column, by what it holds.
type Json[T] = models.JSONField[T, T]


class JsonValue[T](property):
    """A value by its name in a JSON column; or another column's name."""

    def __init__(self, column: str, default: T | None = None) -> None:
        super().__init__(fset=self.__set__)  # by which Django knows that it can be set
        self.column = column
        self.default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, row: None, owner: type, /) -> Self: ...
    @overload
    def __get__(self, row: Any, owner: type | None = None, /) -> T: ...
    def __get__(self, row: Any, owner: type | None = None, /) -> T | Self:
        if row is None:
            return self
        held = getattr(row, self.column)
        return cast(T, held.get(self.name, self.default) if isinstance(held, dict) else held)

    def __set__(self, row: Any, value: T) -> None:
        held = getattr(row, self.column)
        if isinstance(held, dict):
            setattr(row, self.column, held | {self.name: value})
        else:
            setattr(row, self.column, value)


class JsonRow(models.Model):
    """A row with such values."""

    class Meta:
        abstract = True

    def write(self, **values: Any) -> bool:
        """Into the row, whatever column they are in; False where it is gone."""
        mine = type(self)._default_manager.filter(pk=self.pk)
        return bool(mine.update(**self.columns(**values)))

    def columns(self, **values: Any) -> dict[str, Any]:
        """Take in these values; the columns that they are in."""
        found = {}
        for name, value in values.items():
            setattr(self, name, value)
            known = getattr(type(self), name)
            column = known.column if isinstance(known, JsonValue) else name
            found[column] = getattr(self, column)
        return found
