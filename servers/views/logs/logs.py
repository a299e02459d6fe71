"""A run's log as a file, and the address that shows a line of it for ever."""

import zlib
from collections.abc import AsyncIterator

from asgiref.sync import sync_to_async
from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import aget_object_or_404, get_object_or_404, redirect
from django.urls import reverse

from servers.judge.logs import parsing
from servers.models import LogChunk, Permission, Run
from servers.models.logs import MOST_CHUNKS
from servers.views.access import PersonRequest, get
from servers.views.responses import send_file

_GZIP = 31  # zlib's window for a gzip file


@get("runs/<int:run_id>/", Permission.VIEW)
def run(request: PersonRequest, run_id: int) -> HttpResponse:
    """The server's page with this run; browsers take #L1234 along."""
    found = get_object_or_404(Run.objects.select_related("server"), pk=run_id)
    return redirect(f"{reverse('server', args=[found.server.slug])}?run={found.pk}")


@get("runs/<int:run_id>/log/", Permission.VIEW)
async def run_log(request: PersonRequest, run_id: int) -> StreamingHttpResponse:
    """`?raw` keeps colours and all else that a terminal obeys, `?timestamps` puts Docker's timestamp
    before each line, `?gz` packs."""
    run = await aget_object_or_404(Run.objects.select_related("server"), pk=run_id)
    text = _text(run, is_raw="raw" in request.GET, has_times="timestamps" in request.GET)
    name = f"{run.server.slug}-run-{run.pk}.txt"
    if "gz" in request.GET:
        return send_file(f"{name}.gz", _compress(text), "application/gzip")
    return send_file(name, text, "text/plain; charset=utf-8")


async def _compress(text: AsyncIterator[str]) -> AsyncIterator[bytes]:
    packer = zlib.compressobj(level=4, wbits=_GZIP)
    async for block in text:
        if packed := packer.compress(block.encode()):
            yield packed
    yield packer.flush()


async def _text(run: Run, *, is_raw: bool, has_times: bool) -> AsyncIterator[str]:
    position = 0
    read = sync_to_async(LogChunk.objects.lines)
    while lines := await read(run.pk, position, 5000, most=MOST_CHUNKS):
        position = lines[-1].number
        block = "".join(
            f"{line.at} {line.text}\n" if has_times else f"{line.text}\n" for line in lines
        )
        yield block if is_raw else parsing.safe(block)
