"""Token counts of streams whose program did not ask for them: we ask, and keep that event to ourselves.

Without it nothing is known of what most chat pages use. Who has not asked must not see it: some
clients read the first of its choices, and it has none.
"""

import json
import re

from servers.launch.engines import ENGINES

PATHS = ("/v1/chat/completions", "/v1/completions")

_GAP = re.compile(rb"(\r?\n\r?\n)")
_NO_CHOICES = re.compile(rb'"choices":\s*\[\s*\]')


def asked_for(path: str, said: dict[str, object] | None, engine: str) -> dict[str, object]:
    """What is to be added to the body of a request; {} where nothing is."""
    if said is None or said.get("stream") is not True or path not in PATHS:
        return {}
    if not ENGINES[engine].counts_when_asked:
        return {}
    options = said.get("stream_options")
    if options is None:
        options = {}
    # What is no object, or says something strange, the engine refuses in its own words.
    if not isinstance(options, dict) or options.get("include_usage", False) is not False:
        return {}
    return {"stream_options": {**options, "include_usage": True}}


def drop_usage_event(events: bytes) -> bytes:
    """Whole events but the one that has the counts and nothing else."""
    if b'"usage"' not in events:
        return events
    parts = _GAP.split(events)
    return b"".join(
        event + gap
        for event, gap in zip(parts[::2], [*parts[1::2], b""], strict=True)
        if not _has_counts_alone(event)
    )


def _has_counts_alone(event: bytes) -> bool:
    if not event.startswith(b"data:") or not _NO_CHOICES.search(event):
        return False
    try:
        said = json.loads(event.removeprefix(b"data:"))
    except (ValueError, RecursionError):
        return False
    return (
        isinstance(said, dict)
        and said.get("choices") == []
        and isinstance(said.get("usage"), dict)
        and "error" not in said
    )
