"""The words of ASGI that the gateway speaks."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

type Scope = MutableMapping[str, Any]
type Message = Mapping[str, Any]
type Receive = Callable[[], Awaitable[Message]]
type Send = Callable[[Message], Awaitable[None]]
type Application = Callable[[Any, Any, Any], Awaitable[None]]
