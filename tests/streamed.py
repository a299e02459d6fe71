"""Answers that views send while they read on."""

from typing import Any


async def whole_of(answer: Any) -> bytes:
    return b"".join([part async for part in answer.streaming_content])
