"""The ASGI application: the gateway, static files, Django, and WebSockets by servers.routing."""

import os

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application
from django.urls import re_path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "inferdash.settings")
django_application = get_asgi_application()

from inferdash.middleware import (  # noqa: E402
    LimitedBodies,  # noqa: E402 - Django must be set up first
    LoggedInSockets,
    SameOriginSockets,
    unknown_socket,
)
from inferdash.static_files import StaticFiles  # noqa: E402
from servers.gateway import Gateway  # noqa: E402
from servers.routing import websocket_urlpatterns  # noqa: E402

gateway = Gateway(LimitedBodies(django_application))
sockets = [*websocket_urlpatterns, re_path("", unknown_socket)]  # type: ignore[arg-type]
application = ProtocolTypeRouter(
    {
        "http": StaticFiles(gateway),
        "websocket": SameOriginSockets(AuthMiddlewareStack(LoggedInSockets(URLRouter(sockets)))),  # type: ignore[arg-type]
    }
)
