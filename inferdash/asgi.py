"""HTTP goes to Django, WebSockets to servers.routing."""

import os

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "inferdash.settings")
django_application = get_asgi_application()

from inferdash.middleware import (  # noqa: E402 - Django must be set up first
    LoggedInSockets,
    SameOriginSockets,
)
from servers.routing import websocket_urlpatterns  # noqa: E402

application = ProtocolTypeRouter(
    {
        "http": django_application,
        "websocket": SameOriginSockets(
            AuthMiddlewareStack(LoggedInSockets(URLRouter(websocket_urlpatterns)))  # type: ignore[arg-type]
        ),
    }
)
