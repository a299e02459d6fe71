"""Counts and sizes in the output of commands."""

from collections.abc import Iterable, Mapping

from servers.lifecycle.people.backups.tables import Table

GIB = 2**30


def format_counts(tables: Iterable[Table], counts: Mapping[str, int]) -> str:
    """ "2 people, 5 profiles, 11 versions of them"; tables without rows are left out."""
    parts = [each.format_count(counts[each.name]) for each in tables if counts.get(each.name)]
    return ", ".join(parts) or "nothing yet"


def size(of: int | None) -> str:
    return "size not known" if of is None else f"{of / GIB:.1f} GiB"
