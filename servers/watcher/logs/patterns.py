"""Required and forbidden texts in logs, looked for as they grow."""

from servers import events
from servers.judge.logs import patterns
from servers.models import LogChunk, Run
from servers.models.logs.log import NOTE

# At once: the tick in which it is done asks engines, too.
MOST_LINES, MOST_CHUNKS = 20_000, 32


def search(run: Run) -> None:
    """Go on from where the last look ended, and tell what was found."""
    launch = run.version.launch
    texts = {*launch.log_must, *launch.log_must_not} - run.log_found.keys()
    if not texts or run.log_lines <= run.log_searched:
        return
    lines = LogChunk.objects.lines(run.pk, run.log_searched, MOST_LINES, most=MOST_CHUNKS)
    if not lines:
        return
    written = ((line.number, line.text) for line in lines if line.stream != NOTE)
    found = patterns.search(written, texts)
    run.log_searched = lines[-1].number
    run.log_found |= found
    new = {"log_searched": run.log_searched, "log_found": run.log_found}
    Run.objects.filter(pk=run.pk).update(**new)
    if found:
        events.publish_change("server", run.server_id)
