"""URLs of pages and the API. Each page says its own beside its view (servers.views.access)."""

from importlib import import_module
from pkgutil import walk_packages

from django.urls import URLPattern, URLResolver, path

from servers import views
from servers.views.access import ROUTES
from servers.views.api import urls as api_urls
from servers.views.responses import redirect_old

for module in walk_packages(views.__path__, f"{views.__name__}."):
    import_module(module.name)


def _order(route: URLPattern) -> list[tuple[bool, str]]:
    """A word before whatever may stand in its place: profiles/new/ before profiles/<slug:slug>/."""
    return [(part.startswith("<"), part) for part in str(route.pattern).split("/")]


urlpatterns: list[URLPattern | URLResolver] = [
    *sorted(ROUTES, key=_order),
    path("alerts/outlets/", redirect_old("channels"), name="channels_old"),
    path("alerts/outlets/<int:pk>/", redirect_old("channel_edit"), name="channel_old"),
    path("images/logins/", redirect_old("registry_logins"), name="registry_logins_old"),
    path("images/logins/<int:pk>/", redirect_old("registry_login_edit"), name="registry_login_old"),
    path("api/v1/", api_urls),
]
