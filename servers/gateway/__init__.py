"""One OpenAI-compatible address for all engines of this box: a plain ASGI application."""

from servers.gateway.app import Gateway

__all__ = ["Gateway"]
