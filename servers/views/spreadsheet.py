"""Tables as CSV, sent while they are read, that no spreadsheet takes for formulas."""

import csv
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence

from django.http import StreamingHttpResponse

from servers.views.responses import send_file

# Full-width signs count too: some spreadsheets read them as the narrow ones.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001


def download(
    name: str, head: Sequence[str], rows: AsyncIterable[Sequence[object]]
) -> StreamingHttpResponse:
    return answer(name, _lines(head, rows))


def answer(name: str, lines: AsyncIterable[str]) -> StreamingHttpResponse:
    """A file of lines that `line` has made."""
    return send_file(name, lines, "text/csv; charset=utf-8")


class _Echo:
    def write(self, text: str) -> str:
        return text


_writer = csv.writer(_Echo())


def line(cells: Iterable[object]) -> str:
    """As they are: what people have named is to be made inert before."""
    return str(_writer.writerow(cells))


async def _lines(head: Sequence[str], rows: AsyncIterable[Sequence[object]]) -> AsyncIterator[str]:
    yield line(head)
    async for row in rows:
        yield line(_inert(str(cell)) for cell in row)


def _inert(cell: str) -> str:
    """A spreadsheet runs a cell that begins like a formula."""
    return f"'{cell}" if cell.startswith(_FORMULA) or cell.lstrip().startswith(_FORMULA) else cell
