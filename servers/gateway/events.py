"""Server-sent events that inferdash itself adds to an engine's stream."""

import json
from typing import Any


def event(name: str, data: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


def error(message: str, detail: str = "") -> bytes:
    # The blank line in front ends whatever event the engine was cut off in.
    return b"\n\n" + event("error", {"message": message, "detail": detail})
