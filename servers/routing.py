from django.urls import URLPattern, path

from servers.consumers.live import LiveConsumer

websocket_urlpatterns: list[URLPattern] = [
    path("ws/live/", LiveConsumer.as_asgi()),  # type: ignore[arg-type]
]
