"""WebSocket routes."""

from django.urls import URLPattern, path

from servers.consumers.live import LiveConsumer
from servers.consumers.log import LogConsumer
from servers.consumers.notices import NoticesConsumer

websocket_urlpatterns: list[URLPattern] = [
    path("ws/live/", LiveConsumer.as_asgi()),  # type: ignore[arg-type]
    path("ws/notices/", NoticesConsumer.as_asgi()),  # type: ignore[arg-type]
    path("ws/runs/<int:run_id>/log/", LogConsumer.as_asgi()),  # type: ignore[arg-type]
]
