"""A run's log as a file."""

from collections.abc import AsyncIterator

from asgiref.sync import sync_to_async
from django.http import HttpRequest, StreamingHttpResponse
from django.shortcuts import aget_object_or_404
from django.views.decorators.http import require_GET

from servers.judge import logtext
from servers.models import LogChunk, Role, Run
from servers.models.log import MOST_CHUNKS
from servers.views.access import allow


@require_GET
@allow(Role.VIEWER)
async def run_log(request: HttpRequest, run_id: int) -> StreamingHttpResponse:
    """`?raw` keeps colours, `?timestamps` puts Docker's timestamp before each line."""
    run = await aget_object_or_404(Run.objects.select_related("server"), pk=run_id)
    text = _text(run, is_raw="raw" in request.GET, has_times="timestamps" in request.GET)
    return StreamingHttpResponse(
        text,
        content_type="text/plain; charset=utf-8",
        headers={
            "Content-Disposition": f'attachment; filename="{run.server.slug}-run-{run.pk}.log"'
        },
    )


async def _text(run: Run, *, is_raw: bool, has_times: bool) -> AsyncIterator[str]:
    position = 0
    read = sync_to_async(LogChunk.objects.lines)
    while lines := await read(run.pk, position, 5000, most=MOST_CHUNKS):
        position = lines[-1].number
        block = "".join(
            f"{line.at} {line.text}\n" if has_times else f"{line.text}\n" for line in lines
        )
        yield block if is_raw else logtext.plain(block)
